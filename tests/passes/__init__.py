"""The tests of the passes."""

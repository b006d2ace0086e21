"""The tests of programs."""

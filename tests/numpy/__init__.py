"""The tests of the array functions."""

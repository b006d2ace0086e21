"""The tests of special functions."""

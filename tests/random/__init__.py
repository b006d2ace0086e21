"""The tests of random numbers."""

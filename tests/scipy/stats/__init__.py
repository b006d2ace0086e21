"""The tests of probability distributions."""

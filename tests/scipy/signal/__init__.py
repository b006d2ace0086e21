"""The tests of functions of signals."""

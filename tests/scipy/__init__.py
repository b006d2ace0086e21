"""The tests of SciPy's functions."""

"""The tests of the NumPy backend."""

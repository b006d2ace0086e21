"""Stubs for what the examples and `funcgrad.interop` use of scikit-learn, which ships no types."""

"""Stubs for what the examples use of scikit-learn, which ships no types."""

"""NumPy's functions and funcgrad's of the same names, on generated arguments, side by side."""

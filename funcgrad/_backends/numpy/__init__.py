"""The NumPy backend: a program becomes straight-line Python over NumPy. See README.md here."""

"""The operations behind ``funcgrad.scipy.special``, a file for each family."""

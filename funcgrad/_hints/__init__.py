"""Hints for names and options of other libraries, loaded at the first mistake."""

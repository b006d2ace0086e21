"""Hints for names and options of other libraries, loaded when the first mistake is made."""

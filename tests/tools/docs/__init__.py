"""The tests of the documentation: its pages, its reference, its search."""

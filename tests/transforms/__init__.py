"""The tests of the transformations."""

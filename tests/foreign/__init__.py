"""Functions of other libraries as operations."""

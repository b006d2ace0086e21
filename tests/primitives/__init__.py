"""The tests of the operations."""

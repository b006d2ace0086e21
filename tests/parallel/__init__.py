"""The tests of work on many workers."""

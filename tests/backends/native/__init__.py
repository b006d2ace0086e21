"""The tests of the native backend."""

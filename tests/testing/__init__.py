"""The tests of checks for users."""

"""The tests of the forms of programs."""

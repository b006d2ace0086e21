"""The tests of funcgrad, laid out as the package is."""

"""Tests of `funcgrad.implicit`."""

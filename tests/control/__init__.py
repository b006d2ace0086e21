"""Tests of `funcgrad.control`."""

"""Tests of `funcgrad._control`."""

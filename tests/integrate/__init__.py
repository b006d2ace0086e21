"""Tests of `funcgrad.integrate`."""

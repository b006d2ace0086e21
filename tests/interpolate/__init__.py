"""Tests of interpolation."""

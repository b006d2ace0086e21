"""Tests of ``fg.sparse``."""

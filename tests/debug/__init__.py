"""Tests of ``fg.debug``."""

"""Helpers that know nothing of tensors: locks, fast dataclasses, texts of records."""

"""Transformations."""

__all__: list[str] = []

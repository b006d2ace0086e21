"""Differential equations: solutions as functions. See README.md in this folder."""

__all__: list[str] = []

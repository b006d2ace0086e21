"""Backends: they turn a ``Program`` into a function that runs. See README.md in this folder."""

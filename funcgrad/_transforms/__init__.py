"""Transformations of functions: derivatives, batches, programs. See README.md in this folder."""

"""Declarations of operations and their structures, traces, shapes and dtypes, and pytrees."""

"""Declarations of operations, their structures, traces, shapes and dtypes, and pytrees."""

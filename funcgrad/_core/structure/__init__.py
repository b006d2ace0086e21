"""Structures: how elements of an operation's results depend on elements of its operands."""

"""How elements of an operation's results come from elements of its operands."""

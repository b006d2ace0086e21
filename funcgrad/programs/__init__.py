"""Programs: computations as values, and the questions that one asks of any program.

Not called ``program``, since ``fg.program`` is the function that makes one, and would hide it.
"""

"""Programs: computations as values, and what is asked of any of them.

Not called ``program``, since ``fg.program`` is the function that makes one, and would hide it.
"""

"""Programs: computations as values, and facts about them.

The package is not called ``program``: the function ``fg.program`` would hide it.
"""

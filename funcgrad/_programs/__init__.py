"""Programs: computations as values, and facts about them.

(A package called ``program`` would be hidden by the function ``fg.program``.)
"""

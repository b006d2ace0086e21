"""Mutation: one mistake at a time is planted into a copy of the package, and tests have to see it.

``mutants.py`` finds what could be mistaken in a source file, ``trial.py`` plants and runs tests.
``python -m tests.mutation funcgrad/passes/simplify.py`` tries a file and lists what was missed.
"""

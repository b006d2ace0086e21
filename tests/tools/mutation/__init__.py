"""Mutation: plant one mistake at a time into a copy of the package; tests have to fail.

``mutants.py`` lists the mistakes for a source file, ``trial.py`` plants them and runs tests.
``python -m tests.tools.mutation funcgrad/_passes/simplify.py`` tries a file, and lists what the
tests missed.
"""

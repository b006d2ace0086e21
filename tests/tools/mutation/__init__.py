"""Mutation: plant one mistake at a time into a copy of the package; tests have to fail.

``mutants.py`` lists the mistakes for a source file, ``reach.py`` knows which tests execute them,
and ``trial.py`` plants them and runs tests, in processes that have imported and collected before.
``project.py`` draws a sample of the whole package. ``python -m tests.tools.mutation
funcgrad/_passes/simplify.py`` tries a file, and lists the mistakes that the tests missed.
"""

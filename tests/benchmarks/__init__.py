"""What things take: benchmarks, which run once each as ordinary tests, and are timed on request.

Times compare two states of the code on one machine, and nothing else::

    python -m pytest tests/benchmarks -n 0 --benchmark-enable --benchmark-autosave   # before
    python -m pytest tests/benchmarks -n 0 --benchmark-enable --benchmark-compare    # after

How time and memory grow with the length of loops, in every way to run them::

    python -m tests.benchmarks.growth

What the gradient of every function costs, as a multiple of the function::

    python -m tests.benchmarks.gradients

and what each pass is worth to programs as people write them::

    python -m tests.benchmarks.worth

No test asserts a time. What a benchmark computes is checked.
"""

"""Benchmarks, which run once each as ordinary tests, and are timed on request.

Times compare two versions of the code on one machine, and nothing else::

    python -m pytest tests/tools/benchmarks -n 0 --benchmark-enable --benchmark-autosave   # before
    python -m pytest tests/tools/benchmarks -n 0 --benchmark-enable --benchmark-compare    # after

How time and memory grow with the length of loops, in every way to run them::

    python -m tests.tools.benchmarks.growth

The cost of the gradient of every function, as a multiple of the function::

    python -m tests.tools.benchmarks.gradients

the benefit of each pass for realistic programs::

    python -m tests.tools.benchmarks.worth

and programs of practice jitted by either backend, and by JAX where it is installed::

    python -m tests.tools.benchmarks.native

and two threads beside one::

    python -m tests.tools.benchmarks.threads

and steps on an accelerator beside JAX's::

    python -m tests.tools.benchmarks.accelerators

No test asserts a time. The results of benchmarks are checked.
"""

"""GradBench's evaluations by funcgrad, by JAX, and by C++ written by hand, side by side.

The evaluations are those of https://github.com/gradbench/gradbench, four of which it has from
ADBench (arXiv 1807.10129); inputs are drawn anew, in the same shapes. ``evaluation.py`` says what
an evaluation is, ``elementary.py``, ``adbench.py`` and ``nested_descent.py`` have them, each as one
source for both libraries, and ``by_hand.py`` builds the C++ where there is a compiler::

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python -m tests.tools.benchmarks.gradbench
    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python -m tests.tools.benchmarks.gradbench --only gmm
"""

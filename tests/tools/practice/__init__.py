"""Programs of practice, each as a user writes it, from one source for funcgrad and for JAX.

What a program is, is in ``task.py``; which functions of a library it calls, in ``libraries.py``.
The tests run them all eagerly and jitted, at small sizes, and
``python -m tests.tools.benchmarks.native`` measures them.
"""

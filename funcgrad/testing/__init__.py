"""Checks for your own code: whether its derivatives, and your own operations, are right.

``check_grads`` compares the derivatives that funcgrad computes with numerical ones, and raises a
``CheckError`` that says where they differ:

>>> import funcgrad as fg
>>> import funcgrad.testing as testing
>>> testing.check_grads(lambda x, y: x * y**2, (2.0, 3.0))

>>> @fg.custom_jvp
... def cube(x):
...     return x * x * x
>>> @cube.defjvp
... def cube_jvp(primals, tangents):
...     (x,), (t,) = primals, tangents
...     return cube(x), 2 * x * x * t
>>> testing.check_grads(cube, (2.0,), order=1, modes=("fwd",))
Traceback (most recent call last):
    ...
funcgrad.errors.CheckError: check_grads: forward mode is wrong for cube (order 1).
...

``check_primitive`` checks an operation that was declared with ``fg.extend`` at all of its samples:
rules, structure, batches, programs and files. The report lists all failures.

``check_backend`` checks that a backend of your own runs every kind of program correctly.
"""

from typing import TYPE_CHECKING

from funcgrad.foreign_names import missing_from as _missing_from
from funcgrad.testing.backend_check import check_backend
from funcgrad.testing.gradients import check_grads, check_jvp, check_vjp
from funcgrad.testing.operations.conformance import check_primitive

__all__ = ["check_backend", "check_grads", "check_jvp", "check_primitive", "check_vjp"]


if not TYPE_CHECKING:  # which know the names that there are
    __getattr__ = _missing_from(__name__)


def __dir__() -> list[str]:
    """List the public names for completion, without the modules."""
    return list(__all__)

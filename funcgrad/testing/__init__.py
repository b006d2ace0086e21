"""Checks for your own code: its derivatives, operations, layers, optimizers and backends.

``check_grads`` compares the derivatives of funcgrad with numerical derivatives, and raises a
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

``laws`` are properties that hold at every point, ``strategies`` draw points with Hypothesis,
``holds`` makes tests of both, and ``would_notice`` asks which mistakes a test would miss.

``check_primitive`` checks an operation that was declared with ``fg.extend`` at all of its samples:
rules, structure, batches, programs and files. ``check_optimizer``, ``check_layer`` and
``check_backend`` do the same for optimizers, layers and backends of your own.

``validated`` tries every pass of the compiler while functions are compiled.

``away_from_kinks`` moves arguments to a point where no operation of a function is at a kink.
"""

from typing import TYPE_CHECKING

from funcgrad._hints.lazy_names import LateNames as _LateNames

if TYPE_CHECKING:
    from funcgrad.testing import laws, strategies
    from funcgrad.testing.assertions import assert_trees_close, max_variants
    from funcgrad.testing.backend_check import check_backend
    from funcgrad.testing.gradients import check_grads, check_jvp, check_vjp
    from funcgrad.testing.held_laws import holds
    from funcgrad.testing.operations.conformance import check_primitive
    from funcgrad.testing.planted_mistakes import Mistake, Notice, would_notice
    from funcgrad.testing.points import away_from_kinks
    from funcgrad.testing.suites import check_layer, check_optimizer
    from funcgrad.testing.validation import validated

__all__ = [
    "Mistake",
    "Notice",
    "assert_trees_close",
    "away_from_kinks",
    "check_backend",
    "check_grads",
    "check_jvp",
    "check_layer",
    "check_optimizer",
    "check_primitive",
    "check_vjp",
    "holds",
    "laws",
    "max_variants",
    "strategies",
    "validated",
    "would_notice",
]

_LATE = _LateNames(
    __name__,
    {
        "": "laws strategies",
        "assertions": "assert_trees_close max_variants",
        "backend_check": "check_backend",
        "gradients": "check_grads check_jvp check_vjp",
        "held_laws": "holds",
        "operations.conformance": "check_primitive",
        "planted_mistakes": "Mistake Notice would_notice",
        "points": "away_from_kinks",
        "suites": "check_layer check_optimizer",
        "validation": "validated",
    },
)

if not TYPE_CHECKING:  # type checkers see the names above, and report others
    __getattr__ = _LATE.load
__dir__ = __all__.copy  # completion shows the public names, without the modules

"""Changes of what a jitted function reads from outside of its arguments."""

from io import StringIO
from typing import TYPE_CHECKING, Any

from numpy.testing import assert_array_equal

import funcgrad as fg


def check(f, *changes, staged=None):
    """Check that calls have the function's results before and after each of some changes."""
    staged = fg.jit(f) if staged is None else staged
    for change in (lambda: None, *changes):
        change()
        for _ in range(2):
            assert_array_equal(staged(1.0), f(1.0))


def stagings(f, *changes):
    """How often a function is staged in calls between changes."""
    log = StringIO()

    def run(x):
        log.write("|")
        return f(x)

    staged = fg.jit(run)
    staged(1.0)
    for change in changes:
        change()
        staged(1.0)
    return len(log.getvalue())


def sets(owner, name, value):
    return lambda: setattr(owner, name, value)


class Bag:
    """An object with attributes."""

    def __init__(self, **attributes):
        self.__dict__.update(attributes)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

"""One path of a function that is staged for all examples of a batch, though it branches.

A program is written for all values, so it cannot divide a batch. The function runs once for each
path that its answers to ``if`` could take, on all examples; a mask says which examples take it.

>>> import funcgrad as fg
>>> def relu(x):
...     return x if x > 0 else 0.0
>>> staged = fg.program(fg.vmap(relu))(fg.tensor([1.0, -1.0]))
>>> [equation.operation.name for equation in staged.equations][-1]
'where'
>>> staged(fg.tensor([-3.0, 4.0]))
Tensor([0., 4.])
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack, suppress
from math import prod
from typing import Any, Final

import numpy as np

from funcgrad._base.users_line import users_line
from funcgrad._core.specs import dtype_of, shape_of
from funcgrad._core.trace import Raw, Value
from funcgrad._primitives.logic import logical_and, logical_not, not_equal
from funcgrad._primitives.structural import reshape
from funcgrad._transforms.active_examples import with_active
from funcgrad._transforms.answers import UnstagedError

MOST_PATHS: Final = 16
"""The most paths that one program has."""


class StagedPath:
    """The answers along a path, and the mask of the examples that take it.

    Parameters
    ----------
    script : tuple of bool
        The answers to the first looks; later ones are true at first, and false in another run.

    Attributes
    ----------
    answers : list of (str, bool)
        The lines that looked at a value, each with the answer.
    mask : value
        The examples that answer so, from outside the batch; None for all.
    others : list of tuple of bool
        The scripts of the paths that turn off at a new look.
    refused : UnstagedError or None
        The error, if the function cannot be staged.
    """

    __slots__ = ("_active", "_script", "answers", "mask", "others", "refused")

    def __init__(self, script: tuple[bool, ...] = ()) -> None:
        self._script = script
        self._active = ExitStack()
        self.answers: list[tuple[str, bool]] = []
        self.mask: Value = None
        self.others: list[tuple[bool, ...]] = []
        self.refused: UnstagedError | None = None

    def choose(self, batcher: Any, data: Value, use: str) -> Raw:
        """Answer a look at a value, whose batch is on axis 0, and keep who would answer so."""
        line = users_line()
        shape = shape_of(data)
        if not use.startswith("bool(t)"):
            word = use.partition(",")[0]
            raise self._refuse(
                f"needs {word} of each example at {line}, whose number no program knows"
            )
        if prod(shape[1:]) != 1:
            return np.zeros(shape[1:], np.bool_)  # which has no truth value, and is refused
        place = len(self.answers)
        if place < len(self._script):
            answer = self._script[place]
        else:
            answer = True
            self.others.append((*[answer for _, answer in self.answers], False))
            if place >= MOST_PATHS:
                raise self.too_many()
        self.answers.append((line, answer))
        condition = data if dtype_of(data) == np.bool_ else not_equal(data, 0)
        condition = reshape(condition, shape=shape[:1]) if len(shape) > 1 else condition
        taken = condition if answer else logical_not(condition)
        self.mask = taken if self.mask is None else logical_and(self.mask, taken)
        self._active.enter_context(with_active(batcher.follow(taken)))
        return np.bool_(answer)

    def too_many(self) -> UnstagedError:
        """The error for more paths than a program has, which names the line that looks most."""
        if not self.answers:
            return self._refuse(f"takes more than {MOST_PATHS} paths over a batch")
        line, _ = Counter([line for line, _ in self.answers]).most_common(1)[0]
        return self._refuse(
            f"takes more than {MOST_PATHS} paths over a batch, most by the answers at {line}, and"
            " a program has to have them all. Write a loop whose number of steps depends on the"
            " example as fg.while_loop"
        )

    def _refuse(self, reason: str) -> UnstagedError:
        self.refused = UnstagedError(reason)
        return self.refused

    def close(self) -> None:
        """End the run: all examples take part again."""
        with suppress(ValueError):  # a look in another thread
            self._active.close()

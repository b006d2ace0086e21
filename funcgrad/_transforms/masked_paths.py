"""The paths of a batch inside of other batches, when its examples' answers form many patterns.

Where an inner batch looks at values that differ between the examples of a batch around it, each
example of the outer batch has a pattern of inner answers, and the outer batch would have to be
divided by them: a batch of 100 batches into 100 groups. Instead the inner function runs for
all pairs along each path that some pair takes, and masks select. Nothing around is divided.

>>> import funcgrad as fg
>>> def relu(x):
...     return x if x > 0 else 0.0
>>> rows = fg.tensor([[1.0, -1.0], [-1.0, 1.0], [2.0, 3.0], [-2.0, -4.0]])
>>> fg.vmap(fg.vmap(relu))(rows)
Tensor([[1., 0.],
        [0., 1.],
        [2., 3.],
        [0., 0.]])
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, suppress
from math import prod
from typing import Any, Final

import numpy as np

from funcgrad._base.floating_errors import notices_errors
from funcgrad._base.users_line import users_line
from funcgrad._core.specs import dtype_of, shape_of
from funcgrad._core.trace import RAW, Raw, Value
from funcgrad._primitives.logic import logical_and, logical_not, not_equal
from funcgrad._primitives.structural import reshape
from funcgrad._transforms.active_examples import batches_of, with_active
from funcgrad._transforms.answers import UnstagedError, agree, answers_of

_FEW_PATTERNS: Final = 4
_PAIRS_FOR_A_PATTERN: Final = 1000
"""A run that a pattern costs takes as long as an operation on so many more elements."""


class MaskedPath:
    """The answers along a path that all pairs of examples go, and the mask of those who take it.

    Parameters
    ----------
    most : int
        The most paths that are worth it.
    script : tuple of bool
        The answers where pairs differ; later ones are true at first, and false in another run.

    Attributes
    ----------
    answers : list of (str, bool)
        The lines where pairs differed, each with the answer.
    mask : value
        The examples that answer so, from outside the batch; None for all.
    others : list of tuple of bool
        The scripts of the paths that turn off at a new look.
    refused : bool
        Whether the batch has to be divided after all.
    """

    __slots__ = ("_active", "_script", "answers", "mask", "most", "others", "refused")

    def __init__(self, most: int, script: tuple[bool, ...] = ()) -> None:
        self.most = most
        self._script = script
        self._active = ExitStack()
        self.answers: list[tuple[str, bool]] = []
        self.mask: Value = None
        self.others: list[tuple[bool, ...]] = []
        self.refused = not most

    def choose(self, follow: Callable[[Value], Value], data: Value, use: str) -> Raw:
        """Answer a look at a value, whose batch is on axis 0, and keep who would answer so.

        ``follow`` makes a tracer of the batch.
        """
        if not _is_flag(data, use):
            self.refused = True
            raise UnstagedError("looks at more than truth values of a batch inside of another one")
        condition = _flag(data)
        yes, no = condition, logical_not(condition)
        if self.mask is not None:
            yes, no = logical_and(self.mask, yes), logical_and(self.mask, no)
        anyone, not_all = np.any(_numbers(yes)), np.any(_numbers(no))
        if not (anyone and not_all):
            return np.bool_(anyone)
        place = len(self.answers)
        answer = place >= len(self._script) or self._script[place]
        if place >= len(self._script):
            self.others.append((*[answer for _, answer in self.answers], False))
        self.answers.append((users_line(), answer))
        self.mask = yes if answer else no
        self._active.enter_context(with_active(follow(self.mask)))
        return np.bool_(answer)

    def close(self) -> None:
        """End the run: all examples take part again."""
        with suppress(ValueError):  # a look in another thread
            self._active.close()


def path_for_patterns(size: int, data: Value, use: str) -> MaskedPath | None:
    """A path for a batch of some size, if the answers to a look at it form many patterns.

    None if it is in no other batch that is evaluated, or if dividing that one is as quick. Where
    floating-point errors matter to the user, pairs must not run along paths that they do not take.
    """
    if not _is_flag(data, use) or not batches_of(data) or notices_errors():
        return None
    flags = _numbers(_flag(data))
    if agree(flags):
        return None
    patterns = len(np.unique(answers_of(flags.reshape(-1, size), "")))
    if patterns < _FEW_PATTERNS or patterns * _PAIRS_FOR_A_PATTERN < flags.size:
        return None
    return MaskedPath(patterns)


def _is_flag(data: Value, use: str) -> bool:
    return use.startswith("bool(t)") and prod(shape_of(data)[1:]) == 1


def _flag(data: Value) -> Value:
    """The truth values of a batch of single elements, of one axis."""
    condition = data if dtype_of(data) == np.bool_ else not_equal(data, 0)
    return reshape(condition, shape=shape_of(data)[:1])


def _numbers(value: Value) -> np.ndarray[Any, Any]:
    """The raw array inside a value, with the examples of all batches."""
    while type(value) not in RAW:
        value = value._trace.inner(value)
    return np.asarray(value)

"""The answers that examples of a batch give where a function looks at a value in Python.

``if x > 0`` asks each example for a truth value, ``range(int(n))`` for an integer, ``float(x)`` for
a number. Examples with the same answer go on together; those with different answers are divided.

>>> answers_of(np.array([0.5, -1.0, np.nan, 0.0]), "bool(t)")
array([ True,  True,  True, False])
>>> [rows.tolist() for rows in rows_by_answer(answers_of(np.array([2, 7, 2]), "int(t)"))]
[[0, 2], [1]]
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from funcgrad._base.users_line import users_line
from funcgrad._core.context import current
from funcgrad._core.trace import RAW, Raw, Value
from funcgrad.errors import BatchError, TracerError

Rows = np.ndarray[Any, Any]
"""The positions of some examples in their batch, in order."""

LOOKS: Final = (
    "bool(t)",
    "complex(t)",
    "float(t)",
    "format(t",
    "int(t)",
    "round(t)",
    "t as an index",
    "t.item()",
    "t.tolist()",
)
"""Uses by control flow. Others hand whole arrays to other code, or decide shapes of results."""

_CONVERSIONS: Final = (("bool(t)", "bool"), ("int(t)", "int"), ("t as", "int"), ("round", "round"))


OF_VALUES: Final = np.linalg.LinAlgError, IndexError, FloatingPointError
"""Errors that an operation raises for some values and not for others."""


class Division(BaseException):
    """A division of examples that give different answers; it is raised to abandon a run.

    It derives from ``BaseException``, so that ``except Exception`` in the user's function lets it
    pass.

    Attributes
    ----------
    level : int
        The level of the trace of the batch.
    groups : list of (object, Rows)
        Each answer, with the examples that give it.
    size : int
        The number of examples.
    line : str
        The user's line that looked at the value.
    largest : int
        The place of the group with which the run goes on; -1 if it is abandoned.
    """

    def __init__(self, level: int, groups: list[tuple[object, Rows]], size: int) -> None:
        super().__init__("vmap divides the examples of a batch")
        self.level = level
        self.groups = groups
        self.size = size
        self.line = users_line()
        self.largest = -1

    @property
    def rows(self) -> Rows:
        """The examples with which the run goes on."""
        return self.groups[self.largest][1]

    def check_arrival(self, error: BaseException | None) -> None:
        """Raise if the function went on after it was abandoned: it swallowed the exception."""
        for arrived in (error, None if error is None else error.__cause__):
            # Another thread of the function may have looked at a value as well. NumPy makes the
            # exception of ``out[0] = t`` the cause of one of its own.
            if isinstance(arrived, Division) and arrived.level == self.level:
                arrived.__traceback__ = None  # whose frames hold the exception
                return
        traceback = self.__traceback__
        place = self.line
        if traceback is not None:  # which begins in the frame that caught the exception
            code = traceback.tb_frame.f_code.co_filename.replace("\\", "/").rpartition("/")[2]
            place = f"{code}:{traceback.tb_lineno}"
        raise BatchError(
            f"vmap: the examples give different answers at {self.line}, so the function is run"
            " again for each answer, and this run is abandoned by an exception. The function"
            f" swallowed the exception at {place}: by `except:`, `except BaseException`,"
            " contextlib.suppress(BaseException), or an __exit__ that returns True. Write"
            " `except Exception`, or name the exceptions that are meant."
        ) from error


class Stopped(BaseException):
    """Raised to abandon a run of a staged function, when it has told its reason.

    It derives from ``BaseException``, so that ``except Exception`` in the user's function lets it
    pass.
    """


class UnstagedError(TracerError):
    """A function that no program can stand for: it takes too many paths, or catches errors.

    Attributes
    ----------
    reason : str
        The reason, for a warning of ``jit``, which then runs the function without staging it.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"The function cannot be staged: {reason}.")
        self.reason = reason


def refusal(use: str) -> TracerError:
    """The error where a value of a batch has no number that dividing the examples would give."""
    if use.startswith(LOOKS):
        remedy = (
            "Without branches=False, vmap follows `if` and other control flow; with it, choose by"
            " fnp.where(condition, a, b)."
        )
    else:
        remedy = (
            "Keep one shape for all examples and mask elements, as with fnp.where(mask, x, other)"
            " or fnp.sum(x, where=mask); or run one example after another with fg.map."
        )
    return TracerError(
        f"{use}: inside vmap this stands for one example of a batch, so it has no single"
        f" value to use here. {remedy} Pass values that do not depend on the batch with"
        " in_axes=None."
    )


def is_staged(data: Value) -> bool:
    """Whether the elements of a value are unknown, since a program is being written."""
    while type(data) not in RAW:
        trace = data._trace
        if trace is not None and not trace.is_batch and not trace.has_numbers:
            return True
        if trace is not None and trace.is_remote:  # numbers there, not copied
            return False
        data = data._value
    return False


def answers_of(raw: Raw, use: str) -> np.ndarray[Any, Any]:
    """A key for each example on axis 0; it is equal where the use of the example has one result.

    Truth values and integers are compared as such, others by their bits: -0.0 is not 0.0.
    """
    numbers = np.asarray(raw)
    conversion = next((name for start, name in _CONVERSIONS if use.startswith(start)), "")
    if conversion == "bool":
        keys = numbers if numbers.dtype == np.bool_ else numbers != 0
    elif conversion and numbers.dtype.kind == "f":
        keys = (np.rint if conversion == "round" else np.trunc)(numbers) + 0.0
    else:
        keys = numbers
    if keys.ndim == 1 and keys.dtype.kind in "biu":
        return keys
    keys = np.ascontiguousarray(keys).reshape(len(keys), -1)
    width = keys.itemsize * keys.shape[1]
    if not width:
        return np.zeros(len(keys), np.bool_)
    return keys.view(np.dtype((np.void, width))).reshape(-1)


def agree(answers: np.ndarray[Any, Any]) -> bool:
    """Whether all examples give one answer."""
    if answers.dtype == np.bool_:
        return np.count_nonzero(answers) in (0, answers.size)
    return bool((answers == answers[0]).all())


def rows_by_answer(answers: np.ndarray[Any, Any]) -> list[Rows]:
    """The examples that give each answer, in the order of their first examples."""
    _, labels = np.unique(answers, return_inverse=True)
    labels = labels.reshape(-1)
    order = np.argsort(labels, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)
    return sorted(groups, key=lambda rows: int(rows[0]))


def answer_in_words(raw: Raw, use: str) -> object:
    """The answer of an example, as Python has it."""
    numbers = np.asarray(raw)
    if numbers.size != 1:
        return f"{numbers.dtype}{list(numbers.shape)}" if numbers.size > 4 else numbers.tolist()
    number = numbers.item()
    try:
        if use.startswith("bool(t)"):
            return bool(number)
        return int(number) if use.startswith(("int(t)", "t as")) else number
    except (ValueError, OverflowError):  # int(nan)
        return number


def active_rows(batcher: object, size: int) -> np.ndarray[Any, Any] | None:
    """Which examples of a batch take part in a loop or a branch; None if all, or unknown."""
    mask = current().active_examples
    while mask is not None and type(mask) not in RAW and mask._trace is not batcher:
        mask = mask._value
    if mask is None or type(mask) in RAW:
        return None
    inside = mask._trace.inner(mask)
    while type(inside) not in RAW:
        if inside._trace is not None and inside._trace.is_batch:
            return None
        inside = inside._value
    flags = np.asarray(inside)
    return flags if flags.shape == (size,) and flags.any() else None

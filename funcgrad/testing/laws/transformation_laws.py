"""Laws of transformations: a batch is a loop, jit changes nothing, and functions are pure."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from types import FunctionType
from typing import Any, Final

import numpy as np

from funcgrad._base.floating_errors import quiet
from funcgrad._core import pytrees
from funcgrad._core.specs import dtype_of, is_inexact
from funcgrad._core.users_values import ArrayLike
from funcgrad._hooks.key_uses import repetition
from funcgrad._staging.jit import jit
from funcgrad._transforms.batch import vmap
from funcgrad._transforms.reverse import vjp
from funcgrad.errors import CheckError
from funcgrad.numpy.joining import stack
from funcgrad.tensor.tensor import tensor, wrap
from funcgrad.testing.laws.derivative_laws import jvp_of, vjp_of
from funcgrad.testing.laws.trials import (
    Claim,
    LawAtPoint,
    arrays,
    called,
    changed_point,
    judge,
    leaves_of,
    trial_of,
)
from funcgrad.testing.report import example_text, note, row
from funcgrad.testing.subject import Array, Pytree

_EXAMPLES: Final = 3
_DTYPES: Final = ("float32", "float64")
_NEAR: Final = 2.0**-10


def vmap_is_loop(f: Callable[..., Any], args: Sequence[Any], *, seed: int = 0) -> None:
    """Check that ``vmap(f)`` and its pullback agree with a loop over examples.

    Parameters
    ----------
    f, args, seed
        See ``modes_agree``. The batch consists of the point and of points near it.

    Raises
    ------
    CheckError
        The results differ by more than rounding, or in their shapes.

    Examples
    --------
    >>> import funcgrad as fg
    >>> vmap_is_loop(lambda x: x / fg.numpy.sum(x), (fg.tensor([0.5, 1.25]),))
    """
    trial = trial_of("laws.vmap_is_loop", f, args, seed)
    steps = [
        [np.asarray(v * v.dtype.type(k * _NEAR)) for v in trial.direction()]
        for k in range(_EXAMPLES)
    ]
    cts = [trial.cotangents() for _ in range(_EXAMPLES)]

    def compute(point: Sequence[Any]) -> tuple[list[Array], list[Array], list[Any]]:
        rows = [[wrap(x) + v for x, v in zip(point, step, strict=True)] for step in steps]
        one_by_one = [_with_pullback(trial, x, ct) for x, ct in zip(rows, cts, strict=True)]
        loop = [np.stack([np.asarray(y) for y in ys]) for ys in zip(*one_by_one, strict=True)]
        columns = [stack(list(column)) for column in zip(*rows, strict=True)]
        stacked_cts = [np.stack(list(column)) for column in zip(*cts, strict=True)]
        batch = vmap(lambda x, ct: _with_pullback(trial, x, ct))(columns, stacked_cts)
        return [np.asarray(y) for y in batch], loop, [0.0] * len(loop)

    judge(
        trial,
        Claim(
            f"vmap of {trial.subject.title} is not the loop over its examples.",
            ("vmap", "loop"),
            _names(trial),
            compute,
        ),
    )


def _names(trial: LawAtPoint) -> list[str]:
    gradients = [f"gradient in {name}" for name in trial.subject.names]
    return [*trial.subject.result_names, *gradients]


def _with_pullback(trial: LawAtPoint, point: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
    values, pullback = vjp(trial.subject.function, *point)
    return [*values, *pullback([wrap(ct) for ct in cts])]


def jit_is_eager(f: Callable[..., Any], args: Sequence[Any], *, seed: int = 0) -> None:
    """Check that ``jit(f)`` agrees with ``f``: values, dtypes, structure, and the pullback.

    Parameters
    ----------
    f, args, seed
        See ``modes_agree``. The function is called at the point, and then at a point near it.

    Raises
    ------
    CheckError
        The results differ by more than rounding, in their dtypes or in their structure.

    Examples
    --------
    >>> import funcgrad as fg
    >>> jit_is_eager(lambda x: {"a": fg.numpy.exp(x), "n": 3}, (fg.tensor([0.5, 1.25]),))
    """
    law = "laws.jit_is_eager"
    trial = trial_of(law, f, args, seed)
    eager, names, structure = leaves_of(law, f(*trial.args))
    jitted = jit(f)
    staged, _, structure_of_staged = leaves_of(law, jitted(*trial.args))
    if structure != structure_of_staged:
        rows = [row("jit", str(structure_of_staged)), row("eager", str(structure))]
        raise trial.fail(f"jit of {trial.subject.title} returns another structure.", rows)
    for name, one, other in zip(names, staged, eager, strict=True):
        same = is_inexact(other.dtype) or np.array_equal(one, other)
        if one.dtype != other.dtype or one.shape != other.shape or not same:
            rows = [row("place", name), row("jit", repr(one)), row("eager", repr(other))]
            raise trial.fail(f"jit of {trial.subject.title} returns something else.", rows)
    near = [np.asarray(v * v.dtype.type(_NEAR)) for v in trial.direction()]
    cts = trial.cotangents()
    both = jit(lambda x: _with_pullback(trial, x, cts))

    def compute(point: Sequence[Any]) -> tuple[list[Array], list[Array], list[Any]]:
        first, second = [], []
        for x in (list(point), [wrap(x) + v for x, v in zip(point, near, strict=True)]):
            whole = changed_point(trial, x)
            first += [*_inexact(jitted(*whole)), *both([wrap(value) for value in x])]
            second += [*_inexact(f(*whole)), *_with_pullback(trial, x, cts)]
        return arrays(first), arrays(second), [0.0] * len(first)

    sentence = f"jit changes the results of {trial.subject.title}."
    names = [*trial.subject.result_names, *_names(trial)]
    judge(trial, Claim(sentence, ("jit", "eager"), 2 * names, compute))


def _inexact(out: Pytree) -> list[Any]:
    return [leaf for leaf in pytrees.leaves(out) if is_inexact(dtype_of(tensor(leaf)))]


def pure(f: Callable[..., Any], args: Sequence[Any], *, seed: int = 0) -> None:
    """Check that a function is pure: no side effects, and bit-for-bit equal results.

    It compares the results of two calls; the arguments before and after; and the lists,
    dictionaries, sets and arrays that the function reads from its closure and from globals.

    Parameters
    ----------
    f : callable
    args : tuple of pytrees
        Arguments of any dtypes; the function must not write to NumPy arrays among them.
    seed : int
        Not used; nothing is drawn.

    Raises
    ------
    CheckError
        A second call returns something else, or a call changes its arguments or outside values.

    Examples
    --------
    >>> import funcgrad as fg
    >>> pure(fg.numpy.sin, (0.5,))
    >>> calls = []
    >>> def counted(x):
    ...     calls.append(x)
    ...     return x * len(calls)
    >>> pure(counted, (0.5,))
    Traceback (most recent call last):
        ...
    funcgrad.errors.CheckError: laws.pure: counted changes calls, which it reads from outside.
    ...
    """
    law = "laws.pure"
    args = called(law, f, args)
    title = getattr(f, "__name__", type(f).__name__)

    def fail(sentence: str, rows: Sequence[str] = ()) -> CheckError:
        note(np.inf)
        return CheckError(
            "\n".join([f"{law}: {sentence}", *rows, *example_text(law, f, args, seed)])
        )

    outside = {name: (value, _copied(value)) for name, value in _read_outside(f)}
    before = _copied(args)
    first, names, structure = leaves_of(law, f(*args))
    for name, (value, copied) in outside.items():
        if not _equal(value, copied):
            raise fail(f"{title} changes {name}, which it reads from outside.")
    if not _equal(args, before):
        raise fail(f"{title} changes its arguments.", ["  Return a changed copy instead."])
    with repetition():
        second, _, structure_of_second = leaves_of(law, f(*args))
    if structure != structure_of_second:
        rows = [row("first", str(structure)), row("second", str(structure_of_second))]
        raise fail(f"a second call of {title} returns another structure.", rows)
    for name, one, other in zip(names, first, second, strict=True):
        if one.dtype != other.dtype or one.shape != other.shape or one.tobytes() != other.tobytes():
            rows = [row("place", name), row("first", repr(one)), row("second", repr(other))]
            raise fail(f"a second call of {title} returns something else.", rows)
    note(0.0)


def _read_outside(f: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """Yield the mutable values that the code of a function names."""
    if not isinstance(f, FunctionType):
        return
    code = f.__code__
    for name, cell in zip(code.co_freevars, f.__closure__ or (), strict=True):
        try:
            value = cell.cell_contents
        except ValueError:  # not bound yet
            continue
        if isinstance(value, (list, dict, set, bytearray, np.ndarray)):
            yield name, value
    for name in code.co_names:
        value = f.__globals__.get(name)
        if isinstance(value, (list, dict, set, bytearray, np.ndarray)):
            yield name, value


def _copied(value: object) -> Any:
    """Copy containers and arrays; other objects stay."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return type(value)([_copied(item) for item in value])
    return copy.copy(value) if isinstance(value, (set, bytearray)) else value


def _bits(array: np.ndarray[Any, Any]) -> Any:
    return array.tolist() if array.dtype.hasobject else array.tobytes()


def _equal(one: object, other: object) -> bool:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        alike = one.dtype == other.dtype and one.shape == other.shape
        return bool(alike and _bits(one) == _bits(other))
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(_equal(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        if type(one) is not type(other) or type(one) not in (list, tuple):
            return one is other
        return len(one) == len(other) and all(map(_equal, one, other))
    return one is other or (isinstance(one, (set, bytearray)) and bool(one == other))


def dtype_kept(f: Callable[..., Any], args: Sequence[Any], *, seed: int = 0) -> None:
    """Check that results, tangents and gradients have the precision of the arguments.

    The arguments are cast to float32 and to float64 (complex64 and complex128). A float64 array
    inside the function, such as ``np.ones(3)``, shows as a result that is too wide.

    Parameters
    ----------
    f, args, seed
        See ``modes_agree``.

    Raises
    ------
    CheckError
        A result has another precision.

    Examples
    --------
    >>> import funcgrad as fg
    >>> dtype_kept(lambda x: 2 * x, (0.5,))
    >>> import numpy as np
    >>> dtype_kept(lambda x: x * np.ones(2), (fg.tensor([0.5, 1.25]),))
    Traceback (most recent call last):
        ...
    funcgrad.errors.CheckError: laws.dtype_kept: the function does not keep float32.
    ...
    """
    law = "laws.dtype_kept"
    trial_of(law, f, args, seed)
    for dtype in _DTYPES:
        cast = tuple(
            [pytrees.map(lambda leaf, dtype=dtype: _cast(leaf, dtype), arg) for arg in args]
        )
        trial = trial_of(law, f, cast, seed)
        with quiet(), repetition():
            pushed = jvp_of(trial, trial.point, trial.direction())
            pulled = vjp_of(trial, trial.point, trial.cotangents())
        names = trial.subject.result_names
        checked = [
            *zip(names, trial.subject.values, strict=True),
            *zip([f"tangent of {name}" for name in names], pushed, strict=True),
            *zip([f"gradient in {name}" for name in trial.subject.names], pulled, strict=True),
        ]
        for name, value in checked:
            if value.real.dtype != dtype:
                note(np.inf)
                rows = [row("place", name), row("dtype", f"{value.dtype}, for {dtype} arguments")]
                raise trial.fail(f"{trial.subject.title} does not keep {dtype}.", rows)
    note(0.0)


def _cast(leaf: ArrayLike, dtype: str) -> Any:
    if not is_inexact(dtype_of(tensor(leaf))):
        return leaf
    array = np.asarray(tensor(leaf))
    is_complex = array.dtype.kind == "c"
    return wrap(array.astype(np.result_type(dtype, np.complex64) if is_complex else dtype))

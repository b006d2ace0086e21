"""Check that results are finite, and find out why one is not.

>>> import funcgrad as fg
>>> def loss(x):
...     return fg.numpy.sum(fg.numpy.sqrt(x) * fg.numpy.array([1.0, 0.0]))
>>> nans(fg.grad(loss))(fg.tensor([4.0, 9.0]))
Tensor([0.25, 0.  ])
>>> nans(fg.grad(loss))(fg.tensor([4.0, 0.0]))
Traceback (most recent call last):
    ...
funcgrad.errors.NonFiniteError: nans: grad of loss: gradient[1] is nan (1 of 2 elements ...
  Cause: multiply in the pull of sqrt at <doctest ...>:2: multiply(0.0, inf) = nan, at [1].
...
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import isfinite
from typing import Any, Final, ParamSpec, TypeVar

import numpy as np

from funcgrad._base.floating_errors import ignoring, quiet
from funcgrad._core import pytrees
from funcgrad._core.trace import Raw
from funcgrad._hooks.result_watch import WATCH, WATCHING, ResultWatch, unwatched, watched_by
from funcgrad._staging.jit import Jitted
from funcgrad._transforms.arguments import check_function
from funcgrad._transforms.transformed import LinearMap, Transformed
from funcgrad.debug.causes import Cause, causes_of
from funcgrad.debug.replays import on_host, replay
from funcgrad.errors import NonFiniteError
from funcgrad.tensor.tensor import Tensor

P = ParamSpec("P")
R = TypeVar("R")

_MOST_CAUSES: Final = 5
"""The maximum number of causes that are shown."""


def nans(f: Callable[P, R]) -> Callable[P, R]:
    """Make a function that raises an error with the cause if a result is NaN or infinite.

    Wrap the outermost function: ``nans(jit(grad(loss)))``. Finite results cost almost nothing. The
    error names the operation that produced the NaN or infinity, its line and values, the example of
    ``vmap``, the step of a loop, and a remedy.

    Parameters
    ----------
    f : callable
        A pure function of pytrees: your own, or a result of ``grad``, ``value_and_grad``, ``jit``,
        ``vmap`` and so on.

    Returns
    -------
    callable
        A function with the arguments and the results of ``f``.

    Raises
    ------
    FunctionError
        ``f`` cannot be called.
    NonFiniteError
        A result is NaN or infinite. The message names the operation and line that made it from
        finite values; the attribute ``causes`` has the same as values.

    See Also
    --------
    raise_nans : checks all calls within a context.

    Notes
    -----
    Only results are checked. NaN and infinities inside ``f`` that reach no result are not an error,
    and a jitted function keeps its compiled code. If a result is not finite, ``f`` is called again,
    and every operation is followed: jitted functions run operation by operation, loops step by
    step. That takes some 20 µs for each operation, and memory for the operands of operations with
    non-finite results. So ``f`` has to be pure; its output is printed twice.

    A NaN in a result is followed back, element by element, to the operation that made it from
    elements without NaN. If it was made from infinities, these are followed back, too. The cause
    that spoils most elements comes first.

    Inside another transformation, where values are traced, ``nans(f)`` only calls ``f``.

    Examples
    --------
    >>> import funcgrad as fg
    >>> import funcgrad.debug as debug
    >>> debug.nans(lambda x: x / fg.numpy.sum(x))(fg.tensor([1.0, -1.0]))
    Traceback (most recent call last):
        ...
    funcgrad.errors.NonFiniteError: nans: <lambda>: result[0] is inf (2 of 2 elements ...
      Cause: divide at <doctest ...>:1: divide(1.0, 0.0) = inf, at [0]. It spoils 2 elements.
        Remedy: add a little to the denominator, or choose inside: x / where(y == 0, 1, y).
    """
    check_function("nans", f)
    if isinstance(f, Jitted):
        return Transformed(_watched(f), "nans", (nans, (f,)))

    def finite(*args: P.args, **kwargs: P.kwargs) -> R:
        with quiet() if WATCH.get() is None else _as_before():
            result = f(*args, **kwargs)
            good = _all_finite(result)
        if not good:
            raise _explained("nans", f, args, kwargs, result)
        return result

    return Transformed(finite, "nans", (nans, (f,)))


def _watched(f: Callable[P, R]) -> Callable[P, R]:
    """A jitted function that is called as within ``raise_nans``."""
    watch = _Looking("nans")
    begin, end = WATCH.set, WATCH.reset
    WATCHING.begun = True

    def finite(*args: P.args, **kwargs: P.kwargs) -> R:
        token = begin(watch)
        try:
            return f(*args, **kwargs)
        finally:
            end(token)

    return finite


@contextmanager
def raise_nans() -> Iterator[None]:
    """Raise an error if a transformed function returns NaN or infinity within this context.

    The same check as ``nans``, for all calls in a block of code.

    Yields
    ------
    None

    Raises
    ------
    NonFiniteError
        See ``nans``.

    Notes
    -----
    The results of outermost calls are checked: of functions made by ``grad``, ``value_and_grad``,
    ``vmap``, ``jacfwd``, ``jacrev``, ``hessian``, ``linear_transpose`` and ``jit``; of ``vjp``,
    ``jvp``, ``hvp``, ``linearize`` and the functions that they return; of loops, ``odeint``,
    ``fixed_point``, ``custom_root`` and ``custom_linear_solve``. Calls inside such a call are not
    checked separately. Single operations on tensors are not checked: use ``nans``.

    The context belongs to this thread or asynchronous task. Threads that start within it do not
    check.

    Examples
    --------
    >>> import funcgrad as fg
    >>> import funcgrad.debug as debug
    >>> with debug.raise_nans():
    ...     fg.grad(fg.numpy.log)(0.0)
    Traceback (most recent call last):
        ...
    funcgrad.errors.NonFiniteError: grad of log: the gradient is inf.
      Cause: reciprocal_of_positive in the pull of log at <doctest ...>:2: ...
    """
    with watched_by(_Looking()):
        yield


class _Looking(ResultWatch):
    """Checks the results of outermost calls.

    Attributes
    ----------
    name : str
        The function of this module that the user called, for messages.
    """

    __slots__ = ("name",)

    def __init__(self, name: str = "") -> None:
        self.name = name

    def called(
        self,
        operation: str,
        call: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> Any:
        return self.called_jitted(operation, call, args, kwargs)

    def called_jitted(
        self,
        function: Callable[..., Any] | str,
        call: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> Any:
        token = WATCH.set(None)
        try:
            result = call(*args, **kwargs)
            with ignoring():
                good = _all_finite(result)
        finally:
            WATCH.reset(token)
        if not good:
            operation = function if isinstance(function, str) else "jit"
            raise _explained(self.name, call, args, kwargs, result, operation)
        return result


@contextmanager
def _as_before() -> Iterator[None]:
    """Within this context nobody looks, and NumPy does not warn."""
    with unwatched(), quiet():
        yield


def _explained(
    name: str,
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    result: object,
    operation: str = "",
) -> NonFiniteError:
    """Return the error for a non-finite result."""
    with _as_before():
        bad = [
            (pytrees.key_path_text(path), _raw(leaf))
            for path, leaf in pytrees.leaves_with_path(result)
            if not _is_finite(leaf)
        ]
        run = replay(function, args, kwargs)
    operations = run.operations
    if operation and operations[:1] != (operation,):
        operations = operation, *operations
    called = getattr(function, "__name__", type(function).__name__)
    of = " of ".join(dict.fromkeys([*operations, called]))
    causes = tuple(causes_of(run))
    word = "gradient" if "grad" in operations else "result"
    return NonFiniteError(_report(f"{name}: {of}" if name else of, bad, causes, word), causes)


def _raw(leaf: object) -> Any:
    return on_host(leaf._value if type(leaf) is Tensor else leaf)


def _all_finite(tree: Any) -> bool:
    """Whether all leaves are finite; common containers take a fast path."""
    waiting: list[Any] = [tree]
    while waiting:
        node = waiting.pop()
        kind = type(node)
        if kind is Tensor:
            if not _is_finite(node._value):
                return False
        elif kind is tuple or kind is list:
            waiting += node
        elif kind is dict:
            waiting += node.values()
        elif not isinstance(node, LinearMap):  # whose results are looked at
            leaves = pytrees.leaves(node, lambda x: isinstance(x, LinearMap))
            if not all(map(_is_finite, leaves)):
                return False
    return True


_DOUBLE, _SINGLE = np.dtype(np.float64), np.dtype(np.float32)
"""Dtypes for which BLAS has a dot product, the fastest way to read all elements."""


def _is_finite(leaf: object) -> bool:
    """Whether an array or a number is finite; other objects count as finite.

    >>> _is_finite(np.ones(3)), _is_finite(np.array([np.inf, 1.0])), _is_finite("a text")
    (True, False, True)
    """
    value = _raw(leaf)
    if type(value) is np.ndarray:
        dtype = value.dtype
        if (dtype is _DOUBLE or dtype is _SINGLE) and _has_finite_square(value):
            return True  # otherwise a square may have overflowed
        return dtype.kind not in "fc" or bool(np.isfinite(value).all())
    if isinstance(value, float):  # also NumPy's float64
        return isfinite(value)
    return not isinstance(value, (complex, np.inexact)) or bool(np.isfinite(value))


def _has_finite_square(x: Raw) -> bool:
    line = x if x.ndim == 1 else x.ravel()
    try:
        return isfinite(line.dot(line))
    except FloatingPointError:  # the user's errstate raises
        return False


# ---------------------------------------------------------------------------- the text of errors


def _report(
    title: str, bad: Sequence[tuple[str, Any]], causes: Sequence[Cause], word: str = "result"
) -> str:
    """Return the message: which results are not finite, and why.

    Parameters
    ----------
    title : str
    bad : sequence of pairs
        The path and the value of the leaves that are not finite.
    causes : sequence of Cause
    word : str
        The word for the results, such as "gradient".

    Examples
    --------
    >>> from funcgrad.debug.causes import Cause
    >>> log = Cause("log", "model.py:3", text="log(0.0) = -inf", place=(1,), remedy="clip x")
    >>> print(_report("nans: loss", [("['a']", np.array([1.0, np.nan]))], [log]))
    nans: loss: result['a'][1] is nan (1 of 2 elements are not finite).
      Cause: log at model.py:3: log(0.0) = -inf, at [1].
        Remedy: clip x.
    """
    lines = [f"{title}: {_result(word, *bad[0])}."]
    if len(bad) > 1:
        others = ", ".join([f"{word}{path}" for path, _ in bad[1 : 1 + _MOST_CAUSES]])
        more = f", and {len(bad) - 1 - _MOST_CAUSES} more" if len(bad) > 1 + _MOST_CAUSES else ""
        lines.append(f"  Not finite either: {others}{more}.")
    for number, cause in enumerate(causes[:_MOST_CAUSES]):
        lines += _told(cause, "Cause" if len(causes) == 1 else f"Cause {number + 1}")
    if len(causes) > _MOST_CAUSES:
        lines.append(f"  {len(causes) - _MOST_CAUSES} more causes spoil fewer elements.")
    if not causes:
        lines.append(
            "  A second call with the same arguments did not show the cause: the function reads"
            " something that changes, computes with plain NumPy, or the compiled program rounds"
            " differently from the single operations."
        )
    return "\n".join(lines)


def _result(word: str, path: str, value: Raw) -> str:
    array = np.asarray(value)
    odd = ~np.isfinite(array)
    place = np.unravel_index(int(np.argmax(odd)), array.shape)
    where = _index(tuple(map(int, place)))
    name = f"{word}{path}{where}" if path or where else f"the {word}"
    count = int(np.count_nonzero(odd))
    of = f" ({count} of {array.size} elements are not finite)" if array.size > 1 else ""
    return f"{name} is {array[place].item()!r}{of}"


def _index(place: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, place))}]" if place else ""


def _told(cause: Cause, word: str) -> list[str]:
    spoils = f" It spoils {cause.spoilt} elements." if cause.spoilt > 1 else ""
    lines = [f"  {word}: {_sentence(cause)}.{spoils}"]
    for origin in cause.origins[:3]:
        told = _sentence(origin)
        lines.append(
            f"    The infinity is from {told}."
            if origin.operation
            else f"    {told[0].upper()}{told[1:]}."
        )
    lines += [f"    {text[0].upper()}{text[1:]}." for text in cause.partners]
    if cause.remedy:
        lines.append(f"    Remedy: {cause.remedy}.")
    return lines


def _sentence(cause: Cause) -> str:
    parts = [cause.text if not cause.operation else f"{cause.named}: {cause.text}"]
    rank = len(cause.examples)
    if cause.place[rank:]:
        parts.append(f"at {_index(cause.place[rank:])}")
    for example in cause.examples:
        parts.append(f"example {example}")
    if rank:
        parts.append(f"in {cause.bad_examples} of {cause.all_examples} examples")
    parts += [f"step {step} of {loop}" for loop, step in cause.steps]
    return ", ".join(parts)

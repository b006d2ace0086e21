"""Look at results, and find out why one of them is not finite.

>>> import funcgrad as fg
>>> def loss(x):
...     return fg.numpy.sum(fg.numpy.sqrt(x) * fg.numpy.array([1.0, 0.0]))
>>> nans(fg.grad(loss))(fg.tensor([4.0, 9.0]))
Tensor([0.25, 0.  ])
>>> nans(fg.grad(loss))(fg.tensor([4.0, 0.0]))
Traceback (most recent call last):
    ...
funcgrad.errors.NonFiniteError: nans: grad of loss: gradient[1] is nan (1 of 2 numbers are not finite).
  Cause: multiply in the pull of sqrt at <doctest ...>:2: multiply(0.0, inf) = nan, at [1].
...
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import Context
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar

import numpy as np

from funcgrad import trees
from funcgrad.debug.causes import causes_of
from funcgrad.debug.replays import replay
from funcgrad.debug.reports import report
from funcgrad.errors import NonFiniteError
from funcgrad.floating_errors import ERROR_STATE, quiet
from funcgrad.result_watch import WATCH, Watch, unwatched, watched_by
from funcgrad.tensor import Tensor
from funcgrad.transforms.arguments import check_function

P = ParamSpec("P")
R = TypeVar("R")


def nans(f: Callable[P, R]) -> Callable[P, R]:
    """Make a function whose results are finite, or else an error that names the cause.

    Parameters
    ----------
    f : callable
        A pure function of pytrees to a pytree: a function of yours, or what ``grad``,
        ``value_and_grad``, ``jit``, ``vmap`` … return.

    Returns
    -------
    callable
        With the signature and the results of ``f``.

    Raises
    ------
    FunctionError
        ``f`` cannot be called.
    NonFiniteError
        A number in the results is NaN or infinite. The message says which operation, at which line,
        made it of finite numbers, and its ``causes`` are values.

    See Also
    --------
    raise_nans : the same for all calls within a context.

    Notes
    -----
    Only results are looked at, so infinities and NaN inside of ``f`` that reach no result are no
    error, and a jitted function keeps its compiled code. If a result is not finite, ``f`` is called
    once more, with every operation followed: jitted functions run operation by operation, loops
    step by step. That takes some 20 µs an operation, and memory for the operands of operations
    whose results are not finite. So ``f`` has to be pure; what it prints is printed twice.

    An element of a result that is NaN is followed back through the elements that it comes from, as
    the operations declare, to operations of which no operand was NaN there, and from infinities on
    to where they were made. Of several causes the one that spoils most numbers comes first.

    Put it outermost, as in ``nans(jit(grad(f)))``: inside of another transformation, where numbers
    are followed or unknown, it only calls ``f``.

    Examples
    --------
    >>> import funcgrad as fg
    >>> import funcgrad.debug as debug
    >>> debug.nans(lambda x: x / fg.numpy.sum(x))(fg.tensor([1.0, -1.0]))
    Traceback (most recent call last):
        ...
    funcgrad.errors.NonFiniteError: nans: <lambda>: result[0] is inf (2 of 2 numbers are not finite).
      Cause: divide at <doctest ...>:1: divide(1.0, 0.0) = inf, at [0]. It spoils 2 numbers.
        Remedy: add a little to the denominator, or choose inside: x / where(y == 0, 1, y).
    """
    check_function("nans", f)

    @wraps(f)
    def finite(*args: P.args, **kwargs: P.kwargs) -> R:
        with _as_before(), quiet():  # what NumPy would warn of is told better
            result = f(*args, **kwargs)
        look("nans", f, args, kwargs, result)
        return result

    return finite


@contextmanager
def raise_nans() -> Iterator[None]:
    """Within this context, raise where the result of a transformed function is not finite.

    Yields
    ------
    None

    Raises
    ------
    NonFiniteError
        See ``nans``.

    Notes
    -----
    Looked at are results of outermost calls: of the functions that ``grad``, ``value_and_grad``,
    ``vmap``, ``jacfwd``, ``jacrev``, ``hessian``, ``linear_transpose`` and ``jit`` return, of
    ``vjp``, ``jvp``, ``hvp``, ``linearize`` and the functions that these return, and of loops,
    ``odeint``, ``fixed_point``, ``custom_root`` and ``custom_linear_solve``. A call inside of such
    a call is a part of it. Single operations on tensors are not looked at: use ``nans``.

    The context is that of this thread, or of this asynchronous task. Threads that begin within it
    have one of their own, where nobody looks.

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
    with watched_by(_Looking()), np.errstate(call=_marked):
        yield


def _marked(kind: str, flag: int) -> None:
    """What NumPy's error state calls within ``raise_nans``, if the user asks it to call something.

    Machine code sees that this is not the usual error state, and leaves the call to Python.
    """


class _Looking(Watch):
    """Looks at the results of outermost calls."""

    __slots__ = ()

    def called(
        self,
        operation: str,
        call: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> Any:
        with _as_before():
            result = call(*args, **kwargs)
        look("", call, args, kwargs, result, operation)
        return result


@contextmanager
def _as_before() -> Iterator[None]:
    """Within this context nobody looks, and NumPy treats errors as outside of ``raise_nans``."""
    if WATCH.get() is None:
        yield
        return
    with unwatched(), _usual_errors():
        yield


def _usual_errors() -> Any:
    state = ERROR_STATE
    if state is None or np.geterrcall() is not _marked:
        return nullcontext()
    if np.geterr() == _USUAL:
        return _Chosen()
    return np.errstate(call=None)


_USUAL: Final = Context().run(np.geterr)


class _Chosen:
    """NumPy's error state as it is where nobody has chosen one, so that machine code runs."""

    __slots__ = ("_token",)

    def __enter__(self) -> None:
        assert ERROR_STATE is not None
        self._token = ERROR_STATE.choose(ERROR_STATE.usual)

    def __exit__(self, *error: object) -> None:
        assert ERROR_STATE is not None
        ERROR_STATE.restore(self._token)


def look(
    name: str,
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    result: Any,
    operation: str = "",
) -> None:
    """Raise ``NonFiniteError`` if a leaf of a result is not finite."""
    if all(map(is_finite, trees.leaves(result))):
        return
    bad = [
        (trees.key_path_text(path), _raw(leaf))
        for path, leaf in trees.leaves_with_path(result)
        if not is_finite(leaf)
    ]
    with _as_before():
        run = replay(function, args, kwargs)
    operation = operation or run.operation
    called = getattr(function, "__name__", type(function).__name__)
    of = f"{operation} of {called}" if operation not in ("", called) else called
    causes = tuple(causes_of(run))
    word = "gradient" if operation == "grad" else "result"
    raise NonFiniteError(report(f"{name}: {of}" if name else of, bad, causes, word), causes)


def _raw(leaf: Any) -> Any:
    return leaf._value if type(leaf) is Tensor else leaf


_PRODUCTS: Final = frozenset("fdFD")
"""Dtypes of which BLAS computes scalar products, the quickest way to read all numbers."""


def is_finite(leaf: Any) -> bool:
    """Whether an array or a number is finite; any other object counts as finite.

    >>> is_finite(np.ones(3)), is_finite(np.array([1e200, 1.0])), is_finite(float("inf"))
    (True, True, False)
    """
    value = leaf._value if type(leaf) is Tensor else leaf
    kind = type(value)
    if kind is np.ndarray:
        char = value.dtype.char
        if char in _PRODUCTS and (value.flags.c_contiguous or value.flags.f_contiguous):
            line = value.ravel("K")
            if abs(np.vdot(line, line)) < np.inf:  # else a square may have overflowed
                return True
        return value.dtype.kind not in "fc" or bool(np.isfinite(value).all())
    if isinstance(value, (float, complex, np.inexact)):
        return bool(abs(value) < np.inf) or bool(np.isfinite(value))
    return True

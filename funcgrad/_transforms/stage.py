"""Staging: run a function once, on actual values, and keep its operations as a ``Program``.

>>> import funcgrad as fg
>>> print(fg.program(fg.grad(lambda x: x * x))(2.0).to_text(sources=False))
program <lambda>(x: float64[]) -> float64[]
  a = constant 1.0
  b: float64[] = multiply x x
  c: float64[] = multiply a x
  d: float64[] = multiply a x
  e: float64[] = add c d
  return e
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, ParamSpec

import numpy as np

from funcgrad._base.users_line import warn_user
from funcgrad._core import pytrees
from funcgrad._core.pytrees import Structure
from funcgrad._core.trace import RAW, Value, begin_level, is_followed
from funcgrad._programs.program import Program
from funcgrad._programs.suspicious import repeated_draw
from funcgrad._transforms.arguments import call_values, check_function, leaf_names, values_of
from funcgrad._transforms.stager import NumbersNeeded, Stager
from funcgrad._transforms.transformed import Transformed
from funcgrad.errors import KeyReuseWarning
from funcgrad.tensor.tensor import wrap

P = ParamSpec("P")
_LARGE: Final = 2**14
"""For arguments of more bytes, running a function twice is quicker than evaluating it once."""


def name_of(f: Callable[..., Any]) -> str:
    """The name of a function, or of the class of a callable object."""
    return getattr(f, "__name__", type(f).__name__)


def program(f: Callable[P, Any]) -> Callable[P, Program]:
    """Stage a function: run it once and return its operations as a ``Program``.

    A program can be printed, compared, rewritten by passes, saved, turned into NumPy source, and
    called with arguments of the same trees, shapes and dtypes.

    Parameters
    ----------
    f : callable
        Takes and returns pytrees of arrays; it may be a transformed function.

    Returns
    -------
    callable
        A function with the signature of ``f``. It runs ``f`` on its arguments and returns the
        ``Program``. If the arguments are large, it first runs ``f`` on abstract values, which have
        only shapes and dtypes, and runs it again if ``f`` needs a value.

    Notes
    -----
    If ``f`` uses a value in Python, by ``if``, ``int(t)``, ``float(t)``, ``f"{t:.3f}"`` and so on,
    the program keeps a guard, and refuses arguments that would give another value there. Values
    that ``f`` reads from outside its arguments become constants of the program.

    Examples
    --------
    >>> import funcgrad as fg
    >>> staged = fg.program(lambda x, y: x * y + x)(2.0, 3.0)
    >>> print(staged.to_text(sources=False))
    program <lambda>(x: float64[], y: float64[]) -> float64[]
      a: float64[] = multiply x y
      b: float64[] = add a x
      return b
    >>> staged(10.0, 1.0), fg.grad(staged)(10.0, 1.0)
    (Tensor(20.0), Tensor(2.0))
    """
    check_function("program", f)

    def staged(*args: P.args, **kwargs: P.kwargs) -> Program:
        return stage("program", f, args, kwargs)

    return Transformed(staged, "program", (program, (f,)))


def stage(
    operation: str, f: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Program:
    """Stage a function, in the name of the operation that the user called.

    A program that draws the same random numbers twice is worth a warning.
    """
    staged = _staged(operation, f, args, kwargs)
    lines = repeated_draw(staged)
    if lines is not None:
        warn_user(
            f"{operation}: {staged.name} uses one key twice, at {lines[0]} and at {lines[1]}, so"
            " the random numbers are the same. Make a key for each use with fg.random.split or"
            " fold_in; if the repetition is intended, pass fg.random.again(key).",
            KeyReuseWarning,
        )
    return staged


def _staged(
    operation: str, f: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Program:
    leaves, structure = pytrees.flatten((args, kwargs))
    values = call_values(operation, f, leaves, structure)
    if not any(map(is_followed, values)) and sum(map(_bytes, values)) >= _LARGE:
        with suppress(Exception, NumbersNeeded):  # errors are raised on actual values
            return _stage(operation, f, values, structure, numbers=False)
    with suppress(NumbersNeeded):
        return _stage(operation, f, values, structure, runs_loops=False)
    return _stage(operation, f, values, structure)


def _stage(
    operation: str,
    f: Callable[..., Any],
    values: Sequence[Value],
    structure: Structure,
    numbers: bool = True,
    runs_loops: bool = True,
) -> Program:
    with begin_level() as level:
        stager = Stager(level, numbers, title=operation, runs_loops=runs_loops)
        try:
            followed = [wrap(stager.follow(value)) for value in values]
            args, kwargs = pytrees.unflatten(structure, followed)
            out_leaves, result = pytrees.flatten(f(*args, **kwargs))
            outs = values_of(operation, out_leaves, result, lambda: "the function's result")
            stager.errors.check()
            return stager.finish(
                outs,
                name=f.name if isinstance(f, Program) else name_of(f),
                names=leaf_names(f, structure),
                arguments=structure,
                result=result,
            )
        finally:
            stager.close()


def came_through(error: BaseException, *functions: Callable[..., Any]) -> bool:
    """Whether an error was raised while one of some Python functions ran."""
    codes = [getattr(function, "__code__", None) for function in functions]
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in codes:
            return True
        trace = trace.tb_next
    return False


def _bytes(value: Value) -> int:
    """The bytes of an array; operations on a device, one by one, always take long."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    return 0 if type(value) in RAW else _LARGE

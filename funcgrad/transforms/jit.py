"""``jit``: stage a function once for each kind of arguments, and run the program from then on.

What is kept for a signature (trees, shapes, dtypes, static arguments) is a list of *variants*: the
same function staged along the different ways that its control flow takes. A variant holds while
what the function reads from outside stands unchanged.

>>> import funcgrad as fg
>>> @fg.jit
... def halved(x):
...     return x / 2 if x > 0 else -x / 2
>>> halved(3.0), halved(-3.0), halved(5.0)
(Tensor(1.5), Tensor(1.5), Tensor(2.5))
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import update_wrapper
from inspect import signature
from threading import Lock
from typing import Any, Final, Generic, ParamSpec, TypeVar

import numpy as np

from funcgrad import trees
from funcgrad.backends.numpy import NUMPY
from funcgrad.errors import ArgumentError, GuardError
from funcgrad.passes.pipeline import optimize
from funcgrad.programs import Program
from funcgrad.tensor import wrap
from funcgrad.trace import RAW, Value, quiet
from funcgrad.transforms.arguments import call_values
from funcgrad.transforms.capture import Capture
from funcgrad.transforms.stage import program

__all__ = ["JitWarning", "Jitted", "jit"]

P = ParamSpec("P")
R = TypeVar("R")

_MOST_VARIANTS: Final = 16
_MOST_SIGNATURES: Final = 256


class JitWarning(RuntimeWarning):
    """A jitted function runs without being staged."""


@dataclass(frozen=True, slots=True, eq=False)
class Variant:
    """A function staged along one way through its control flow."""

    program: Program
    optimized: Program
    run: Callable[..., Sequence[Value]]
    capture: Capture


class Jitted(Generic[P, R]):
    """A function that is staged when it is first called; see ``jit``."""

    def __init__(
        self, f: Callable[P, R], static_argnums: Sequence[int], static_argnames: Sequence[str]
    ) -> None:
        self._function: Callable[..., R] = f
        self._static_numbers = frozenset(static_argnums)
        self._static_names = frozenset(static_argnames)
        self._variants: dict[Hashable, tuple[Variant, ...]] = {}
        self._lock = Lock()
        update_wrapper(self, f, updated=())  # a jitted function's attributes are its own
        self.__name__: str = getattr(f, "__name__", type(f).__name__)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        static, given = self._split(args, kwargs)
        leaves, structure = trees.flatten(given)
        values = call_values("jit", self._function, leaves, structure)
        for value in values:
            if type(value) not in RAW:  # another transformation follows it: part of that
                return self._function(*args, **kwargs)
        key = (structure, static, tuple([_kind(value) for value in values]))
        return self._run(key, self._variants.get(key, ()), values, args, kwargs)

    def _run(
        self,
        key: Hashable,
        variants: tuple[Variant, ...],
        values: Sequence[Value],
        args: Any,
        kwargs: Any,
    ) -> R:
        for variant in variants:
            if not variant.capture.unchanged():
                self._forget(key, variant)
                continue
            try:
                with quiet():
                    outs = variant.run(*values)
            except GuardError:
                continue
            result: R = trees.unflatten(variant.program.result, [wrap(out) for out in outs])
            return result
        if len(self._variants.get(key, ())) >= _MOST_VARIANTS:
            warnings.warn(
                f"jit: {self.__name__} took {_MOST_VARIANTS} different ways for arguments of one"
                " kind, and now runs without being staged where it takes another. Choose with"
                " fnp.where instead of `if`, or make the number that it depends on static.",
                JitWarning,
                stacklevel=3,
            )
            return self._function(*args, **kwargs)
        fresh = self._stage(args, kwargs)
        if fresh is None:
            return self._function(*args, **kwargs)
        self._remember(key, fresh)
        with quiet():
            outs = fresh.run(*values)
        first: R = trees.unflatten(fresh.program.result, [wrap(out) for out in outs])
        return first

    def _stage(self, args: Any, kwargs: Any) -> Variant | None:
        """A variant for these arguments; None if the function cannot be staged safely.

        It closes over a traced value, or over more than can be watched for changes.
        """
        dynamic, call = self._partial(args, kwargs)
        staged = program(call)(*dynamic[0], **dynamic[1])
        optimized = optimize(staged)
        capture = Capture(self._function)
        if not NUMPY.supports(optimized) or not capture.complete:
            return None
        run: Callable[..., Sequence[Value]]
        try:
            run = NUMPY.compile(optimized)
        except Exception as error:  # a failure to compile must never cost a result
            warnings.warn(
                f"jit: the program of {self.__name__} could not be compiled, and is evaluated"
                f" operation by operation instead: {error!r}. See"
                f" {self.__name__}.lower(...).optimized.",
                JitWarning,
                stacklevel=4,
            )
            run = _evaluating(optimized)
        return Variant(staged, optimized, run, capture)

    def _partial(self, args: Any, kwargs: Any) -> tuple[Any, Callable[..., Any]]:
        """The arguments that are not static, and the function of those alone."""
        function = self._function
        numbers = self._numbers(len(args))
        if not numbers and not self._static_names:
            return (args, kwargs), function
        fixed = {k: args[k] for k in numbers}
        named = {name: kwargs[name] for name in kwargs if name in self._static_names}

        def call(*rest: Any, **others: Any) -> Any:
            merged = list(rest)
            for position in sorted(fixed):
                merged.insert(position, fixed[position])
            return function(*merged, **others, **named)

        update_wrapper(call, function, updated=())
        return self._split(args, kwargs)[1], call

    def _numbers(self, count: int) -> list[int]:
        return sorted(number % count for number in self._static_numbers if -count <= number < count)

    def _split(self, args: Any, kwargs: Any) -> tuple[Hashable, tuple[Any, Any]]:
        """The static arguments as a key, and the others."""
        if not self._static_numbers and not self._static_names:
            return (), (args, kwargs)
        numbers = self._numbers(len(args))
        static = tuple([(k, args[k]) for k in numbers]) + tuple(
            [(name, kwargs[name]) for name in sorted(kwargs) if name in self._static_names]
        )
        try:
            hash(static)
        except TypeError:
            raise ArgumentError(
                f"jit: a static argument of {self.__name__} cannot be hashed:"
                f" {[type(value).__name__ for _, value in static]}. Static arguments are keys:"
                " numbers, strings, tuples, functions."
            ) from None
        typed = tuple([(name, type(value), value) for name, value in static])
        rest = tuple([arg for k, arg in enumerate(args) if k not in numbers])
        return typed, (rest, {k: v for k, v in kwargs.items() if k not in self._static_names})

    def _remember(self, key: Hashable, variant: Variant) -> None:
        with self._lock:
            self._variants[key] = (*self._variants.get(key, ()), variant)
            if len(self._variants) > _MOST_SIGNATURES:
                self._variants.pop(next(iter(self._variants)))

    def _forget(self, key: Hashable, variant: Variant) -> None:
        with self._lock:
            kept = tuple([v for v in self._variants.get(key, ()) if v is not variant])
            self._variants[key] = kept

    def lower(self, *args: P.args, **kwargs: P.kwargs) -> Variant:
        """What would run for these arguments: the program before and after passes.

        Raises
        ------
        ArgumentError
            The function runs without being staged: it closes over a traced value, or over more
            than can be watched for changes.
        """
        variant = self._stage(args, kwargs)
        if variant is None:
            raise ArgumentError(
                f"jit: {self.__name__} closes over a value that is being traced, or over more than"
                " can be watched for changes, and runs without being staged."
            )
        return variant


def _evaluating(optimized: Program) -> Callable[..., Sequence[Value]]:
    return lambda *values: optimized.evaluate(values)


def _kind(value: Value) -> Hashable:
    if type(value) is np.ndarray:
        return value.shape, value.dtype.char
    return type(value).__name__


def jit(
    f: Callable[P, R],
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
) -> Jitted[P, R]:
    """A function that is staged on its first call and runs as a program from then on.

    Parameters
    ----------
    f : callable
        Of pytrees of arrays, returning a pytree of arrays. It should have no side effects: they
        happen only when it is staged.
    static_argnums, static_argnames : int, str, or sequences of them
        Arguments that are no arrays. They are part of the key under which programs are kept, so
        they have to be hashable.

    Returns
    -------
    Jitted
        With the signature of ``f``. Inside another transformation it is ``f`` itself, and becomes
        part of what is transformed.

    Warns
    -----
    JitWarning
        The function took too many different ways through its control flow.

    Notes
    -----
    Control flow may depend on numbers: each way is staged when it is first taken. What the function
    reads from outside is watched: names that were bound anew, attributes, elements and arrays that
    were written to are noticed, and the function is staged again. Not watched is what libraries
    keep to themselves, such as their modules' attributes.

    Examples
    --------
    >>> import funcgrad as fg
    >>> import funcgrad.numpy as fnp
    >>> gradient = fg.jit(fg.grad(lambda x: fnp.sum(x**2)))
    >>> gradient(fg.tensor([1.0, 2.0]))
    Tensor([2., 4.])
    """
    if not callable(f):
        raise ArgumentError(f"jit: expected a function, got {f!r}.")
    numbers = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
    names = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)
    known = _parameters(f)
    for name in names:
        if known is not None and name not in known:
            raise ArgumentError(f"jit: {getattr(f, '__name__', f)} has no parameter {name!r}.")
    return Jitted(f, numbers, names)


def _parameters(f: Callable[..., Any]) -> frozenset[str] | None:
    """The names of a function's parameters; None where any name goes."""
    try:
        found = signature(f).parameters
    except (TypeError, ValueError):
        return None
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in found.values()):
        return None
    return frozenset(found)

"""A program under test: its function, its arguments, its derivatives, and how far each may move."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Any

import numpy as np

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._core import pytrees
from funcgrad._passes.workbench import merge_common_subexpressions
from funcgrad._programs.inline import inlined
from funcgrad._staging.jit import JitWarning
from tests.tools.fuzz.generate import SCOPE
from tests.tools.fuzz.noise import Scatter, scatter
from tests.tools.fuzz.syntax import Program, function_of, names_of, source
from tests.tools.fuzz.values import drawn, varied

_CONTROL = frozenset("if while".split())
_HELD = (
    *("stop_gradient", "constant_max", "nextafter", "with_halved_vjp", "with_clipped_vjp"),
    "run.cofactors(",  # which gets the determinant beside the matrix: of any other number it is not
)
"""Whose derivative is not that of the values."""
_RAISING = ("nanargmax", "nanargmin")
"""Functions that refuse some numbers."""


@contextmanager
def quietly() -> Iterator[None]:
    """Ignore warnings, also of long programs, but make a backend's failure an error."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", JitWarning)
        warnings.filterwarnings("ignore", ".*a Python loop is written out", JitWarning)
        yield


def is_inexact(value: Any) -> bool:
    """Whether a value is of floating or complex numbers."""
    return np.asarray(value).dtype.kind in "fc"


class Subject:
    """Everything that the checks ask of a program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.args = tuple(tensored(arg) for arg in program.arguments)
        self.names = names_of(program)
        self.text = source(program)
        self.changed: set[str] = set()
        """The passes that were seen to change the program."""
        self.rules: Counter[Any] = Counter()
        """The rules that were applied, each with the operation: how often."""
        self.analytic = False
        """Whether a complex step could tell the derivative."""
        self.scatters: dict[Any, Scatter | None] = {}
        self._positions = [k for k, arg in enumerate(self.args) if is_inexact(arg)]

    def rng(self, purpose: str) -> np.random.Generator:
        """Numbers that depend on the purpose alone, so that a smaller program meets the same."""
        return np.random.default_rng([ord(letter) for letter in purpose])

    @cached_property
    def f(self) -> Callable[..., Any]:
        """The program as a function of all arguments."""
        return function_of(self.program, SCOPE)

    @cached_property
    def value(self) -> Any:
        """What it returns, eagerly."""
        return self.f(*self.args)

    @cached_property
    def staged(self) -> fg.Program:
        """What staging makes of it."""
        return fg.program(self.f)(*self.args).verify()

    @cached_property
    def operations(self) -> int:
        """How many operations it does; 0 where staging it fails, which is for checks to see."""
        with suppress(Exception):
            return len(inlined(self.staged).equations)
        return 0

    @cached_property
    def plain(self) -> fg.Program:
        """The same with equal equations kept once and none that nothing reads, as passes do all."""
        return merge_common_subexpressions(self.staged)

    @cached_property
    def looks(self) -> bool:
        """Whether the program's control flow depends on numbers, which a batch does not have."""
        if self.names & _CONTROL or any(word in self.text for word in _RAISING):
            return True
        return any(name.startswith("look") for name in self.names)

    @cached_property
    def multiplies(self) -> bool:
        """Whether there are products of arrays, whose sums have no fixed order."""
        operations = [each.operation for each in inlined(self.staged).equations]
        return any(each.bilinear for each in operations)

    @cached_property
    def is_held(self) -> bool:
        """Whether a derivative deliberately differs from that of the values."""
        return any(word in self.text for word in _HELD)

    @cached_property
    def is_clipped(self) -> bool:
        """Whether a rule for cotangents is no linear map, which has no forward mode."""
        return "with_clipped_vjp" in self.text

    @cached_property
    def is_ruled_otherwise(self) -> bool:
        """Whether a rule is no derivative: what it is made of is differentiated for the second."""
        return self.is_clipped or "with_halved_vjp" in self.text

    @cached_property
    def others(self) -> list[tuple[Any, ...]]:
        """Other arguments of the same kind."""
        rng = self.rng("others")
        return [tuple(tensored(varied(rng, arg)) for arg in self.args) for _ in range(2)]

    # ------------------------------------------------------------------------ derivatives

    @cached_property
    def xs(self) -> tuple[Any, ...]:
        """The arguments that can be differentiated in."""
        return tuple(self.args[k] for k in self._positions)

    def merged(self, xs: Sequence[Any], args: Sequence[Any] | None = None) -> list[Any]:
        """All arguments, of which some are replaced."""
        merged = list(self.args if args is None else args)
        for k, x in zip(self._positions, xs, strict=True):
            merged[k] = x
        return merged

    def inexact_of(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function of ``xs`` alone that returns the inexact outputs."""

        def partial(*xs: Any) -> Any:
            outs = function(*self.merged(xs))
            return tuple(out for out in outs if is_inexact_type(out))

        return partial

    @cached_property
    def F(self) -> Callable[..., Any]:
        """The function of ``xs`` to the inexact outputs."""
        return self.inexact_of(self.f)

    @cached_property
    def outputs(self) -> list[Any]:
        """The inexact outputs."""
        return [out for out in pytrees.leaves(self.value) if is_inexact(out)]

    @cached_property
    def is_differentiable(self) -> bool:
        """Whether there is anything to differentiate, in anything."""
        return bool(self.xs) and bool(self.outputs)

    @cached_property
    def tangents(self) -> tuple[Any, ...]:
        """A direction in which the arguments move."""
        return self._directions("tangents", self.xs)

    @cached_property
    def cotangents(self) -> tuple[Any, ...]:
        """Weights of the outputs."""
        return self._directions("cotangents", [np.asarray(out) for out in self.outputs])

    def _directions(self, purpose: str, like: Sequence[Any]) -> tuple[Any, ...]:
        rng = self.rng(purpose)
        return tuple(
            float(rng.normal()) if isinstance(x, float) else drawn(rng, np.shape(x), x.dtype)
            for x in like
        )

    def scalar_of(self, F: Callable[..., Any], cotangents: Any) -> Callable[..., Any]:
        """The real number that is the sum of the weighted outputs."""

        def scalar(*xs: Any) -> Any:
            terms = [
                fnp.sum((out * fnp.conj(weight)).real)
                for out, weight in zip(F(*xs), cotangents, strict=True)
            ]
            return sum(terms[1:], terms[0])

        return scalar

    @property
    def point(self) -> tuple[Any, ...]:
        """What the quantities are functions of: where, along what, and weighted how."""
        return self.xs, self.tangents, self.cotangents

    def push(self, xs: Any, tangents: Any, cotangents: Any) -> Any:
        """The derivative along the tangents."""
        return fg.jvp(self.F, xs, tangents)[1]

    def pull(self, xs: Any, tangents: Any, cotangents: Any) -> Any:
        """The gradient of the weighted outputs."""
        return fg.vjp(self.F, *xs)[1](cotangents)

    def second(self, xs: Any, tangents: Any, cotangents: Any) -> Any:
        """The derivative of the gradient along the tangents."""
        return several(fg.hvp(self.scalar_of(self.F, cotangents), xs, tangents))

    # ------------------------------------------------------------------------ rounding

    def scatter(
        self, quantity: Callable[..., Any], args: Sequence[Any], key: Any
    ) -> Scatter | None:
        """How far a quantity may move; kept under a key."""
        if key not in self.scatters:
            self.scatters[key] = scatter(quantity, args)
        return self.scatters[key]

    def measured(
        self, quantity: Callable[..., Any], args: Sequence[Any], key: Any
    ) -> Callable[[], Scatter | None]:
        """The same when it is asked for."""
        return lambda: self.scatter(quantity, args, key)


def tensored(value: Any) -> Any:
    """An array as a tensor; a Python number as it is."""
    return fg.tensor(value) if isinstance(value, (np.ndarray, np.generic)) else value


def several(value: Any) -> tuple[Any, ...]:
    """A tuple of one where a single argument's derivative came alone."""
    return value if isinstance(value, tuple) else (value,)


def is_inexact_type(value: Any) -> bool:
    """The same for what may be traced."""
    return fnp.asarray(value).dtype.kind in "fc"


def stacked(rng: np.random.Generator, args: Sequence[Any], size: int) -> list[list[Any]]:
    """A number of argument lists of one kind; Python numbers are the same in all."""

    def one(k: int, arg: Any) -> Any:
        same = k == 0 or isinstance(arg, (bool, int, float, complex))
        return arg if same else tensored(varied(rng, arg))

    return [[one(k, arg) for arg in args] for k in range(size)]

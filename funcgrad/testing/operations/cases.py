"""An operation at one of its samples, and references for its derivatives.

The references are NumPy's own: values of ``evaluate``, differences of values, loops over examples.

>>> from funcgrad._primitives.elementwise import multiply
>>> case = next(cases_of(multiply))
>>> case.described()
'multiply(float64 (3,), float64 (3,))'
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import combinations
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import numpy as np

from funcgrad._base.floating_errors import quiet
from funcgrad._core.primitive import DISCRETE, Primitive, Sample
from funcgrad._core.specs import is_inexact
from funcgrad._core.trace import Raw, Value
from funcgrad._core.users_values import read_only
from funcgrad._primitives.elementwise_rules import batch_elementwise
from funcgrad.tensor.tensor import apply, wrap

Arrays: TypeAlias = tuple[Any, ...]
Dtypes: TypeAlias = Mapping[np.dtype[Any], np.dtype[Any]]

LOWER: Final[Dtypes] = MappingProxyType(
    {np.dtype("d"): np.dtype("f"), np.dtype("D"): np.dtype("F")}
)
"""Double precision to single precision."""


class Case:
    """A primitive at one of its samples; derived values are computed once.

    Attributes
    ----------
    primitive : Primitive
    number : int
        The position of the sample, counted from 0.
    sample : Sample
    """

    def __init__(self, primitive: Primitive, number: int, sample: Sample) -> None:
        """Store the arguments; nothing is evaluated."""
        self.primitive: Final = primitive
        self.number: Final = number
        self.sample: Final = sample

    def __str__(self) -> str:
        return f"{self.primitive.name}-{self.number}"

    def described(self) -> str:
        """Return the call of the operation at the sample as text, with dtypes and shapes."""
        words = [_described(arg) for arg in self.sample.args]
        words += [f"{key}={_short(value)}" for key, value in self.sample.params.items()]
        return f"{self.primitive.name}({', '.join(words)})"

    @property
    def args(self) -> Arrays:
        """Return the arguments; arrays are read-only views with the sample's strides."""
        return tuple(
            read_only(arg) if isinstance(arg, np.ndarray) else arg for arg in self.sample.args
        )

    @cached_property
    def differentiable(self) -> tuple[int, ...]:
        """Return the positions of the differentiable arguments."""
        args = self.sample.args
        if self.primitive.differential is DISCRETE or not self.followed:
            return ()
        routes = self.primitive.routes(len(args))
        return tuple(
            k
            for k, (arg, route) in enumerate(zip(args, routes, strict=True))
            if route is not None and is_inexact(np.asarray(arg).dtype)
        )

    @cached_property
    def followed(self) -> tuple[int, ...]:
        """Return the positions of the differentiable results."""
        return tuple([k for k, x in enumerate(self.values()) if is_inexact(x.dtype)])

    @cached_property
    def has_several(self) -> bool:
        """Whether the operation returns a tuple here."""
        return isinstance(self.evaluate(*self.args), tuple)

    @property
    def is_smooth(self) -> bool:
        """Whether the operation has a derivative here that differences can approximate."""
        return self.sample.smooth and bool(self.differentiable)

    @property
    def is_moderate(self) -> bool:
        """Whether this also holds for second derivatives and in single precision."""
        return self.is_smooth and not self.is_extreme

    @property
    def is_extreme(self) -> bool:
        """Whether squares of the sample's elements over- or underflow in some precision."""
        sizes = abs(np.concatenate([np.ravel(arg).astype(complex) for arg in self.sample.args]))
        sizes = sizes[np.isfinite(sizes) & (sizes > 0)]
        return bool(np.any((sizes > 1e18) | (sizes < 1e-18)))

    @property
    def is_refused(self) -> bool:
        """Whether the operation refuses these dtypes, such as linear algebra in float16."""
        try:
            self.values()
        except TypeError:
            return True
        return False

    def rng(self) -> np.random.Generator:
        """Start a generator that is the same on every run."""
        return np.random.default_rng(zlib.crc32(str(self).encode()))

    def value(self) -> Raw:
        """Evaluate an operation with one result."""
        (value,) = self.values()
        return value

    def values(self) -> list[Raw]:
        """Evaluate the operation at the sample; return a list of results."""
        return [np.asarray(x) for x in _listed(self.evaluate(*self.args))]

    def evaluate(self, *args: Value) -> Raw:
        """Evaluate the operation at other arguments, with the sample's parameters."""
        with quiet():
            return self.primitive.evaluate(*args, **self.sample.params)

    def results_at(self, positions: Sequence[int], point: Sequence[Value]) -> list[Raw]:
        """Evaluate the differentiable results, with some arguments replaced."""
        outs = _listed(self.evaluate(*self.merged(positions, point)))
        return [np.asarray(outs[k]) for k in self.followed]

    def merged(self, positions: Sequence[int], point: Sequence[Value]) -> list[Value]:
        """List the arguments, with some of them replaced."""
        args = list(self.args)
        for k, arg in zip(positions, point, strict=True):
            args[k] = arg
        return args

    def function(self, positions: Sequence[int] | None = None) -> Callable[..., Any]:
        """Make a function of some of the arguments that applies the operation; the others are
        fixed.

        It returns a tensor, or a tuple of tensors if the operation has several results.
        """
        chosen = range(len(self.args)) if positions is None else positions
        if not self.has_several:
            return lambda *point: apply(
                self.primitive, *self.merged(chosen, point), **self.sample.params
            )

        def several(*point: Value) -> tuple[Value, ...]:
            outs: Any = apply(self.primitive, *self.merged(chosen, point), **self.sample.params)
            return tuple([wrap(out) for out in outs])

        return several

    def followed_function(self, positions: Sequence[int] | None = None) -> Callable[..., Any]:
        """Make this function, with a tuple of the differentiable results only."""
        f = self.function(positions)
        if not self.has_several:
            return lambda *point: (f(*point),)
        return lambda *point: tuple([f(*point)[k] for k in self.followed])

    def point(self, positions: Sequence[int]) -> Arrays:
        """Return some of the arguments."""
        args = self.args
        return tuple(args[k] for k in positions)

    def in_single_precision(self) -> Case:
        """Cast float64 to float32, and complex128 to complex64."""
        return self.cast_to(LOWER)

    def cast_to(self, dtypes: Dtypes) -> Case:
        """Cast arrays of some dtypes to others."""
        args = tuple(
            arg.astype(dtypes.get(arg.dtype, arg.dtype))
            if isinstance(arg, (np.ndarray, np.generic))
            else arg
            for arg in self.sample.args
        )
        return self.at(Sample(args, self.sample.params, self.sample.smooth))

    def at(self, sample: Sample) -> Case:
        """Return the primitive at another sample, under the number of this one."""
        return Case(self.primitive, self.number, sample)


def _listed(outs: Raw) -> list[Raw]:
    return list(outs) if isinstance(outs, tuple) else [outs]


def _described(arg: Value) -> str:
    if isinstance(arg, (np.ndarray, np.generic)):
        numbers = f" = {arg.ravel()[0]!r}" if arg.size == 1 else ""
        return f"{arg.dtype} {arg.shape}{numbers}"
    return _short(arg)


def _short(value: Value) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def cases_of(primitive: Primitive) -> Iterator[Case]:
    """Yield a case for each sample of a primitive."""
    for number, sample in enumerate(primitive.samples()):
        yield Case(primitive, number, sample)


def representatives(cases: Iterable[Case]) -> list[Case]:
    """Choose representative cases of element-wise operations, and every case of others.

    For transformations, programs, backends and files, one constructor makes all element-wise
    operations from dtypes, shapes and parameters, without values. So one case represents all cases
    of its kind: the first smooth array, the first case at an edge, a complex, a broadcast and an
    empty case, and one more that differs between operations. Properties that depend on values
    (results, derivatives, digits) are checked with every case.
    """
    by_operation: dict[str, list[Case]] = {}
    for case in cases:
        by_operation.setdefault(case.primitive.name, []).append(case)
    return [case for several in by_operation.values() for case in _of_each_kind(several)]


def _of_each_kind(cases: Sequence[Case]) -> Iterator[Case]:
    """Choose the representatives among the cases of one operation."""
    name, batch = cases[0].primitive.name, cases[0].primitive.batch
    in_turn = zlib.crc32(name.encode()) % len(cases)
    seen: set[str] = set()
    for place, case in enumerate(cases):
        kinds = _kinds(case)
        if batch is not batch_elementwise or place == in_turn or not kinds <= seen:
            yield case
        seen |= kinds


def _kinds(case: Case) -> set[str]:
    """Return names of the features of a case that other cases of the operation may lack."""
    shapes = [np.shape(arg) for arg in case.args]
    said = {
        "smooth": case.sample.smooth and any(np.size(arg) > 1 for arg in case.args),
        "at an edge": not case.sample.smooth,
        "complex": any(map(np.iscomplexobj, case.args)),
        "broadcast": len(set(shapes)) > 1,
        "empty": any(0 in shape for shape in shapes),
    }
    return {kind for kind, holds in said.items() if holds}


def subsets(positions: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield single positions, then pairs, ..., then all; for many positions, only the extremes.

    >>> list(subsets((0, 2)))
    [(0,), (2,), (0, 2)]
    """
    sizes = range(1, len(positions) + 1) if len(positions) <= 3 else (1, len(positions))
    for size in sizes:
        yield from combinations(positions, size)

"""How the tests of primitives find their subjects, and what they compare them with.

Subjects are found by importing every module of the package and looking for primitives, so a new one
is tested the moment it exists. The references are NumPy's own: values of ``evaluate``, differences
of values, loops over examples.
"""

from __future__ import annotations

import pkgutil
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import combinations
from typing import Any

import numpy as np
from numpy.testing import assert_allclose

import funcgrad
import funcgrad as fg
import tests.strangers
from funcgrad.primitive import DISCRETE, Primitive, Sample
from funcgrad.primitives.elementwise import batch_elementwise
from funcgrad.shape import is_inexact
from funcgrad.tensor import apply
from funcgrad.trace import bind
from funcgrad.transforms.flat_functions import CallPrimitive
from funcgrad.users_values import read_only

Arrays = tuple[Any, ...]

LOWER = {np.dtype("d"): np.dtype("f"), np.dtype("D"): np.dtype("F")}


def every_primitive(several: bool = False) -> list[Primitive]:
    """The primitives that stand in modules of the package, each once, in order of name: those with
    one result, or those with several. Those of calls, whose parameters are programs, are tried in
    ``tests/transforms/test_call_primitives``."""
    found: dict[int, Primitive] = {}
    for module in pkgutil.walk_packages(funcgrad.__path__, "funcgrad."):
        for value in vars(import_module(module.name)).values():
            if isinstance(value, Primitive) and not isinstance(value, CallPrimitive):
                found[id(value)] = value
    chosen = [each for each in found.values() if has_several(each) == several]
    return sorted(chosen, key=lambda primitive: primitive.name)


def special_functions() -> list[Primitive]:
    """The primitives behind ``funcgrad.scipy.special``, which are tested by themselves too."""
    home = import_module("funcgrad.primitives.special_functions")
    modules = pkgutil.iter_modules(home.__path__, f"{home.__name__}.")
    listed = [
        getattr(module, name)
        for module in (import_module(each.name) for each in modules)
        for name in module.__all__
    ]
    return [each for each in listed if isinstance(each, Primitive)]


def strangers(several: bool = False) -> list[Primitive]:
    """The operations that are declared outside of the package, with one result or with several;
    see ``tests/strangers``."""
    modules = pkgutil.walk_packages(tests.strangers.__path__, "tests.strangers.")
    values = [value for each in modules for value in vars(import_module(each.name)).values()]
    found = [value for value in values if isinstance(value, Primitive)]
    return [each for each in found if has_several(each) == several]


def has_several(primitive: Primitive) -> bool:
    """Whether an operation has several results."""
    sample = next(iter(primitive.samples()), Sample((1.0,)))
    return isinstance(primitive.evaluate(*sample.args, **sample.params), tuple)


@dataclass(frozen=True)
class Case:
    """A primitive at one of its samples."""

    primitive: Primitive
    number: int
    sample: Sample

    def __str__(self) -> str:
        return f"{self.primitive.name}-{self.number}"

    @property
    def args(self) -> Arrays:
        """The arguments; arrays are read-only views with the sample's strides."""
        return tuple(
            read_only(arg) if isinstance(arg, np.ndarray) else arg for arg in self.sample.args
        )

    @property
    def differentiable(self) -> tuple[int, ...]:
        """The positions of the arguments through which a derivative flows."""
        args = self.sample.args
        if self.primitive.differential is DISCRETE or not is_inexact(self.value().dtype):
            return ()
        routes = self.primitive.routes(len(args))
        return tuple(
            k
            for k, (arg, route) in enumerate(zip(args, routes, strict=True))
            if route is not None and is_inexact(np.asarray(arg).dtype)
        )

    @property
    def is_extreme(self) -> bool:
        """Whether squares of the sample's numbers overflow, or vanish, in some precision."""
        sizes = abs(np.concatenate([np.ravel(arg).astype(complex) for arg in self.sample.args]))
        sizes = sizes[np.isfinite(sizes) & (sizes > 0)]
        return bool(np.any((sizes > 1e18) | (sizes < 1e-18)))

    @property
    def is_refused(self) -> bool:
        """Whether the operation has no meaning for these dtypes: linear algebra in float16."""
        try:
            self.value()
        except TypeError:
            return True
        return False

    def rng(self) -> np.random.Generator:
        """Numbers that are the same on every run."""
        return np.random.default_rng(zlib.crc32(str(self).encode()))

    def value(self) -> Any:
        """What ``evaluate`` returns at the sample."""
        return np.asarray(self.evaluate(*self.args))

    def evaluate(self, *args: Any) -> Any:
        """NumPy's value at other arguments."""
        with np.errstate(all="ignore"):
            return self.primitive.evaluate(*args, **self.sample.params)

    def function(self, positions: Sequence[int] | None = None) -> Callable[..., fg.Tensor]:
        """The operation as a function of some of its arguments, the others fixed."""
        args = self.args
        positions = range(len(args)) if positions is None else positions

        def f(*chosen: Any) -> fg.Tensor:
            merged = list(args)
            for k, arg in zip(positions, chosen, strict=True):
                merged[k] = arg
            return apply(self.primitive, *merged, **self.sample.params)

        return f

    def point(self, positions: Sequence[int]) -> Arrays:
        """Some of the arguments."""
        return tuple(self.args[k] for k in positions)

    def in_single_precision(self) -> Case:
        """The same with float32 and complex64 in the place of float64 and complex128."""
        return self.cast_to(LOWER)

    def cast_to(self, dtypes: Any) -> Case:
        """The same with arrays of some dtypes cast to others."""
        args = tuple(
            arg.astype(dtypes.get(arg.dtype, arg.dtype))
            if isinstance(arg, (np.ndarray, np.generic))
            else arg
            for arg in self.sample.args
        )
        return replace(self, sample=replace(self.sample, args=args))


def every_case(primitives: Sequence[Primitive]) -> Iterator[Case]:
    """Every primitive at every sample."""
    for primitive in primitives:
        for number, sample in enumerate(primitive.samples()):
            yield Case(primitive, number, sample)


def representatives(cases: Iterable[Case]) -> list[Case]:
    """Of elementwise operations the cases that differ in kind, of all others every case.

    What transformations, programs, backends and files make of an elementwise operation comes of
    one constructor, which sees dtypes, shapes and parameters but no numbers: a case stands for all
    of its kind. Kept are the first one that is a smooth array, those at an edge, complex, broadcast
    and empty, and one of all, another one for another operation. What numbers decide (values,
    derivatives, their digits) is tried with every case.
    """
    by_operation: dict[str, list[Case]] = {}
    for case in cases:
        by_operation.setdefault(case.primitive.name, []).append(case)
    return [case for each in by_operation.values() for case in _of_each_kind(each)]


def _of_each_kind(cases: Sequence[Case]) -> Iterator[Case]:
    """The representatives of the cases of one operation."""
    name, batch = cases[0].primitive.name, cases[0].primitive.batch
    in_turn = zlib.crc32(name.encode()) % len(cases)
    seen: set[str] = set()
    for place, case in enumerate(cases):
        kinds = _kinds(case)
        if batch is not batch_elementwise or place == in_turn or not kinds <= seen:
            yield case
        seen |= kinds


def _kinds(case: Case) -> set[str]:
    """What sets a case apart from others of the same operation."""
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
    """Each alone, then all pairs, ..., then all together; of more than three only the extremes."""
    sizes = range(1, len(positions) + 1) if len(positions) <= 3 else (1, len(positions))
    for size in sizes:
        yield from combinations(positions, size)


def direction(rng: np.random.Generator, x: Any) -> Any:
    """A random array in the shape and the dtype of another, of magnitudes around 1.

    Where the other is extreme it is of that magnitude, so that a step along it is neither lost nor
    a leap.
    """
    like = np.asarray(x)
    drawn: Any = rng.uniform(0.5, 1.5, like.shape) * rng.choice([-1.0, 1.0], like.shape)
    if like.dtype.kind == "c":
        drawn = drawn * np.exp(2j * np.pi * rng.uniform(size=like.shape))
    sizes = abs(like.astype(complex))
    extreme = np.isfinite(sizes) & ((sizes > 1e6) | (sizes < 1e-6)) & (sizes > 0)
    drawn = np.where(extreme, sizes, 1) * drawn
    return np.asarray(drawn).astype(like.dtype)


def directions(rng: np.random.Generator, point: Sequence[Any]) -> Arrays:
    """A direction for each array."""
    return tuple(direction(rng, x) for x in point)


def inner(first: Any, second: Any) -> float:
    """The real inner product: a complex number counts as the pair of its parts."""
    first, second = np.asarray(first, complex), np.asarray(second, complex)
    return float(np.sum(first.real * second.real + first.imag * second.imag))


def inner_all(first: Sequence[Any], second: Sequence[Any]) -> float:
    """The inner product of lists of arrays."""
    return sum(inner(a, b) for a, b in zip(first, second, strict=True))


# What central differences, extrapolated once, can tell in each precision: step and tolerance.
_DIFFERENCES = {2: (0.1, 0.1), 4: (3e-2, 2e-3), 8: (1e-4, 1e-6)}


def coarsest(arrays: Sequence[Any]) -> int:
    """The bytes of a real number in the coarsest floating dtype among arrays."""
    dtypes = [np.asarray(a).dtype for a in arrays]
    return min(d.itemsize // (2 if d.kind == "c" else 1) for d in dtypes if d.kind in "fc")


def differences(
    f: Callable[..., Sequence[Any]], point: Sequence[Any], along: Sequence[Any]
) -> tuple[list[Any], float]:
    """The derivative of NumPy functions along a direction, and how far it can be trusted."""
    step, tolerance = _DIFFERENCES[coarsest([*point, *f(*point)])]

    def central(h: float) -> list[Any]:
        ahead = f(
            *[np.asarray(x + h * v).astype(v.dtype) for x, v in zip(point, along, strict=True)]
        )
        behind = f(
            *[np.asarray(x - h * v).astype(v.dtype) for x, v in zip(point, along, strict=True)]
        )
        return [(np.asarray(a) - b) / (2 * h) for a, b in zip(ahead, behind, strict=True)]

    with np.errstate(all="ignore"):
        near, far = central(step), central(2 * step)
        return [n + (n - f) / 3 for n, f in zip(near, far, strict=True)], tolerance


def complex_step(case: Case, positions: Sequence[int], along: Sequence[Any]) -> Any:
    """The derivative by a step along the imaginary axis; None where NumPy refuses."""
    args = list(case.args)
    for k, v in zip(positions, along, strict=True):
        args[k] = args[k] + 1e-30j * v
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # "casting discards the imaginary part" is a refusal
            value = np.asarray(case.evaluate(*args))
    except (TypeError, ValueError, np.exceptions.ComplexWarning):
        return None
    return value.imag / 1e-30


def assert_near(actual: Any, expected: Any, tolerance: float, what: str) -> None:
    """Check two arrays, or lists of them, relative to the greatest finite number in each."""
    if not isinstance(actual, (list, tuple)):
        actual, expected = [actual], [expected]
    assert len(actual) == len(expected)
    for own, other in zip(actual, expected, strict=True):
        own, other = np.asarray(own), np.asarray(other)
        assert own.shape == other.shape, what
        sizes = abs(other[np.isfinite(other)])
        scale = max(1.0, float(sizes.max())) if sizes.size else 1.0
        assert_allclose(own, other, rtol=tolerance, atol=tolerance * scale, err_msg=what)


def batch_of(x: Any, size: int) -> Any:
    """Examples that differ, on axis 0: floats scaled, which keeps order, zeros and ties."""
    x = np.asarray(x)
    examples = [
        (x * x.dtype.type(1 - 0.0625 * k)).astype(x.dtype)
        if x.dtype.kind in "fc"
        else np.roll(x, k)
        for k in range(size)
    ]
    return np.stack(examples) if size else np.zeros((0, *x.shape), x.dtype)


def loop(case: Case, args: Sequence[Any], flags: Sequence[bool], size: int) -> Any:
    """The operation on one example after the other."""
    with np.errstate(all="ignore"):
        return np.stack(
            [
                bind(
                    case.primitive,
                    tuple(a[i] if flag else a for a, flag in zip(args, flags, strict=True)),
                    case.sample.params,
                )
                for i in range(size)
            ]
        )

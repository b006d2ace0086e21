"""Shared tools of the tests of programs: functions, random programs, and bitwise equality."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType, ModuleType
from typing import Any

import numpy as np
from hypothesis import strategies as st

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._core import pytrees
from funcgrad._forms.source_text import MAKER, Source
from funcgrad._programs.equation import Constant
from tests.transforms.support import complex_numbers, numbers

SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -3.0, 3e38, 1.4e-45, 5e-324, np.inf, -np.inf, np.nan)


def bits(x: Any) -> tuple[Any, ...]:
    """A value that is equal for arrays with equal bits; all NaN count as equal."""
    array = np.array(x)
    if array.dtype.kind == "f":
        array[np.isnan(array)] = np.nan
    if array.dtype.kind == "c":
        parts = array.reshape(-1).view(array.real.dtype)
        parts[np.isnan(parts)] = np.nan
    return array.shape, array.dtype, array.tobytes()


def assert_bits(actual: Any, expected: Any) -> None:
    """Check two trees of arrays: structure, shapes, dtypes, and every bit."""
    assert pytrees.structure(actual) == pytrees.structure(expected)
    for own, other in zip(pytrees.leaves(actual), pytrees.leaves(expected), strict=True):
        if bits(own) != bits(other):
            raise AssertionError(f"{np.asarray(own)!r} is not {np.asarray(other)!r}")


def public_functions(module: ModuleType) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The functions that a module defines for others, by name."""
    for name, value in vars(module).items():
        if inspect.isfunction(value) and value.__module__ == module.__name__ and name[0] != "_":
            yield name, value


def function_of(source: Source) -> Callable[..., Any]:
    """The function of a text, in a module of its own."""
    module: dict[str, Any] = {}
    exec(source.text, module)
    made: Any = module[MAKER](source.constants) if source.constants else module[source.name]
    return made


@dataclass(frozen=True)
class Subject:
    """A function and arguments for it."""

    f: Callable[..., Any]
    args: tuple[Any, ...]

    def staged(self) -> fg.Program:
        """Its program."""
        return fg.program(self.f)(*self.args)


def _mlp(layers: Any, x: Any, labels: Any) -> Any:
    for weight, bias in layers[:-1]:
        x = fnp.tanh(x @ weight + bias)
    weight, bias = layers[-1]
    logits = x @ weight + bias
    picked = fnp.take_along_axis(logits, labels[:, None], axis=1)
    return fnp.mean(fg.nn.logsumexp(logits, axis=1) - picked[:, 0])


def _rnn(weight: Any, h: Any, xs: Any) -> Any:
    for x in xs:
        h = fnp.tanh(weight @ h + x)
    return fnp.sum(h * h)


@fg.custom_jvp
def wrong_cube(x):
    return x * x * x


@wrong_cube.defjvp
def _wrong_cube_rule(primals, tangents):
    (x,), (t,) = primals, tangents
    return wrong_cube(x), 30.0 * x * x * t


@fg.custom_vjp
def wrong_square(x):
    return x * x


wrong_square.defvjp(lambda x: (x * x, x), lambda x, ct: (20.0 * x * ct,))


def _calls(x: Any, scale: Any) -> Any:
    """Nested calls; two close over staged values, and one branches on a number."""

    @fg.custom_vjp
    def total(y: Any) -> Any:
        return fnp.sum(y) if y[0] < 100.0 else y[0]

    total.defvjp(lambda y: (total(y), y), lambda y, ct: (3.0 * ct * y,))

    @fg.checkpoint
    def inner(y: Any) -> Any:
        return fnp.sin(wrong_square(y) * scale) + total(y)

    @fg.checkpoint
    def outer(y: Any) -> Any:
        return inner(inner(y) * scale) - wrong_cube(y)

    return outer(x) + total(x)


def _safe(x: Any) -> Any:
    return fnp.sum(fnp.where(x > 0, fnp.log(fnp.where(x > 0, x, 1.0)), 0.0))


def _scatter(x: Any, i: Any) -> Any:
    return fnp.sum(fg.tensor(np.zeros(4)).at[i].add(x)[i] ** 2) + fnp.sum(x.at[1].set(0.0))


def _branches(x: Any) -> Any:
    if x.sum() > 0 and int(x[0]) == 1:
        return x * float(x[1])
    return -x


def _weak(x: Any, scale: float) -> Any:
    return (x * scale + 1) * 1.0, scale * 1.0, scale - 0.0, x * np.float64(1.0), x * True


def _integers(i: Any, b: Any) -> Any:
    return (
        i * 1,
        i + 0,
        i - 0,
        i // 2,
        fnp.negative(-i),
        i / 1,
        fnp.invert(~i),
        b & True,
        b * True,
        b + False,
        ~b,
        i * b,
    )


def _complexes(z: Any) -> Any:
    return (
        z * 1.0,
        z - 0.0,
        z / 1.0,
        fnp.negative(-z),
        z.conj().conj(),
        z.real * 1.0,
        z + 0.0,
        z * 1.0j,
    )


def _trivial(x: Any) -> Any:
    y = fnp.reshape(fnp.reshape(x, (-1,)), x.shape).T.T[...].astype(x.dtype)
    zeros = fnp.zeros(x.shape)
    chosen = fnp.where(True, y, zeros), fnp.where(np.zeros(x.shape, bool), y, x * 2.0)
    return (
        chosen,
        y - 0.0,
        y - -0.0,
        y + 0.0,
        y + -0.0,
        1.0 * y / 1.0,
        fnp.negative(-y),
        y * zeros,
        y**1,
    )


def _constants(x: Any) -> Any:
    table = fnp.cumsum(fnp.arange(6.0).reshape(2, 3), axis=1) * 2.0
    unused = fnp.exp(x) @ table.T
    del unused
    return x + fnp.log(fnp.ones(3) - 1.0) + table, fnp.sqrt(table) + x


SPECIALS = np.array([0.0, -0.0, 1.0, np.inf, -np.inf, np.nan])
_COMPLEX = np.array([complex(x, y) for x in SPECIALS for y in SPECIALS])
_LAYERS = ((numbers(4, 3), numbers(3)), (numbers(3, 2, seed=1), numbers(2)))

SUBJECTS: Mapping[str, Subject] = MappingProxyType(
    {
        "mlp": Subject(fg.value_and_grad(_mlp), (_LAYERS, numbers(5, 4), np.arange(5) % 2)),
        "rnn": Subject(fg.grad(_rnn), (numbers(3, 3), numbers(3), numbers(4, 3))),
        "slices": Subject(fg.grad(lambda x: (x[1:] * x[:-1]).sum() + x[::-2][0]), (numbers(5),)),
        "einsum": Subject(
            fg.grad(lambda a, b: fnp.einsum("ij,jk->", a, b)), (numbers(2, 3), numbers(3, 2))
        ),
        "where": Subject(fg.value_and_grad(_safe), (np.array([2.0, 0.0, -1.0, np.inf]),)),
        "sort": Subject(fg.grad(lambda x: (fnp.sort(x) * fnp.arange(4.0)).sum()), (numbers(4),)),
        "scatter": Subject(fg.grad(_scatter), (numbers(3), np.array([0, 2, 0]))),
        "cumprod": Subject(fg.grad(lambda x: fnp.sum(fnp.cumprod(x))), (numbers(4),)),
        "custom_jvp": Subject(lambda x: wrong_cube(x) + wrong_cube(x * 1.0), (2.0,)),
        "custom_vjp": Subject(lambda x: wrong_square(x) * 1.0, (numbers(3),)),
        "checkpoint": Subject(fg.grad(fg.checkpoint(_safe)), (numbers(3),)),
        "segment": Subject(lambda x: fg.checkpoint(_safe)(x) * 2.0, (numbers(3),)),
        "calls": Subject(_calls, (numbers(3), 2.0)),
        "vmap": Subject(fg.vmap(fg.grad(_safe)), (numbers(3, 4),)),
        "hessian": Subject(fg.hessian(lambda x: fnp.prod(x) + (x**3).sum()), (numbers(3),)),
        "jvp": Subject(lambda x: fg.jvp(fnp.sin, (x,), (1.0 * x,)), (numbers(3),)),
        "guards": Subject(_branches, (np.array([1.0, 2.0]),)),
        "weak": Subject(_weak, (np.array([1.5, -0.0], np.float32), -0.0)),
        "weak_int": Subject(_weak, (np.array([3, 4], np.int8), 2)),
        "half": Subject(_trivial, (SPECIALS.astype(np.float16).reshape(2, 3),)),
        "integers": Subject(_integers, (np.array([1, -2, 0]), np.array([True, False, True]))),
        "unsigned": Subject(
            lambda i: (i * 1, fnp.negative(-i), i + 0), (np.array([1, 255], np.uint8),)
        ),
        "complexes": Subject(_complexes, (np.concatenate([complex_numbers(3), _COMPLEX]),)),
        "specials": Subject(_trivial, (SPECIALS,)),
        "matrix": Subject(_trivial, (numbers(2, 3),)),
        "empty": Subject(_trivial, (np.zeros((0, 3)),)),
        "constants": Subject(_constants, (numbers(2, 3),)),
        "no_inputs": Subject(lambda: fnp.sin(fnp.ones(3)) * 2.0, ()),
        "identity": Subject(lambda x, y: (y, x, y), (1.0, numbers(2))),
        "random": Subject(lambda k: fg.random.normal(k, (3,)) * 1.0, (fg.random.key(1),)),
        "dict": Subject(lambda p: {"b": p["a"] * 1.0, "c": None}, ({"a": numbers(2)},)),
    }
)


def fixed(program: fg.Program, args: tuple[Any, ...], free: int = 0) -> fg.Program:
    """The program of positional arguments that are single arrays, with all but the first few fixed.

    Constants follow the inputs in the numbering of variables, so nothing needs to be renumbered.
    """
    values = [np.asarray(x) if np.ndim(x) else x for x in args[free:]]
    return replace(
        program,
        inputs=program.inputs[:free],
        names=program.names[:free],
        constants=(*[Constant(value) for value in values], *program.constants),
        arguments=pytrees.structure((args[:free], {})),
    ).verify()


# -------------------------------------------------------------------------------- random programs

UNARY = tuple(
    """negative positive square exp tanh sin absolute sign floor rint sqrt conj isnan logical_not
    reciprocal""".split()
)
BINARY = tuple("add subtract multiply divide maximum minimum less equal hypot".split())
MOVES: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {
        "transpose": lambda x: x.T,
        "same_shape": lambda x: fnp.reshape(x, x.shape),
        "ravel": lambda x: fnp.reshape(x, (-1,)),
        "back": lambda x: fnp.reshape(fnp.reshape(x, (-1,)), x.shape),
        "flip": fnp.flip,
        "everything": lambda x: x[...],
        "reversed": lambda x: x[::-1] if x.ndim else x,
        "float": lambda x: x.astype(float) if x.dtype.kind != "c" else x,
        "single": lambda x: x.astype(np.float32) if x.dtype.kind != "c" else x,
        "maximum": lambda x: fnp.max(x, initial=0) if x.dtype.kind == "f" else x,
        "cumulative": lambda x: fnp.cumsum(x, axis=0) if x.ndim else x,
        "stacked": lambda x: fnp.stack([x, x])[0],
        "as_it_is": fg.stop_gradient,
        "times_one": lambda x: x * 1.0,
        "one_times": lambda x: 1 * x,
        "minus_zero": lambda x: x - 0.0 if x.dtype.kind != "b" else x,
        "plus_minus_zero": lambda x: x + -0.0,
        "plus_zero": lambda x: x + 0.0,
        "minus_one_times": lambda x: x * -1.0,
        "doubled": lambda x: x + x,
        "two_times": lambda x: 2.0 * x,
        "minus_half": lambda x: x * -0.5,
        "three_times": lambda x: 3 * x,
        "tenth": lambda x: 0.1 * x,
        "over_minus_four": lambda x: x / -4.0,
        "two_over": lambda x: 2 / x,
        "squared": lambda x: x * x,
        "to_the_power_of_two": lambda x: x**2 if x.dtype.kind != "b" else x,
        "chosen_twice": lambda x: fnp.where(x > 0, fnp.where(x > 0, x, 1.0), fnp.negative(2.0 * x)),
        "chosen_else": lambda x: fnp.where(fnp.logical_not(x > 0), x, 3.0),
        "unequal": lambda x: fnp.logical_not(x == 1.0),
        "itself": lambda x: fnp.maximum(x, x),
        "sum_with_its_axis": lambda x: _reduced(fnp.sum, x)[..., None],
        "max_with_its_axis": lambda x: _reduced(fnp.max, x)[..., None],
        "sum_without_its_axis": lambda x: _reduced(fnp.sum, x, keepdims=True)[..., 0],
        "max_of_equals": lambda x: fnp.max(fnp.broadcast_to(x, (2, *x.shape)), axis=0),
        "minimum": lambda x: _reduced(fnp.min, x),
        "column": lambda x: x[..., None],
        "stretched": lambda x: fnp.broadcast_to(x, (3, 3)) if x.ndim < 2 else x,
        "tail_of_tail": lambda x: x[1:][1:][:, None] if x.ndim else x,
        "first_of_column": lambda x: x[:, -1:][0] if x.ndim > 1 else x,
    }
)


def _reduced(reduce: Any, x: Any, keepdims: bool = False) -> Any:
    x = x if x.ndim else x[None]
    return reduce(x, axis=-1, keepdims=keepdims)


CHOICES: Mapping[str, Any] = MappingProxyType(
    {"true": True, "false": False, "mixed": np.array([True, False, True])}
)

steps = st.one_of(
    st.tuples(st.just("unary"), st.sampled_from(UNARY), st.integers(0, 99), st.just(0)),
    st.tuples(st.just("binary"), st.sampled_from(BINARY), st.integers(0, 99), st.integers(0, 99)),
    st.tuples(st.just("move"), st.sampled_from(sorted(MOVES)), st.integers(0, 99), st.just(0)),
    st.tuples(st.just("where"), st.sampled_from(sorted(CHOICES)), *[st.integers(0, 99)] * 2),
    st.tuples(st.just("number"), st.sampled_from(SPECIAL), st.just(0), st.just(0)),
    st.tuples(st.just("array"), st.sampled_from(SPECIAL), st.integers(0, 1), st.just(0)),
)


def run_steps(chosen: list[Any], *inputs: Any) -> list[Any]:
    """A straight-line function: each step uses earlier values, or adds a new one."""
    values: list[Any] = list(inputs)
    for kind, name, i, j in chosen:
        x, y = values[i % len(values)], values[j % len(values)]
        if kind == "number":
            values.append(name)
            continue
        if kind == "array":
            values.append(fg.tensor(np.full((3, 3) if i else (), name, np.float32)))
            continue
        values.append(_stepped(kind, name, fnp.asarray(x), fnp.asarray(y)))
    return values[len(inputs) :]


def _stepped(kind: str, name: str, x: Any, y: Any) -> Any:
    if kind == "move":
        return MOVES[name](x)
    try:
        if kind == "unary":
            return getattr(fnp, name)(x)
        if kind == "binary":
            return getattr(fnp, name)(x, y)
        return fnp.where(CHOICES[name], x, y)
    except (fg.errors.ShapeError, fg.errors.DtypeError):
        return x


inputs = st.tuples(
    st.lists(st.sampled_from(SPECIAL), min_size=9, max_size=9).map(
        lambda xs: np.array(xs).reshape(3, 3)
    ),
    st.lists(st.sampled_from(SPECIAL), min_size=3, max_size=3).map(
        lambda xs: np.array(xs, np.float32)
    ),
    st.lists(st.integers(-2, 2), min_size=3, max_size=3).map(np.array),
    st.sampled_from(SPECIAL).map(complex),
    st.sampled_from(SPECIAL),
)

"""``functions``: random functions that print as source code.

The operations are discovered: every public function of one array in ``funcgrad.numpy`` and
``scipy.special`` that is a single element-wise operation, on a range of its samples where it is
smooth; and every such function of ``nn`` away from kinks. A hyperbolic tangent maps an operand into
the range, so no argument leaves the domain. Further operations are binary operators, sums,
movements of elements, products with matrices, linear algebra of positive definite matrices, complex
numbers, loops and branches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from types import ModuleType
from typing import Any, Final, TypeAlias

import numpy as np

import funcgrad.nn as nn
import funcgrad.numpy as array_functions
import funcgrad.scipy.special as special
from funcgrad._base.floating_errors import quiet
from funcgrad._base.locks import cached_property
from funcgrad._core.primitive import DISCRETE, Partials, Primitive
from funcgrad._core.specs import Shape
from funcgrad._core.structure.structures import Elementwise
from funcgrad._core.trace import Value
from funcgrad._transforms.forward import jvp
from funcgrad._transforms.stage import program
from funcgrad.debug.kinks_met import kinks_met
from funcgrad.errors import ArgumentError, FuncgradError
from funcgrad.numpy.options import integer, shape_argument
from funcgrad.testing.strategies.arrays import Strategy, hypothesis_for

ShapeLike: TypeAlias = "int | Sequence[int] | Sequence[Sequence[int]]"

_BINARY: Final = (
    "{0} + {1}",
    "{0} - {1}",
    "{0} * {1}",
    "{0} / (1.5 + {1} * {1})",
    "fnp.arctan2({0}, 1.5 + {1} * {1})",
    "fnp.logaddexp({0}, {1})",
    "fnp.hypot({0}, 1.5 + {1})",
)
_ANY: Final = (
    "fnp.tanh({0})",
    "fnp.sin({0})",
    "{0} * {0}",
    "0.5 * {0}",
    "{0} / fnp.sqrt(1.5 + fnp.sum({0} * {0}))",
    "fnp.mean({0}) - {0}",
)
_VECTOR: Final = (
    "fnp.cumsum({0}, axis=-1)",
    "fnp.flip({0}, axis=-1)",
    "fnp.roll({0}, 1, axis=-1)",
    "fnp.sort(fnp.arange({n}) * 9.5 + fnp.sin({0}), axis=-1)",
    "fg.nn.softmax({0}, axis=-1)",
    "{0} - fg.nn.logsumexp({0}, axis=-1, keepdims=True)",
    "{0} @ (np.cos(np.arange({n} * {n})).reshape({n}, {n}) / {n})",
)
_OF_NUMBERS: Final = (
    "fnp.real((0.5 + {0} + 1j * fnp.sin({0})) * fnp.exp(1j * {0}))",
    "fnp.angle(2.0 + fnp.tanh({0}) + 1j * {0})",
    "fg.fori_loop(0, 3, lambda step, carry: fnp.tanh(carry + {0}), {0})",
    "fg.scan(lambda carry, step: (fnp.sin(carry) + {0} * step, None), {0}, fnp.arange(3.0))[0]",
    "fg.while_loop(lambda carry: carry[0] < 3,"
    " lambda carry: (carry[0] + 1, fnp.cos(carry[1]) * {0}), (0, {0}))[1]",
    "fg.cond(fnp.sum({0}) > 0, lambda: fnp.tanh({0}), lambda: 2 * fg.nn.sigmoid(2 * {0}) - 1)",
    "fg.vmap(lambda factor: fnp.sin(factor * {0}))(fnp.arange(1.0, 3.0)).sum(0)",
    "fg.jit(lambda value: value * fnp.exp(-value * value))({0})",
    "fg.checkpoint(lambda value: fnp.cos(value) * value)({0})",
)
"""Complex numbers, control flow (whose branches have the same values), and transformations. Inner
names are words, because the lines of programs are named by letters.
"""

_POSITIVE: Final = "({0}[..., :, None] * {0}[..., None, :] + 2.0 * np.eye({n}))"
_OF_VECTORS: Final = (
    f"fnp.linalg.solve({_POSITIVE}, {{0}}[..., None])[..., 0]",
    f"fnp.linalg.slogdet({_POSITIVE})[1][..., None] * {{0}}",
    f"fnp.sum(fnp.linalg.cholesky({_POSITIVE}), axis=-1)",
    f"({{0}}[..., None, :] @ fnp.linalg.inv({_POSITIVE}))[..., 0, :]",
    "fnp.imag(fnp.fft.fft({0}, axis=-1)) + {0}",
)
"""Linear algebra."""

_POINTS: Final = 17
_NN_RANGE: Final = (-3.0, 3.0)


class DrawnFunction:
    """A function made from source code.

    Attributes
    ----------
    source : str
        Python code that defines ``f``. It uses ``fg``, ``fnp`` (``funcgrad.numpy``), ``np``, and if
        needed ``special`` (``funcgrad.scipy.special``).
    """

    def __init__(self, source: str) -> None:
        self.source: Final = source
        self.__name__ = "f"

    @cached_property
    def _function(self) -> Callable[..., Any]:
        names: dict[str, Any] = {}
        exec(self.source, names)
        return names["f"]

    def __call__(self, *args: Value) -> Any:
        return self._function(*args)

    def __repr__(self) -> str:
        return self.source

    def __reduce__(self) -> Any:
        return DrawnFunction, (self.source,)


def functions(
    domain: ShapeLike = (3,), codomain: ShapeLike = (), *, max_steps: int = 6
) -> Strategy:
    """Draw smooth functions of float64 arrays that print as source code.

    Use them to test transformations, solvers or optimizers of your own on many functions.

    Parameters
    ----------
    domain : shape, or list of shapes
        The shape of the argument; a list has one shape for each of several arguments.
    codomain : shape
        The shape of the result.
    max_steps : int
        The maximum number of lines before the result.

    Returns
    -------
    strategy
        It draws functions with an attribute ``source``. They shrink to fewer and simpler steps.

    Raises
    ------
    ArgumentError, ShapeError
        A shape is invalid, the list of arguments is empty, or ``max_steps`` is less than 1.
    MissingPackageError
        Hypothesis is not installed.

    Examples
    --------
    >>> from hypothesis import find
    >>> f = find(functions((2,)), lambda f: True)
    >>> print(f.source)
    import numpy as np
    import funcgrad as fg
    import funcgrad.numpy as fnp
    def f(x):
        a = x + x
        return fnp.sum(a * (1.0 + np.arange(2.0)) / 2)
    >>> f(np.array([0.5, 1.25]))
    Tensor(3.0)
    """
    name = "strategies.functions"
    shapes = list(domain) if isinstance(domain, list) else [domain]
    inputs = [shape_argument(shape, name) for shape in shapes]
    output, most = shape_argument(codomain, name), integer(max_steps, name, "max_steps")
    if not inputs or len(inputs) > 4:
        raise ArgumentError(f"{name}: domain has to be of 1 to 4 arguments, got {len(inputs)}.")
    if most < 1:
        raise ArgumentError(f"{name}: max_steps has to be at least 1, got {most}.")
    if any(0 in shape for shape in [*inputs, output]):
        raise ArgumentError(f"{name}: the shapes of functions need elements, got {domain!r}.")
    st = hypothesis_for(name)
    unary = [text for text, _ in OPERATIONS.texts]
    texts = [*_BINARY, *_ANY, *_VECTOR, *unary, *_OF_NUMBERS, *_OF_VECTORS]
    steps = st.tuples(st.sampled_from(texts), st.integers(0, 7), st.integers(0, 7))
    drawn = st.lists(steps, min_size=1, max_size=most)
    return drawn.map(lambda chosen: DrawnFunction(_source(inputs, output, chosen)))


def _source(inputs: Sequence[Shape], output: Shape, steps: Sequence[tuple[str, int, int]]) -> str:
    arguments = "xyzw"[: len(inputs)]
    variables = list(zip(arguments, inputs, strict=True))
    lines = []
    for number, (text, first, second) in enumerate(steps):
        name = "abcdefghijklmnopqrstuv"[number] if number < 22 else f"a{number}"
        # The first choice is the latest value, so that programs shrink to a chain.
        one, shape = variables[-1 - first % len(variables)]
        other, other_shape = variables[-1 - second % len(variables)]
        if text in (*_VECTOR, *_OF_VECTORS) and not shape:
            text = _ANY[0]
        if other_shape != shape:
            other = f"fnp.mean({other})"
        lines.append(f"    {name} = {text.format(one, other, n=shape[-1] if shape else 1)}")
        variables.append((name, shape))
    value, shape = variables[-1]
    header = ["import numpy as np", "import funcgrad as fg", "import funcgrad.numpy as fnp"]
    if any("special." in line for line in lines):
        header.append("import funcgrad.scipy.special as special")
    header.append(f"def f({', '.join(arguments)}):")
    return "\n".join([*header, *lines, f"    return {_result(value, shape, output)}"])


def _result(value: str, shape: Shape, output: Shape) -> str:
    """Bring a value to the shape of the result, such that every element matters."""
    if shape == output:
        return value
    n, m = prod(shape), prod(output)
    if not output:
        if len(shape) == 1:
            return f"fnp.sum({value} * (1.0 + np.arange({n}.0)) / {n})"
        return f"fnp.sum(fnp.ravel({value}) * (1.0 + np.arange({n}.0)) / {n})"
    matrix = f"np.cos(np.arange({n * m}.0)).reshape({n}, {m})"
    return f"fnp.reshape(fnp.reshape({value}, ({n},)) @ {matrix}, {output})"


class _SmoothOperations:
    """The public element-wise functions of one operand, found when needed."""

    @cached_property
    def texts(self) -> tuple[tuple[str, Primitive | None], ...]:
        """Return the text of each call, with a field for the operand, and its operation, if any."""
        seen: set[Primitive] = set()
        of_arrays = tuple(_discovered("fnp", array_functions, seen))
        return (*of_arrays, *_discovered("special", special, seen), *_of_nn())


def _discovered(
    alias: str, namespace: ModuleType, seen: set[Primitive]
) -> Iterator[tuple[str, Primitive | None]]:
    for name in sorted(namespace.__all__):
        operation = _operation(getattr(namespace, name))
        if operation is None or operation in seen:
            continue
        seen.add(operation)
        limits = _smooth_range(operation)
        if limits is not None:
            yield _call(f"{alias}.{name}", limits), operation


def _of_nn() -> Iterator[tuple[str, Primitive | None]]:
    for name in nn.__all__:
        function: Any = getattr(nn, name)
        if not isinstance(function, type) and callable(function):
            try:
                is_elementwise = np.asarray(function(0.5)).ndim == 0 and _is_smooth(
                    function, *_NN_RANGE
                )
            except Exception:  # a function of other arguments
                continue
            if is_elementwise:
                yield _call(f"fg.nn.{name}", _NN_RANGE), None


def _call(path: str, limits: tuple[float, float]) -> str:
    """Return the text of a call whose argument is within limits."""
    middle, half = sum(limits) / 2, (limits[1] - limits[0]) / 2
    return f"{path}({middle:.4g} + {half:.4g} * fnp.tanh({{0}}))"


def _operation(function: object) -> Primitive | None:
    """Return the operation of a function that is a single element-wise operation."""
    if isinstance(function, type) or not callable(function):
        return None
    try:
        with quiet():
            staged = program(function)(0.625)
    except Exception:  # a function of other arguments
        return None
    if len(staged.equations) != 1 or len(staged.outputs) != 1:
        return None
    (equation,) = staged.equations
    operation = equation.operation
    is_plain = isinstance(operation.structure, Elementwise) and not equation.params
    is_smooth = operation.differential is not DISCRETE and equation.operands == (0,)
    selects = isinstance(operation.differential, Partials) and operation.differential.selects
    return operation if is_plain and is_smooth and not selects else None


def _smooth_range(operation: Primitive) -> tuple[float, float] | None:
    """Return the range of a sample, if the operation is finite and smooth on it."""
    for sample in operation.samples():
        numbers = np.asarray(sample.args[0])
        if sample.smooth and len(sample.args) == 1 and numbers.dtype == np.float64:
            low, high = float(numbers.min(initial=np.inf)), float(numbers.max(initial=-np.inf))
            low, high = max(low, -3.0), min(high, 3.0)
            if high - low < 0.1:
                continue
            return (low, high) if _is_smooth(operation, low, high) else None
    return None


def _is_smooth(operation: Callable[..., Any], low: float, high: float) -> bool:
    """Whether values and slopes are moderate, and slopes are continuous."""
    changes = []
    for count in (_POINTS, 8 * _POINTS):
        points = np.linspace(low, high, count)
        try:
            values, slopes = map(np.asarray, jvp(operation, (points,), (np.ones(count),)))
        except FuncgradError:
            return False
        is_real = values.shape == points.shape and values.dtype.kind == "f"
        if not is_real or not np.all((abs(values) < 50) & (abs(slopes) < 50)):
            return False
        changes.append(float(np.max(abs(np.diff(slopes)))))
    return changes[1] <= 0.5 * changes[0] and not _crosses_kink(operation, low, high)


def _crosses_kink(operation: Callable[..., Any], low: float, high: float) -> bool:
    """Whether the arguments between limits contain a kink."""
    run = kinks_met(operation, (np.linspace(low, high, _POINTS),))
    zeros = [np.sign(np.asarray(x)) for met in run.met for x in met.zeros]
    return any(sides.min() != sides.max() or not sides.all() for sides in zeros)


OPERATIONS: Final = _SmoothOperations()
"""The operations of random programs."""

"""Linear maps: the linearization of a function, and the transpose of a linear one.

>>> import funcgrad as fg
>>> out, push = fg.linearize(lambda x: x**2, 3.0)
>>> out, push(1.0), push(10.0)
(Tensor(9.0), Tensor(6.0), Tensor(60.0))
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np

from funcgrad._base.floating_errors import quiet
from funcgrad._core import pytrees
from funcgrad._core.primitive import DISCRETE, Linear, Linearized, Primitive
from funcgrad._core.specs import Spec, dtype_of, shape_of, spec_of
from funcgrad._core.structure.structures import Trait
from funcgrad._core.trace import RAW, Value, is_followed
from funcgrad._hints.lookup import answering
from funcgrad._hooks.result_watch import watched
from funcgrad._primitives.reduction import reduce_any
from funcgrad._transforms.arguments import Chosen, choose, values_of
from funcgrad._transforms.composite import Composite
from funcgrad._transforms.factors import Outline, fit_tangent, zeros_like
from funcgrad._transforms.masked import fit_cotangent, values_there
from funcgrad._transforms.record import Recorder
from funcgrad._transforms.recorded import Record, Recorded
from funcgrad._transforms.transformed import LinearMap
from funcgrad.errors import DifferentiationError
from funcgrad.tensor.tensor import wrap


@watched
@answering
def linearize(f: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """Evaluate a function, and return its derivative at that point as a linear function.

    ``push`` computes the same products as ``jvp``, without evaluating ``f`` again. Use it for many
    directions at one point, as in conjugate gradients.

    Parameters
    ----------
    f : callable
        Takes the primals and returns a pytree.
    *primals : pytrees
        Their leaves have a floating-point or complex dtype.

    Returns
    -------
    out : pytree
        ``f(*primals)``.
    push : callable
        Takes a tangent for each primal and returns the tangent of ``out``. It may be called any
        number of times, and keeps the recorded values in memory meanwhile. It is a pytree, whose
        leaves are the values that it reads.

    Examples
    --------
    >>> import funcgrad as fg
    >>> _, push = fg.linearize(lambda x, y: x * y, 2.0, 3.0)
    >>> push(1.0, 0.0), push(0.0, 1.0)
    (Tensor(3.0), Tensor(2.0))
    """
    chosen = choose("linearize", f, primals, tuple(range(len(primals))))
    recorder, record, out = Recorder.run(lambda xs: f(*chosen.trees(xs)), chosen.leaves)
    leaves, structure = pytrees.flatten(out)
    values = values_of("linearize", leaves, structure, lambda: "the function's result")
    indices = [recorder.index_of(value) for value in values]
    inner = [recorder.inner(value) for value in values]
    specs = [spec_of(leaf) for leaf in chosen.leaves]
    outs = [spec_of(value) for value in inner]

    def push(directions: list[Value]) -> list[Value]:
        with quiet():
            pushed = record.push(indices, directions)
            return [
                zeros_like(x, directions) if t is None else fit_tangent(t, x)
                for t, x in zip(pushed, outs, strict=True)
            ]

    linear = LinearMap("push", "tangents", push, chosen.structure, specs, structure, several=True)
    return pytrees.unflatten(structure, [wrap(value) for value in inner]), linear


@answering
def linear_transpose(f: Callable[..., Any], *primals: Any) -> Callable[..., Any]:
    """Transpose a linear function.

    If ``f`` is the product with a matrix A, the transposed function is the product with A^T, or
    with the conjugate of A^T where A is complex. The matrix is never formed.

    Parameters
    ----------
    f : callable
        Linear in all its arguments together. It runs once, at zero.
    *primals : pytrees
        Examples of the arguments; only their trees, shapes and dtypes matter.

    Returns
    -------
    callable
        Takes a cotangent with the tree, shapes and dtypes of the result of ``f``, and returns a
        tuple with the cotangent of each argument. It is the adjoint for the inner product Re<u, v>,
        and a pytree of the values that it reads.

    Raises
    ------
    DifferentiationError
        ``f`` is not linear; the error names the first operation that is not.

    Examples
    --------
    >>> import funcgrad as fg
    >>> transposed = fg.linear_transpose(lambda x: 3.0 * x[::-1], fg.tensor([0.0, 0.0]))
    >>> transposed(fg.tensor([1.0, 2.0]))
    (Tensor([6., 3.]),)
    """
    chosen = choose("linear_transpose", f, primals, tuple(range(len(primals))))
    zeros = [*map(zeros_like, chosen.leaves)]
    recorder, record, out = LinearRecorder.run(lambda xs: f(*chosen.trees(xs)), zeros)
    recorder.check_there()
    leaves, structure = pytrees.flatten(out)
    values = values_of("linear_transpose", leaves, structure, lambda: "the function's result")
    indices = [recorder.index_of(value) for value in values]
    for value, index in zip(values, indices, strict=True):
        there = _is_true(_nonzero_there(recorder.inner(value)))
        if index < 0 and (there or _is_nonzero(value)):
            raise DifferentiationError(
                "linear_transpose: the function returns a constant that is not zero, so it is not"
                " linear."
            )
        if there:  # it comes from a loop or another call
            raise DifferentiationError(
                "linear_transpose: the function is not linear but affine: at zero its result is not"
                " zero."
            )
    specs = [spec_of(recorder.inner(value)) for value in values]
    return pullback("linear_transpose", record, indices, structure, specs, chosen)


def pullback(
    operation: str,
    record: Record,
    indices: Sequence[int],
    structure: pytrees.Structure,
    specs: Sequence[Spec],
    chosen: Chosen,
) -> LinearMap:
    """The transposed linear map of a record: from variables of some specs to the chosen leaves."""
    sources = [spec_of(leaf) for leaf in chosen.leaves]

    def pull(seeds: list[Value]) -> list[Value]:
        with quiet():
            cts, there = record.pull(indices, seeds), values_there(seeds)
            return [fit_cotangent(ct, x, there) for ct, x in zip(cts, sources, strict=True)]

    return LinearMap(operation, "cotangent", pull, structure, specs, chosen.structure)


def _is_nonzero(value: Value) -> bool:
    if type(value) not in RAW:
        return False
    array = np.asarray(value)
    return bool(np.any((array != 0) & (array == array)))  # NaN is zero times infinity here


def _nonzero_there(value: Value) -> Value | None:
    """A boolean on a device: whether a value there is not zero. None for other values."""
    if is_followed(value) or type(value) in RAW:
        return None
    differs = (value != 0) & (value == value)
    return reduce_any(differs, axis=tuple(range(len(shape_of(value)))), keepdims=False)


def _is_true(boolean: Value | None) -> bool:
    """Read a boolean from a device."""
    return boolean is not None and bool(boolean)


def _check_constant(operation: str, is_nonzero: bool) -> None:
    if is_nonzero:
        raise DifferentiationError(
            f"linear_transpose: the function is not linear but affine: {operation} adds a constant"
            " that is not zero."
        )


class LinearRecorder(Recorder):
    """A recorder that refuses operations that are not linear in the values it follows."""

    title = "linear_transpose"
    has_numbers = False  # but zeros that stand for any
    runs_again = False
    __slots__ = ("_there",)

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self.is_plain = False
        self._there: list[tuple[str, Value]] = []

    def check_there(self) -> None:
        """Check the results that are on a device: one number is read from there.

        Raises
        ------
        DifferentiationError
            An operation adds a constant that is not zero.
        """
        there, self._there = self._there, []
        if there and _is_true(reduce(operator.or_, [boolean for _, boolean in there])):
            for operation, boolean in there:
                _check_constant(operation, _is_true(boolean))

    def process1(self, primitive: Primitive, x: Value) -> Value:
        return self.process(primitive, (x,), {})

    def process2(self, primitive: Primitive, x: Value, y: Value) -> Value:
        return self.process(primitive, (x, y), {})

    def process(
        self, primitive: Primitive, args: tuple[Value, ...], params: Mapping[str, Any]
    ) -> Value:
        if self.has_ended:
            return super().process(primitive, args, params)
        followed = [self.index_of(arg) >= 0 for arg in args]
        if not self._is_linear(primitive, args, followed, params):
            raise DifferentiationError(
                f"linear_transpose: the function is not linear: {primitive.name} is not linear in"
                f" argument(s) {', '.join(str(k) for k, flag in enumerate(followed) if flag)},"
                " which depend on the arguments of the function."
            )
        out = super().process(primitive, args, params)
        outs = out if type(out) is tuple else (out,)
        for result in outs:
            value = result._value if type(result) is Recorded else result
            _check_constant(primitive.name, _is_nonzero(value))
            boolean = _nonzero_there(value)
            if boolean is not None:
                self._there.append((primitive.name, boolean))
        return out

    def process_call(self, call: Composite, args: Sequence[Value]) -> list[Value]:
        """Let an operation that is met as a whole record itself as a linear map."""
        if self.has_ended:
            return super().process_call(call, args)
        return call.record_linearly(self, args)

    def _is_linear(
        self,
        primitive: Primitive,
        args: tuple[Value, ...],
        followed: list[bool],
        params: Mapping[str, Any],
    ) -> bool:
        differential = primitive.differential
        if differential is DISCRETE:
            return False
        if isinstance(differential, Linearized):
            linear = differential.linear_arguments(params)
            return {k for k, flag in enumerate(followed) if flag} <= {*linear}
        if isinstance(differential, Linear):
            return differential.jointly or sum(followed) == 1
        if Trait.JUMPS in primitive.traits or (differential.selects and differential.reduces):
            return False  # an extremum's place depends on the values
        primals = [
            Outline(shape_of(arg), dtype_of(arg)) if follow else self.inner(arg)
            for arg, follow in zip(args, followed, strict=True)
        ]
        out = Outline(shape_of(args[0]), dtype_of(args[0]))
        for follow, factor in zip(followed, differential.factors, strict=True):
            if not follow or not callable(factor):
                continue
            try:
                if isinstance(factor(out, *primals, **params), Outline):
                    return False
            except (TypeError, AttributeError):  # the factor reads a followed value
                return False
        return True

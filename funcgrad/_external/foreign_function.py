"""``foreign``: a function of any library as an operation of funcgrad.

The function runs in one operation (``foreign_operation.py``), which holds its rules.

>>> import math
>>> gamma = foreign(math.gamma, Spec((), np.dtype(float)), numerical=True)
>>> gamma(5.0)
Tensor(24.0)
"""

from __future__ import annotations

import inspect
from bisect import bisect
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import update_wrapper
from itertools import accumulate
from typing import Any, SupportsIndex

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._core import pytrees
from funcgrad._core.specs import Spec, dtype_of, is_inexact, shape_of, spec_of
from funcgrad._core.users_values import checked_dtype
from funcgrad._external.finite_differences import (
    Slopes,
    differences,
    jacobian,
    precision_of,
    refuse_doubtful,
)
from funcgrad._external.foreign_operation import Array, ForeignOperation, apply_foreign
from funcgrad._hints.lookup import answering
from funcgrad._transforms.arguments import check_function, values_of
from funcgrad._transforms.custom import by_position
from funcgrad._transforms.linear import linear_transpose
from funcgrad._transforms.transformed import importable_name
from funcgrad.errors import ArgumentError, DifferentiationError, LeafError
from funcgrad.tensor.tensor import wrap


class _ResultSpecs:
    """The tree, shapes and dtypes of the results, as the option ``result`` declares them."""

    __slots__ = ("_name", "result")

    def __init__(self, name: str, result: Any) -> None:
        self._name = name
        self.result = result
        if not callable(result):
            self._read(result)

    def of(
        self, arguments: pytrees.Structure, leaves: Sequence[Any]
    ) -> tuple[pytrees.Structure, list[Spec]]:
        """Return the structure and the specs of the result; of the arguments only specs count."""
        if not callable(self.result):
            return self._read(self.result)
        specs = [Spec(shape_of(leaf), dtype_of(leaf)) for leaf in leaves]
        return self._read(self.result(*pytrees.unflatten(arguments, specs)))

    def _read(self, promised: Any) -> tuple[pytrees.Structure, list[Spec]]:
        leaves, structure = pytrees.flatten(promised, _is_spec)
        specs = []
        for leaf, path in zip(leaves, structure.paths(), strict=True):
            if not isinstance(leaf, Spec):
                raise LeafError(
                    f"{self._name}: result{path} has to be a fg.extend.Spec(shape, dtype), got"
                    f" {leaf!r}. result= is a tree of these, or a function from the arguments'"
                    " specs to one."
                )
            shape = leaf.shape if isinstance(leaf.shape, tuple | list) else (leaf.shape,)
            dtype = checked_dtype(leaf.dtype, f"{self._name}: result{path}")
            specs.append(Spec(tuple([int(size) for size in shape]), dtype))
        return structure, specs


class ForeignFunction:
    """A function of another library as an operation; made by ``foreign``."""

    def __init__(
        self,
        operation: ForeignOperation,
        promise: _ResultSpecs,
        accuracy: float | None,
        order: int = 0,
        linear_in: tuple[int, ...] = (),
    ) -> None:
        update_wrapper(self, operation.function, updated=())
        self.__name__: str = operation.name
        self.__signature__ = _signature_of(operation.function)
        # Programs watch the outside values that users' rules read, but not those that the function
        # reads.
        self.__wrapped__ = None
        rules = (operation.jvp, operation.vjp, promise.result)
        self._rules = tuple([rule for rule in rules if not _is_ours(rule)])
        if accuracy is not None and operation.jvp is None and operation.vjp is None:
            jvp, vjp = self._pushed_by_differences, self._pulled_by_differences
            operation = replace(operation, jvp=jvp, vjp=vjp)
        self._operation = operation
        self._promise = promise
        self._accuracy = accuracy
        self._linear_in = linear_in
        self._order = order  # how often its differences have been taken
        self._directional: ForeignFunction | None = None
        self._jacobian: ForeignFunction | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function on trees of tensors, arrays and numbers."""
        positional = by_position(f"foreign {self.__name__}", self._operation.function, args, kwargs)
        return self._run(*positional)

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        return importable_name(self) or super().__reduce_ex__(protocol)

    def __repr__(self) -> str:
        return f"<foreign function {self.__name__}>"

    def error(self, *args: Any, **kwargs: Any) -> Any:
        """Return the estimated errors of the derivatives that differences find.

        Returns
        -------
        tuple
            A tree like the arguments. For each floating-point or complex array it has the largest
            estimated error of a derivative with respect to an element, as a float; None for the
            others. The derivatives themselves are usually better by some digits.

        Raises
        ------
        DifferentiationError
            The function was made without ``numerical``.
        """
        name = f"foreign {self.__name__}"
        if self._accuracy is None:
            raise DifferentiationError(
                f"{name}: it has rules, so it takes no differences whose error could be estimated."
                " Make it with numerical=True."
            )
        positional = by_position(name, self._operation.function, args, kwargs)
        leaves, form = pytrees.flatten(tuple(positional))
        arrays = [np.asarray(leaf) for leaf in leaves]
        moving = self._moving(pytrees.unflatten(form, arrays))
        errors: list[float | None] = [None] * len(arrays)
        for k in moving.places:
            slopes = moving.jacobian(k)
            largest = [float(np.max(error, initial=0.0)) for error in slopes.errors]
            errors[k] = max(largest, default=0.0)
        return pytrees.unflatten(form, errors)

    def _run(self, *args: Any) -> Any:
        name = f"foreign {self.__name__}"
        leaves, arguments = pytrees.flatten(args)
        values = values_of(name, leaves, arguments, lambda: "arguments")
        result, specs = self._promise.of(arguments, values)
        ends = [*accumulate(len(pytrees.leaves(arg)) for arg in args)]
        linear = [k for k, _ in enumerate(values) if bisect(ends, k) in self._linear_in]
        outs = apply_foreign(self._operation, values, arguments, result, specs, tuple(linear))
        return pytrees.unflatten(result, [wrap(out) for out in outs])

    # Derivatives by differences.

    def _pushed_by_differences(self, primals: Any, out: Any, tangents: Any) -> Any:
        if self._directional is None:
            self._directional = self._along_directions()
        return self._directional(primals, tangents)

    def _pulled_by_differences(self, primals: Any, out: Any, ct: Any) -> Any:
        if self._jacobian is None:
            self._jacobian = self._along_elements()
        columns = self._jacobian(*primals)
        leaves, form = pytrees.flatten(tuple(primals))
        places = [k for k, leaf in enumerate(leaves) if is_inexact(dtype_of(leaf))]
        cts = [leaf for leaf in pytrees.leaves(ct) if is_inexact(dtype_of(leaf))]
        pulled: list[Any] = [None] * len(leaves)
        for k, column in zip(places, columns, strict=True):
            (pulled[k],) = linear_transpose(_contraction(column), leaves[k])(cts)
        return pytrees.unflatten(form, pulled)

    def _along_directions(self) -> ForeignFunction:
        def directional(primals: Any, tangents: Any) -> Any:
            moving = self._moving(primals)
            return moving.along([np.asarray(t) for t in pytrees.leaves(tangents)])

        def result(primals: Any, tangents: Any) -> Any:
            leaves, form = pytrees.flatten(primals, _is_spec)
            structure, specs = self._promise.of(form, leaves)
            return pytrees.unflatten(structure, specs)

        return self._by_differences(directional, result)

    def _along_elements(self) -> ForeignFunction:
        def columns(*primals: Any) -> list[list[Array]]:
            return self._moving(primals).columns()

        def result(*primals: Any) -> list[list[Spec]]:
            leaves, form = pytrees.flatten(primals, _is_spec)
            _, specs = self._promise.of(form, leaves)
            return [
                [_column(spec, leaf) for spec in specs if is_inexact(spec.dtype)]
                for leaf in leaves
                if is_inexact(leaf.dtype)
            ]

        return self._by_differences(columns, result)

    def _by_differences(self, f: Callable[..., Any], result: Callable[..., Any]) -> ForeignFunction:
        """Return a function that takes differences; its own derivatives are differences, too."""
        assert self._accuracy is not None
        f.__name__ = f"{self.__name__}, by differences"
        operation, promise = ForeignOperation(f.__name__, f, None), _ResultSpecs(f.__name__, result)
        return ForeignFunction(operation, promise, self._accuracy, self._order + 1)

    def _moving(self, primals: Any) -> _Moving:
        assert self._accuracy is not None
        return _Moving(self._operation, self._promise, primals, self._accuracy, self._order)


class _Moving:
    """A foreign function near a point; one argument is moved at a time."""

    def __init__(
        self,
        operation: ForeignOperation,
        promise: _ResultSpecs,
        point: Any,
        accuracy: float,
        order: int,
    ) -> None:
        self.operation = operation
        self.arrays, self.form = pytrees.flatten(tuple(point))
        self.result, self.specs = promise.of(self.form, self.arrays)
        self.places = [k for k, x in enumerate(self.arrays) if is_inexact(x.dtype)]
        self.smooth = [k for k, spec in enumerate(self.specs) if is_inexact(spec.dtype)]
        precision = max(accuracy, precision_of([*self.arrays, *self.specs]))
        self.accuracy = precision ** (0.8**order)  # the accuracy of the differences before
        self.is_joint = order > 0

    def evaluation(self, place: int) -> Callable[[Array], list[Array]]:
        """Return the inexact results as a function of many values of one argument."""
        flags = [k == place for k in range(len(self.arrays))]

        def evaluate(points: Array) -> list[Array]:
            moved = [*self.arrays]
            moved[place] = points
            outs = self.operation.call_batch(
                moved, flags, len(points), self.form, self.result, self.specs
            )
            return [outs[k] for k in self.smooth]

        return evaluate

    def jacobian(self, place: int) -> Slopes:
        """Return the derivatives along the elements of an argument."""
        return jacobian(self.evaluation(place), self.arrays[place], self.accuracy, self.is_joint)

    def _checked(self, place: int, slopes: Slopes) -> Slopes:
        argument = f"argument{self.form.paths()[place]}"
        refuse_doubtful(self.operation.at, argument, slopes)
        return slopes

    def along(self, tangents: Sequence[Array]) -> Any:
        """Return the tangents of all results; zeros for integers."""
        sums: list[Any] = [np.zeros(spec.shape, spec.dtype) for spec in self.specs]
        for k in self.places:
            if not np.any(tangents[k]):
                continue
            direction = tangents[k][None]
            slopes = differences(
                self.evaluation(k), self.arrays[k], direction, self.accuracy, self.is_joint
            )
            for at, value in zip(self.smooth, self._checked(k, slopes).values, strict=True):
                sums[at] = np.asarray(sums[at] + value[0]).astype(self.specs[at].dtype)
        return pytrees.unflatten(self.result, sums)

    def columns(self) -> list[list[Array]]:
        """Return the derivatives of the inexact results along the elements of each inexact
        argument.
        """
        columns = []
        for k in self.places:
            x = self.arrays[k]
            slopes = self._checked(k, self.jacobian(k))
            specs = [_column(self.specs[at], spec_of(x)) for at in self.smooth]
            pairs = zip(slopes.values, specs, strict=True)
            columns.append([value.astype(spec.dtype).reshape(spec.shape) for value, spec in pairs])
        return columns


def _signature_of(f: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(f)
    except (TypeError, ValueError):  # functions written in C
        return None


def _is_ours(rule: object) -> bool:
    """Whether a rule was made in this library, and of the function only."""
    return str(getattr(rule, "__module__", "")).partition(".")[0] == "funcgrad"


def _is_spec(x: object) -> bool:
    return isinstance(x, Spec)


def _column(result: Spec, argument: Spec) -> Spec:
    """Return the spec of the derivatives along an argument's elements (complex: twice)."""
    parts = 2 if argument.dtype.kind == "c" else 1
    return Spec((parts * int(np.prod(argument.shape)), *result.shape), result.dtype)


def _contraction(column: Sequence[Any]) -> Callable[[Any], list[Any]]:
    """Return the map from the tangent of one argument to the tangents of the results."""

    def push(tangent: Any) -> list[Any]:
        flat = fnp.reshape(tangent, (-1,))
        if dtype_of(flat).kind == "c":
            flat = fnp.concatenate([fnp.real(flat), fnp.imag(flat)])
        return [fnp.tensordot(flat, jac, 1).astype(jac.dtype) for jac in column]

    return push


@answering
def foreign(
    f: Callable[..., Any],
    result: Any,
    jvp: Callable[..., Any] | None = None,
    vjp: Callable[..., Any] | None = None,
    batch: str | Callable[..., Any] = "loop",
    numerical: bool | float = False,
    linear_in: int | Sequence[int] = (),
) -> ForeignFunction:
    """Make a function of any library an operation of funcgrad.

    Use it for code that funcgrad cannot trace: SciPy, C extensions, simulators, other frameworks.
    The derivative comes from a rule that you give, from finite differences, or is an error.

    The operation works under all transformations. ``f`` itself is never traced: it gets NumPy
    arrays. Under ``jit`` it runs at each call, also from machine code.

    Parameters
    ----------
    f : callable
        Takes pytrees of read-only NumPy arrays, with the shapes of one example, and returns a
        pytree of arrays or numbers. It has to be pure: the result depends on the arguments only,
        and nothing is changed.
    result : Spec, pytree of Spec, or callable
        The shapes and dtypes of the result of ``f``; or a function that returns them, given the
        arguments with a ``Spec`` for each array.
    jvp : callable, optional
        ``jvp(primals, result, tangents)`` returns the tangent of the result: a pytree like the
        result, linear in the tangents. Primals and tangents are tuples with one entry for each
        argument.
    vjp : callable, optional
        ``vjp(primals, result, cotangent)`` returns a tuple with the cotangent of each argument
        (None for zero), linear in the cotangent of the result: the adjoint under Re<u, v>.
    batch : {"loop", "stacked"} or callable
        The behaviour of ``vmap``. ``"loop"`` calls ``f`` for each example. ``"stacked"`` calls
        ``f`` once, on arrays whose first axis is the examples. A function is called instead of
        ``f`` on such arrays. Results have the first axis, too. Nested batches are joined.
    numerical : bool or float
        Whether to compute derivatives by finite differences where no rule is given. A float is the
        relative accuracy of the values of ``f``, such as the tolerance of a solver; with True the
        values are taken as accurate to their dtype.
    linear_in : int or sequence of int
        The positions of arguments in which ``f`` is jointly linear, for any values of the others. A
        rule may pass its tangents or cotangents to such a function: it is transposed by its own
        rule, and its derivative with respect to these arguments is ``f`` itself.

    Returns
    -------
    ForeignFunction
        A function with the arguments of ``f``. Its method ``error(*args)`` estimates the errors of
        the differences.

    Raises
    ------
    ArgumentError
        An option is unknown; at a call, a keyword argument has no position.
    LeafError
        ``result`` is not a pytree of specs; at a call, a result is not an array.
    TreeError, ShapeError, DtypeError
        At a call, the result of ``f`` differs from ``result``. The message names the line of the
        call, also inside ``jit``. Errors that ``f`` raises are passed on, with a note of that line.
    DifferentiationError
        A derivative is asked for without a rule and without ``numerical``; or it was computed by
        differences, and its estimated error is more than a hundredth of it.

    Notes
    -----
    Rules are written with the functions of ``funcgrad.numpy``, or call foreign functions. They are
    differentiated for derivatives of higher order. If only one of ``jvp`` and ``vjp`` is given, the
    other mode uses its transpose. Differences are central, extrapolated from two steps, and checked
    with smaller steps. Forward mode takes ten calls for each argument, reverse mode eight for each
    of its elements (in a batch, if ``batch`` allows). If both steps disagree, or rounding hides the
    derivative, more steps are tried. Each order costs some digits: about 12 digits are right for
    the first derivative, 9 for the second. At a kink, differences give the mean of both slopes.

    Examples
    --------
    >>> import funcgrad as fg
    >>> from scipy import integrate
    >>> def area(rate):  # of exp(-rate t) from 0 to 1
    ...     return integrate.quad(lambda t: np.exp(-rate * t), 0.0, 1.0)[0]
    >>> number = fg.extend.Spec((), np.dtype(float))
    >>> fg.grad(fg.extend.foreign(area, number, numerical=1e-12))(2.0)
    Tensor(-0.148499)

    With a rule that calls another foreign function:

    >>> def moment(rate):
    ...     return integrate.quad(lambda t: t * np.exp(-rate * t), 0.0, 1.0)[0]
    >>> slope = fg.extend.foreign(moment, number, numerical=1e-12)
    >>> smooth = fg.extend.foreign(area, number, vjp=lambda xs, out, ct: (-ct * slope(*xs),))
    >>> fg.jit(fg.vmap(fg.grad(smooth)))(fg.tensor([1.0, 2.0]))
    Tensor([-0.264241, -0.148499])
    """
    check_function("foreign", f)
    name = getattr(f, "__name__", type(f).__name__)
    for rule in (jvp, vjp):
        if rule is not None:
            check_function(f"foreign {name}: rule", rule)
    if not callable(batch) and batch not in ("loop", "stacked"):
        raise ArgumentError(
            f"foreign {name}: batch has to be 'loop', 'stacked', or a function of a batch, got"
            f" {batch!r}."
        )
    of_batches = batch if callable(batch) else {"loop": None, "stacked": f}[batch]
    accuracy = _accuracy(name, numerical)
    places = (linear_in,) if isinstance(linear_in, int) else tuple(linear_in)
    if not all(type(place) is int and place >= 0 for place in places):
        raise ArgumentError(
            f"foreign {name}: linear_in has to be positions of arguments, counted from 0, got"
            f" {linear_in!r}."
        )
    operation = ForeignOperation(name, f, of_batches, jvp, vjp)
    promise = _ResultSpecs(f"foreign {name}", result)
    return ForeignFunction(operation, promise, accuracy, linear_in=places)


def _accuracy(name: str, numerical: Any) -> float | None:
    """Return the relative accuracy of values; 0 means the dtype's, None means no differences."""
    is_number = isinstance(numerical, bool | int | float)
    if not is_number or not 0 <= numerical <= 1:
        raise ArgumentError(
            f"foreign {name}: numerical has to be True, False, or the relative accuracy of the"
            f" function's values, such as 1e-8, got {numerical!r}."
        )
    if numerical is False:
        return None
    return 0.0 if numerical is True else float(numerical)

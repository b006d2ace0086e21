"""``would_notice``: which mistakes in derivative rules a test would miss.

The function is staged, and its program runs with one operation replaced: the replacement has the
same values, but a mistake in its differential. Nothing global is changed.

``_mistaken`` returns an operation with the same values and a mistake. The original operation is not
changed.

>>> import numpy as np
>>> from funcgrad._primitives.elementwise import multiply
>>> from funcgrad._transforms.forward import jvp
>>> wrong = _mistaken(multiply, "missing term 1")
>>> jvp(wrong, (2.0, 3.0), (1.0, 1.0))
(Tensor(6.0), Tensor(3.0))
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._base.floating_errors import quiet
from funcgrad._core.primitive import DISCRETE, Linearized, Primitive
from funcgrad._core.specs import dtype_of, is_inexact, shape_of
from funcgrad._core.structure.structures import OPAQUE, Control
from funcgrad._core.trace import Value
from funcgrad._primitives.elementwise import multiply, negative
from funcgrad._primitives.structural import roll, swap_last_axes
from funcgrad._programs.equation import Equation
from funcgrad._programs.inline import with_changed_programs
from funcgrad._programs.program import Program
from funcgrad._transforms.arguments import check_function
from funcgrad._transforms.call import Call
from funcgrad._transforms.flat_functions import run_pulled, run_pushed
from funcgrad._transforms.forward import jvp
from funcgrad._transforms.masked import Cotangent, Masked
from funcgrad._transforms.reverse import vjp
from funcgrad._transforms.stage import stage
from funcgrad.errors import ArgumentError
from funcgrad.tensor.tensor import wrap
from funcgrad.testing.gradients import drawn
from funcgrad.testing.subject import Array, Pytree, Subject, subject_of

Tangents = Sequence[Value]


def _halved(t: Value) -> Value:
    return multiply(t, dtype_of(t).type(0.5))


def _turned(t: Value) -> Value:
    """Transpose square matrices; roll other arrays along the last axis."""
    shape = shape_of(t)
    if len(shape) > 1 and shape[-1] == shape[-2] > 1:
        return swap_last_axes(t)
    return roll(t, shift=(1,), axis=(len(shape) - 1,)) if shape else t


_OF_RESULTS: Final[Mapping[str, Callable[[Value], Value]]] = MappingProxyType(
    {"sign": negative, "factor": _halved, "wrong axis": _turned}
)
"""Mistakes that change the result of the differential."""

_REVERSE: Final = ", in reverse mode only"


def _kinds_of_mistakes(arity: int) -> tuple[str, ...]:
    """Return the possible mistakes in an operation with this number of arguments."""
    kinds = [*_OF_RESULTS, f"factor{_REVERSE}"]
    if arity == 1:
        kinds.append("missing factor")
    elif arity <= 4:
        kinds += [f"missing term {position}" for position in range(arity)]
        kinds.append("swapped arguments")
    return tuple(kinds)


def _mistaken(operation: Primitive, kind: str) -> Primitive:
    """Make an operation with the same values and a mistake in its differential.

    Parameters
    ----------
    operation : Primitive
    kind : str
        See ``_kinds_of_mistakes``.
    """
    if kind.endswith(_REVERSE):
        differential = Linearized(
            partial(_pushed, operation, ""), pull=partial(_pulled, operation), mixes=True
        )
    else:
        differential = Linearized(partial(_pushed, operation, kind), mixes=True)
    return Primitive(
        operation.name,
        operation.evaluate,
        operation.result,
        differential,
        operation.batch,
        operation.samples,
        structure=OPAQUE,
        label=operation.label,
    )


def _applied(
    operation: Primitive, params: Mapping[str, Hashable], values: Sequence[Value]
) -> list[Value]:
    out = operation(*values, **params)
    return list(out) if isinstance(out, tuple) else [out]


def _pushed(
    operation: Primitive,
    kind: str,
    tangents: Tangents,
    out: Value,
    *args: Value,
    **params: Hashable,
) -> Value:
    """Push tangents as the operation does, except for the mistake."""
    if kind.startswith("missing term"):
        position = int(kind.rpartition(" ")[2])
        tangents = [None if k == position else t for k, t in enumerate(tangents)]
    elif kind == "swapped arguments":
        tangents = _swapped(tangents, args)
    function = partial(_applied, operation, params)
    results = list(out) if isinstance(out, tuple) else [out]
    if kind == "missing factor" and shape_of(results[0]) == shape_of(args[0]) and len(args) == 1:
        pushed: list[Value] = [tangents[0], *[None] * (len(results) - 1)]
    elif all(t is None for t in tangents):
        pushed = [None] * len(results)
    else:
        pushed = run_pushed(function, args, tangents)[1]
    change = _OF_RESULTS.get(kind)
    if change is not None:
        pushed = [None if t is None else change(t) for t in pushed]
    whole = [_zeros(y) if t is None else t for t, y in zip(pushed, results, strict=True)]
    return tuple(whole) if isinstance(out, tuple) else whole[0]


def _zeros(y: Value) -> Value:
    return np.zeros(shape_of(y), dtype_of(y))


def _swapped(tangents: Tangents, args: Sequence[Value]) -> list[Value]:
    """Exchange the tangents of two arguments of equal shape; otherwise of those with a tangent."""
    first, second, *others = tangents
    alike = shape_of(args[0]) == shape_of(args[1]) and dtype_of(args[0]) == dtype_of(args[1])
    return [second, first, *others] if alike else list(tangents)


def _pulled(
    operation: Primitive, ct: Value, out: Value, *args: Value, **params: Hashable
) -> list[Cotangent]:
    """Pull cotangents back as the operation does, and halve them."""
    followed = [is_inexact(dtype_of(x)) for x in args]
    cts = list(ct) if isinstance(out, tuple) else [ct]
    results = list(out) if isinstance(out, tuple) else [out]
    whole = [_zeros(y) if c is None else c for c, y in zip(cts, results, strict=True)]
    _, pulled, _ = run_pulled(partial(_applied, operation, params), args, followed, whole)
    return [None if g is None else _halved_whole(g) for g in pulled]


def _halved_whole(ct: Cotangent) -> Cotangent:
    finished = ct.finish() if hasattr(ct, "finish") else ct
    if isinstance(finished, Masked):
        return Masked(_halved(finished.value), finished.mask)
    return _halved(finished)


_SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class Mistake:
    """A planted mistake.

    Attributes
    ----------
    operation : str
        The operation whose rule was changed; a function with a custom rule counts as an operation.
    kind : str
        ``"sign"``, ``"factor"``, ``"missing term 0"``, ``"missing factor"``, ``"swapped
        arguments"`` or ``"wrong axis"``; followed by ``", in reverse mode only"`` if tangents stay
        right.
    line : str
        The user's line that first uses the operation.
    """

    operation: str
    kind: str
    line: str

    def __str__(self) -> str:
        return f"{self.kind} in the rule of {self.operation}" + (
            f" ({self.line})" if self.line else ""
        )


@dataclass(frozen=True, slots=True, repr=False)
class Notice:
    """Mistakes that a test notices, and mistakes that it misses.

    Attributes
    ----------
    noticed, missed : tuple of Mistake
    """

    noticed: tuple[Mistake, ...]
    missed: tuple[Mistake, ...]

    def __repr__(self) -> str:
        count = len(self.noticed) + len(self.missed)
        lines = [f"would_notice: {len(self.noticed)} of {count} mistakes are noticed."]
        if self.missed:
            lines.append("These are not:")
            lines += [f"  {mistake}" for mistake in self.missed[:_SHOWN]]
            if len(self.missed) > _SHOWN:
                lines.append(f"  and {len(self.missed) - _SHOWN} more")
        return "\n".join(lines)


def would_notice(check: Callable[[Any], Any], f: Callable[..., Any], *args: Pytree) -> Notice:
    """Report which mistakes in derivative rules a test would notice.

    A test of derivatives is only worth something if it fails for wrong derivatives. This function
    plants mistakes and lists those that your test misses.

    The rules of the operations in ``f`` are changed one at a time: a wrong sign, a wrong factor, a
    missing term, exchanged arguments, a wrong axis, in both modes or in reverse mode only.
    ``check`` is called with each changed function. Operations inside loops, branches and jitted
    functions are changed, too, and a function with a custom rule counts as an operation.

    Parameters
    ----------
    check : callable
        A test that takes a function, and raises an exception if it finds a mistake.
    f : callable
        The function that is tested.
    *args : pytrees
        Arguments of ``f``. Operations are found, and mistakes that change no derivative are left
        out, at these arguments.

    Returns
    -------
    Notice
        ``missed`` has the mistakes that the test misses; ``print`` lists them.

    Raises
    ------
    ArgumentError
        The test fails for ``f`` itself, or ``f`` uses no operation with a derivative.
    FunctionError, DifferentiationError
        ``check`` or ``f`` is not a function; or nothing can be differentiated.

    Notes
    -----
    Nothing global is changed: the function is staged, and operations of its program are replaced.

    Examples
    --------
    >>> import funcgrad as fg
    >>> import funcgrad.numpy as fnp
    >>> def f(x):
    ...     return fnp.sum(fnp.sin(x) * x)
    >>> x = fg.tensor([0.5, 1.25])
    >>> notice = would_notice(lambda f: fg.testing.check_grads(f, (x,)), f, x)
    >>> notice
    would_notice: ... of ... mistakes are noticed.
    >>> def weak(f):
    ...     assert fg.grad(f)(x)[0] > 0  # a sign is all that it looks at
    >>> len(would_notice(weak, f, x).missed) > 5
    True
    """
    check_function("would_notice", check)
    subject = subject_of("would_notice", f, args, None)
    uses = _uses(stage("would_notice", f, args, {}))
    if not uses:
        raise ArgumentError(
            f"would_notice: {subject.title} uses no operation that has a derivative at these"
            " arguments."
        )
    failure = _failure(check, _with_replaced(f, lambda equation: equation))
    if failure is not None:
        raise ArgumentError(
            f"would_notice: the test fails for {subject.title} as it is: {failure!r}."
        ) from failure
    right = _derivatives(subject)
    noticed: list[Mistake] = []
    missed: list[Mistake] = []
    for use in uses:
        for kind in _kinds_of_mistakes(use.arity):
            wrong = _mistaken(use.operation, kind)
            function = _with_replaced(f, partial(_replaced, use, wrong))
            if not _differs(function, args, right):
                continue
            mistake = Mistake(use.name, kind, use.line)
            is_noticed = _failure(check, function) is not None
            (noticed if is_noticed else missed).append(mistake)
    return Notice(tuple(noticed), tuple(missed))


@dataclass(frozen=True, slots=True)
class _Use:
    """An operation of a program, with its name and line for reports."""

    operation: Primitive
    name: str
    arity: int
    line: str


def _uses(program: Program) -> list[_Use]:
    """Return the operations with a derivative, each once, also inside loops and branches."""
    uses: dict[tuple[Primitive, str], _Use] = {}
    for equation in _equations(program):
        operation = equation.operation
        if operation.differential is DISCRETE or not any(
            is_inexact(spec.dtype) for spec in equation.results
        ):
            continue
        key = operation, equation.name
        uses.setdefault(key, _Use(*key, len(equation.operands), equation.source))
    return list(uses.values())


def _equations(program: Program) -> Iterator[Equation]:
    for equation in program.equations:
        params, structure = dict(equation.params), equation.operation.structure
        if isinstance(structure, Control) and not isinstance(params.get("call"), Call):
            for body, _ in structure.runs(**params):
                yield from _equations(body)
        else:
            yield equation


def _replaced(use: _Use, wrong: Primitive, equation: Equation) -> Equation:
    if equation.operation is use.operation and equation.name == use.name:
        return replace(equation, operation=wrong)
    return equation


def _with_replaced(
    f: Callable[..., Any], change: Callable[[Equation], Equation]
) -> Callable[..., Any]:
    """Make a function that stages another one, and runs its program with changed equations."""

    def changed(program: Program) -> Program:
        equations = [
            with_changed_programs(equation, changed)
            if not isinstance(dict(equation.params).get("call"), Call)
            else equation
            for equation in program.equations
        ]
        return replace(program, equations=tuple([change(equation) for equation in equations]))

    def replaced(*args: Pytree, **kwargs: Pytree) -> Any:
        return changed(stage("would_notice", f, args, kwargs))(*args, **kwargs)

    replaced.__name__ = getattr(f, "__name__", type(f).__name__)
    return replaced


def _failure(check: Callable[[Any], Any], f: Callable[..., Any]) -> Exception | None:
    try:
        check(f)
    except Exception as error:  # any exception counts as noticed
        return error
    return None


def _derivatives(subject: Subject) -> list[Array]:
    """Return tangents and cotangents along fixed random directions."""
    rng = np.random.default_rng(0)
    direction = [wrap(drawn(rng, np.asarray(x), scaled=True)) for x in subject.point]
    cts = [wrap(drawn(rng, value, scaled=False)) for value in subject.values]
    with quiet():
        pushed = jvp(subject.function, subject.point, direction)[1]
        pulled = vjp(subject.function, *subject.point)[1](cts)
    return [np.asarray(value) for value in (*pushed, *pulled)]


def _differs(f: Callable[..., Any], args: Sequence[Any], right: Sequence[Array]) -> bool:
    """Whether a mistake changes a derivative at the arguments; False if it raises an error."""
    try:
        wrong = _derivatives(subject_of("would_notice", f, args, None))
    except Exception:
        return False
    with quiet():
        return not all(
            np.allclose(a, b, 1e-9, 1e-12 * float(np.max(abs(b), initial=0.0)), equal_nan=True)
            for a, b in zip(wrong, right, strict=True)
        )

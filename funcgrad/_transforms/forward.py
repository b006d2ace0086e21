"""Forward mode: ``jvp`` and the tracer behind it.

Every value carries its tangent along, so memory does not grow with the length of a computation.

>>> import funcgrad as fg
>>> fg.jvp(lambda x: x**3, (2.0,), (1.0,))
(Tensor(8.0), Tensor(12.0))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, Never, overload

from funcgrad._core import pytrees
from funcgrad._core.primitive import Primitive
from funcgrad._core.specs import dtype_of, is_inexact, spec_of
from funcgrad._core.trace import (
    STRONG,
    Raw,
    Value,
    begin_level,
    bind,
    bind1,
    bind2,
    concrete,
    running_traces,
)
from funcgrad._hints.lookup import answering
from funcgrad._hooks.result_watch import watched
from funcgrad._transforms.arguments import choose, like, pair, released, values_of
from funcgrad._transforms.callables import ArrayT, Auxiliary, Result
from funcgrad._transforms.composite import Composite, bind_composite
from funcgrad._transforms.factors import zeros_like
from funcgrad._transforms.quick_entries import push_product, push_quick
from funcgrad._transforms.record import ENTRY_CLASSES, MultiResult
from funcgrad._transforms.recorded import Readable
from funcgrad.errors import DifferentiationError
from funcgrad.tensor.conversion import reveal_primal
from funcgrad.tensor.tensor import Tensor, wrap

_new: Final[Any] = object.__new__


class Dual(Tensor):
    """A value with its tangent, or with a function that makes it, and may refuse."""

    __slots__ = ("_tangent", "_trace")
    _tangent: Any

    def _reveal(self, use: str, exact: bool) -> Raw:
        self._trace.check()
        return reveal_primal(self._value, use, exact)


class Pusher(Readable):
    """The trace of forward mode."""

    title = "forward mode"
    has_numbers = True
    __slots__ = ("_open",)

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self._open = True

    def close(self) -> None:
        """End the transformation: its tracers raise from now on, except where rules read them."""
        self._open = False
        self.tape.entries = None

    def check(self) -> None:
        if not self._open:
            self._is_read()

    def _is_read(self) -> bool:
        """Whether a rule that runs when the transformation has ended uses the tracers."""
        return self not in running_traces() and self.tape.current() is None

    def inner(self, value: Value) -> Value:
        """A value without its tangent."""
        return self.parts(value)[0]

    def dual(self, primal: Value, tangent: Value) -> Value:
        """A tracer, or the primal itself without a tangent."""
        if tangent is None:
            return primal
        tracer = _new(Dual)
        tracer._value = primal
        tracer._tangent = tangent
        tracer._trace = self
        return tracer

    def parts(self, value: Value) -> tuple[Value, Value]:
        """The primal and the tangent (or None) of a value."""
        if type(value) is Dual and value._trace is self:
            tangent = value._tangent
            return value._value, tangent() if callable(tangent) else tangent
        return concrete(value), None

    def rebuild(self, tracer: Any, change: Callable[[Value], Value]) -> Value:
        primal, tangent = self.parts(tracer)
        return self.dual(change(primal), change(tangent))

    def process1(self, primitive: Primitive, x: Value) -> Value:
        """The fast path of ``process`` for elementwise operations of one argument."""
        if not primitive.quick:
            return self.process(primitive, (x,), {})
        if not self._open and self._is_read():
            return bind1(primitive, x._value)
        data, tangent = x._value, x._tangent
        tangent = tangent() if callable(tangent) else tangent
        out = primitive.evaluate(data) if type(data) in STRONG else bind1(primitive, data)
        return self.dual(out, push_quick(primitive, data, None, tangent, None, out))

    def process2(self, primitive: Primitive, x: Value, y: Value) -> Value:
        """The fast path of ``process`` for elementwise operations and matrix products."""
        if not (primitive.quick or primitive.bilinear):
            return self.process(primitive, (x, y), {})
        x, first = self.parts(x)
        y, second = self.parts(y)
        if not self._open and self._is_read():
            return bind2(primitive, x, y)
        out = bind2(primitive, x, y)
        push = push_quick if primitive.quick else push_product
        return self.dual(out, push(primitive, x, y, first, second, out))

    def process(
        self, primitive: Primitive, args: tuple[Value, ...], params: Mapping[str, Any]
    ) -> Value:
        """Evaluate further out, and push the tangents through."""
        parts = [self.parts(arg) for arg in args]
        primals = tuple([primal for primal, _ in parts])
        if not self._open and self._is_read():
            return bind(primitive, primals, params)
        out = bind(primitive, primals, params)
        kind = ENTRY_CLASSES[primitive.form]
        if type(out) is tuple and kind is not None:
            pushed = MultiResult(primitive, primals, out, params).late([t for _, t in parts])
            return tuple(map(self.dual, out, pushed))
        if kind is None or not is_inexact(dtype_of(out)):
            return out
        entry = kind(primitive, range(len(args)), primals, out, params)
        return self.dual(out, entry.push([tangent for _, tangent in parts]))

    def process_call(self, call: Composite, args: Sequence[Value]) -> list[Value]:
        """Let an operation that is met as a whole push the tangents itself."""
        if not self._open and self._is_read():
            return bind_composite(call, [self.inner(arg) for arg in args])
        return call.push_in(self, args)


@overload
def jvp(  # of a function without types
    f: Callable[..., Never],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    has_aux: Literal[False] = False,
) -> tuple[Any, Any]: ...
@overload
def jvp(
    f: Callable[..., ArrayT],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    has_aux: Literal[False] = False,
) -> tuple[Tensor, Tensor]: ...
@overload
def jvp(
    f: Callable[..., Result],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    has_aux: Literal[False] = False,
) -> tuple[Result, Result]: ...
@overload
def jvp(
    f: Callable[..., tuple[ArrayT, Auxiliary]],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    has_aux: Literal[True],
) -> tuple[Tensor, Tensor, Auxiliary]: ...
@overload
def jvp(
    f: Callable[..., tuple[Result, Auxiliary]],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    has_aux: Literal[True],
) -> tuple[Result, Result, Auxiliary]: ...
@overload
def jvp(
    f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool
) -> tuple[Any, ...]: ...
@watched
@answering
def jvp(
    f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False
) -> tuple[Any, ...]:
    """Evaluate a function and its derivative along a direction: the Jacobian-vector product J v.

    Forward mode carries a tangent along with each value, so its memory does not grow with the
    length of the computation. It is the cheaper mode for functions of few inputs.

    Parameters
    ----------
    f : callable
        Takes the primals and returns a pytree, or ``(pytree, aux)`` with ``has_aux``.
    primals : tuple or list of pytrees
        The arguments. Their leaves have a floating-point or complex dtype.
    tangents : tuple or list of pytrees
        The direction, with the trees, shapes and dtypes of the primals. Python numbers take the
        primal's dtype.
    has_aux : bool
        Whether ``f`` returns a pair ``(result, aux)``; ``aux`` is returned unchanged.

    Returns
    -------
    out : pytree
        ``f(*primals)``.
    tangent : pytree
        Like ``out``. Zero where ``out`` does not depend on the primals, or has an integer or
        boolean dtype.
    aux : object
        Only with ``has_aux``.

    Raises
    ------
    TreeError, ShapeError, DtypeError
        The trees, shapes or dtypes of primals and tangents differ.
    DifferentiationError
        A primal has an integer or boolean dtype.

    Notes
    -----
    At kinks the tangent is the product with the subgradient that ``grad`` returns, so forward and
    reverse mode agree.

    Examples
    --------
    >>> import funcgrad as fg
    >>> fg.jvp(lambda x, y: x * y, (2.0, 3.0), (1.0, 0.0))
    (Tensor(6.0), Tensor(3.0))
    """
    check_pairs("jvp", primals, tangents)
    chosen = choose("jvp", f, primals, tuple(range(len(primals))))
    specs = [spec_of(leaf) for leaf in chosen.leaves]
    structure = pytrees.structure(tuple(primals))
    directions = like("jvp", "tangents", tuple(tangents), structure, specs)
    with begin_level() as level:
        pusher = Pusher(level)
        try:
            duals = [pusher.dual(x, t) for x, t in zip(chosen.leaves, directions, strict=True)]
            out = f(*chosen.trees(duals))
        finally:
            pusher.close()
    aux: tuple[Any, ...] = ()
    if has_aux:
        out, extra = pair("jvp", out)
        aux = (released(pusher, extra),)
    leaves, out_structure = pytrees.flatten(out)
    values = values_of("jvp", leaves, out_structure, lambda: "the function's result")
    parts = [pusher.parts(value) for value in values]
    out = pytrees.unflatten(out_structure, [wrap(primal) for primal, _ in parts])
    tangent = pytrees.unflatten(
        out_structure, [wrap(zeros_like(p) if t is None else t) for p, t in parts]
    )
    return (out, tangent, *aux)


def check_pairs(operation: str, primals: Any, tangents: Any) -> None:
    """Check that primals and tangents are tuples of one length."""
    for name, argument_trees in (("primals", primals), ("tangents", tangents)):
        if not isinstance(argument_trees, (tuple, list)):
            raise DifferentiationError(
                f"{operation}: {name} has to be a tuple with one entry for each argument, got"
                f" {type(argument_trees).__name__}. Write {operation}(f, (x,), (t,))."
            )
    if len(primals) != len(tangents):
        raise DifferentiationError(
            f"{operation}: got {len(primals)} primals but {len(tangents)} tangents; there has to be"
            " a tangent for each."
        )

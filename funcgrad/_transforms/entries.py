"""Entries: the linear maps of single operations, for both directions; a record is a list of them.

An operation turns tangents of its operands into a tangent of its result, by a linear map that
depends on the values it met. Its entry is that map: ``push`` applies it, ``pull`` its transpose.
Variables are integers; an entry defines one, and inputs have no entry. Everything works on values:
raw arrays when nothing else is being transformed, tracers otherwise, so derivatives of derivatives
need no rule.

A tangent is None where it is zero by structure; else it has the shape and the dtype of its primal.
A cotangent may be smaller than its variable when it broadcasts to it (that of a sum does), and it
may be ``Masked``.

>>> from funcgrad._primitives.elementwise import multiply
>>> entry = ElementwiseEntry(multiply, (0, 1), (3.0, 5.0), 15.0, {})  # z = x y at (3, 5)
>>> entry.push([1.0, 10.0])  # y dx + x dy
35.0
>>> cotangents = [None, None]
>>> entry.pull_from(cotangents, np.float64(2.0))
>>> cotangents
[np.float64(10.0), np.float64(6.0)]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import compress
from typing import Any

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.primitive import SAME
from funcgrad._core.specs import Shape, dtype_of, is_inexact, shape_of
from funcgrad._core.trace import RAW, Value, bind
from funcgrad._primitives.complexes import conj
from funcgrad._primitives.reduction import reduce_sum
from funcgrad._primitives.selection import where
from funcgrad._primitives.structural import cast, reshape
from funcgrad._transforms.absent_examples import pulled_by_example
from funcgrad._transforms.accumulation import UNFINISHED, CotangentPatches, Variables, accumulate
from funcgrad._transforms.factors import (
    conjugated,
    fit_tangent,
    operands_of_factors,
    times,
    zeros_like,
)
from funcgrad._transforms.masked import (
    Cotangent,
    CotangentBuffer,
    Masked,
    broadcast,
    buffered,
    chosen,
    fit,
    fit_cotangent,
    is_full,
    is_raw,
    map_cotangent,
    plain,
)
from funcgrad._transforms.reached_operands import reached


class Entry:
    """The derivative of one step of a computation, at the values that it met."""

    __slots__ = ("index",)
    index: int  # of the variable that the step defined

    def push(self, tangents: Variables) -> Any:
        """The tangent of the variable, None for zero, from the tangents of all variables."""
        raise NotImplementedError

    def pull(self, cotangents: Variables) -> None:
        """Pull the cotangent of the variable back to its operands."""
        ct = cotangents[self.index]
        if ct is not None:
            cotangents[self.index] = None
            self.pull_from(cotangents, ct.finish() if type(ct) in UNFINISHED else ct)

    def pull_from(self, cotangents: Variables, ct: Cotangent) -> None:
        """Add the contributions of a cotangent of the variable to the operands' cotangents."""
        raise NotImplementedError


class VariableMap(dict[int, Any]):
    """The tangents or cotangents of a few variables; None for all others."""

    __slots__ = ()

    def __missing__(self, index: int) -> None:
        return None


def push_through(entries: Iterable[Entry], tangents: VariableMap) -> None:
    """Add the tangents of all variables that entries define, from the first entry to the last."""
    for entry in entries:
        tangent = entry.push(tangents)
        if tangent is not None:
            tangents[entry.index] = tangent


def pull_back(
    backwards: Iterable[Entry],
    cotangents: Variables,
    outputs: Sequence[int],
    cts: Sequence[Cotangent | None],
) -> None:
    """Pull cotangents of outputs back through entries, from the last to the first.

    The outputs are variables, or -1 where one is not followed. Afterwards the cotangents of the
    variables that no entry defines are set, where they were reached.
    """
    for index, ct in zip(outputs, cts, strict=True):
        if index >= 0 and ct is not None:
            accumulate(cotangents, index, ct)
    for entry in backwards:
        entry.pull(cotangents)


@dataclass(slots=True, eq=False)
class OperationEntry(Entry):
    """The entry of an operation; there is a class for each form of differential."""

    primitive: Any  # a Primitive, whose differential is of the form that the kind is for
    operands: Sequence[int]  # the variables that its arguments are; -1 for one not followed
    primals: Sequence[Value]  # the arguments
    out: Value  # the result
    params: Mapping[str, Any]

    def push(self, tangents: Variables) -> Value:
        return fit_tangent(
            self._tangent([tangents[operand] for operand in self.operands]), self.out
        )

    def _tangent(self, tangents: list[Value]) -> Value:
        """The tangent of the result, or None, from the tangents of the arguments."""
        raise NotImplementedError

    def _add(self, cotangents: Variables, position: int, ct: Cotangent) -> None:
        """Add a cotangent of an argument's shape to that argument's."""
        x = self.primals[position]
        if type(ct) is Masked or type(x) is not np.ndarray or ct.dtype is not x.dtype:
            ct = fit(ct, x, shape_of(x))
        accumulate(cotangents, self.operands[position], ct)

    def _hand_on(self, cotangents: Variables, pulled: Sequence[Any]) -> None:
        """Add to the cotangents of all arguments that are followed; a function is called for its
        cotangent."""
        for position, (x, g) in enumerate(zip(self.primals, pulled, strict=True)):
            if self.operands[position] >= 0 and is_inexact(dtype_of(x)):
                g = g() if callable(g) else g
                if g is not None:
                    self._add(cotangents, position, g)


def plus(first: Value, second: Value) -> Value:
    """The sum of two tangents; None is zero."""
    if first is None or second is None:
        return second if first is None else first
    return first + second


class ElementwiseEntry(OperationEntry):
    """Element by element: y = f(x_1, x_2, ...), whose factors are the partial derivatives.

    The tangent is the sum of factor times tangent; the cotangents are the conjugates of the factors
    times the cotangent, summed along the axes that an argument was broadcast along.
    """

    __slots__ = ()

    def _values(self) -> Sequence[Value]:
        """The values that factors are computed from."""
        if self.primitive.additive:  # of which there may be outlines only
            return ()
        return self.out, *operands_of_factors(self.primitive.differential, self.primals, self.out)

    def _tangent(self, tangents: list[Value]) -> Value:
        values, total = self._values(), None
        for tangent, factor in zip(tangents, self.primitive.factors, strict=True):
            if tangent is not None and factor is not None:
                if callable(factor):
                    factor = factor(*values, **self.params)
                    if self.primitive.differential.selects:
                        tangent, factor = chosen(tangent, factor).value, SAME
                total = plus(total, times(tangent, factor))
        return total

    def pull_from(self, cotangents: Variables, ct: Cotangent) -> None:
        self._pull(cotangents, ct, shape_of(self.out))

    def _pull(self, cotangents: Variables, ct: Cotangent, wide: Shape) -> None:
        """Pull a cotangent that broadcasts to the shape ``wide``, as the factors do."""
        values = self._values()
        factors = self.primitive.factors
        for operand, x, factor in zip(self.operands, self.primals, factors, strict=True):
            if operand < 0 or factor is None:
                continue
            previous = cotangents[operand]
            fresh = callable(factor)
            if fresh:
                factor = factor(*values, **self.params)
            if fresh and self.primitive.differential.selects:
                if type(previous) is CotangentBuffer and previous.choose(factor, ct, wide):
                    continue  # added in place
                g: Cotangent = chosen(ct, factor)
            else:
                factor = conjugated(factor)
                g = ct.times(factor) if type(ct) is Masked else times(ct, factor)
            g = fit(g, x, wide)
            if previous is None and fresh and type(g) is Masked:
                g = buffered(g)
            accumulate(cotangents, operand, g)


class ReductionEntry(ElementwiseEntry):
    """A reduction: its tangent is the sum over the reduced axes of factor times tangent."""

    __slots__ = ()

    def _values(self) -> Sequence[Value]:
        (x,), (factor,) = self.primals, self.primitive.factors
        return (keep(self.out, shape_of(x), self.params), x) if callable(factor) else ()

    def _tangent(self, tangents: list[Value]) -> Value:
        (tangent,), (factor,) = tangents, self.primitive.factors
        if tangent is None:
            return None
        axes = {name: self.params[name] for name in ("axis", "keepdims")}
        if callable(factor):
            factor = factor(*self._values(), **self.params)
            if type(factor) is float:  # as of a mean, which is left for the few sums
                return times(reduce_sum(tangent, **axes), factor)
            if self.primitive.differential.selects:
                return reduce_sum(chosen(tangent, factor).value, **axes)
        return reduce_sum(times(tangent, factor), **axes)

    def pull_from(self, cotangents: Variables, ct: Cotangent) -> None:
        primitive, params = self.primitive, self.params
        if type(ct) is Masked or primitive.differential.selects:
            wide = shape_of(self.primals[0])
            self._pull(cotangents, map_cotangent(ct, lambda array: keep(array, wide, params)), wide)
            return
        if ct.shape:
            ct = keep(ct, shape_of(self.primals[0]), params)
        factor = primitive.factors[0]
        if factor is not SAME:
            ct = times(ct, conjugated(factor(*self._values(), **params)))
        self._add(cotangents, 0, ct)


def keep(x: Value, wide: Shape, params: Mapping[str, Any]) -> Value:
    """Give the result of a reduction its reduced axes back, with size 1.

    ``wide`` is the shape of the operand. A cotangent of the result may be smaller than the result
    if it broadcasts to it.
    """
    shape, axis = shape_of(x), params["axis"]
    if params["keepdims"] or not shape or not axis:
        return x
    missing = len(wide) - len(axis) - len(shape)
    sizes = iter((1,) * missing + shape)
    sizes_kept = tuple([1 if a in axis else next(sizes) for a in range(len(wide))])
    return x.reshape(sizes_kept) if type(x) is np.ndarray else reshape(x, shape=sizes_kept)


class LinearEntry(OperationEntry):
    """An operation that is linear in each argument: it is applied to the tangent in its place."""

    __slots__ = ()

    def _tangent(self, tangents: list[Value]) -> Value:
        primitive, primals, params = self.primitive, self.primals, self.params
        if len(tangents) == 1:  # as every operation that only moves elements
            tangent = tangents[0]
            return None if tangent is None else bind(primitive, (tangent,), params)
        linear: Any = primitive.differential
        routes = linear.routes(len(primals))
        followed = [
            tangent is not None and transpose is not None
            for tangent, transpose in zip(tangents, routes, strict=True)
        ]
        if linear.jointly and any(followed):
            replaced = [
                tangent if follow else zeros_like(x) if transpose is not None else x
                for x, tangent, follow, transpose in zip(
                    primals, tangents, followed, routes, strict=True
                )
            ]
            return bind(primitive, tuple(replaced), params)
        total = None
        for k in compress(range(len(primals)), followed):
            term = bind(primitive, (*primals[:k], tangents[k], *primals[k + 1 :]), params)
            total = plus(total, term)
        return total

    def pull_from(self, cotangents: Variables, ct: Cotangent) -> None:
        linear = self.primitive.differential
        if type(ct) is not Masked or not self.primitive.bilinear:
            ct = broadcast(ct, shape_of(self.out))
        if linear.split is not None:
            self._pull_split(cotangents, ct)
            return
        primals = self.primals
        if len(primals) > 1 and dtype_of(self.out).kind == "c":
            primals = [conj(x) if dtype_of(x).kind == "c" else x for x in primals]
        if type(ct) is Masked and not linear.structural:
            if self.primitive.bilinear:
                self._pull_product(cotangents, ct, primals)
                return
            if self.primitive.cores:
                self._pull_by_example(cotangents, ct, primals)
                return
        is_simple = type(ct) is not Masked and not linear.gaps
        for position, transpose in enumerate(linear.routes(len(primals))):
            if self.operands[position] >= 0 and transpose is not None:
                if is_simple:
                    g = transpose(ct, *primals, **self.params)
                else:
                    g = self._with_gaps(transpose, ct, primals)
                self._add(cotangents, position, g)

    def _pull_by_example(self, cotangents: Variables, ct: Masked, primals: Sequence[Value]) -> None:
        """Pull a cotangent that is absent for whole examples of a stack."""
        routes = self.primitive.differential.routes(len(primals))

        def transposed(
            cts: Sequence[Cotangent | None], outs: Sequence[Value], xs: Sequence[Value]
        ) -> list[Callable[[], Value] | None]:
            return [
                None if route is None else partial(route, plain(cts[0]), *xs, **self.params)
                for route in routes
            ]

        cores = self.primitive.cores
        pulled = pulled_by_example(transposed, cores, [ct], [self.out], primals)
        self._hand_on(cotangents, pulled)

    def _pull_product(self, cotangents: Variables, ct: Masked, primals: Sequence[Value]) -> None:
        """Pull a cotangent with gaps through a product of two arguments, as a matrix product.

        Elements that no present cotangent reaches are absent, whatever their values
        are, and these values do not enter the cotangent of the other argument.
        """
        routes = self.primitive.differential.routes(len(primals))
        shape = shape_of(self.out)
        masks = reached(self.primitive, ct.mask, shape, primals, self.params)
        reached_primals = [
            x if is_full(mask) else where(mask, x, 0)
            for mask, x in zip(masks, primals, strict=True)
        ]
        value = broadcast(ct.value, shape)
        for position, (route, mask) in enumerate(zip(routes, masks, strict=True)):
            if self.operands[position] >= 0:
                g = route(value, *reached_primals, **self.params)
                self._add(cotangents, position, g if is_full(mask) else Masked(g, mask, False))

    def _with_gaps(
        self, transpose: Callable[..., Value], ct: Cotangent, primals: Sequence[Value]
    ) -> Cotangent:
        """The cotangent of an argument, where the result's cotangent has gaps or gets them here."""
        linear = self.primitive.differential

        def pull(array: Value) -> Value:
            return transpose(array, *primals, **self.params)

        if type(ct) is Masked and linear.structural:
            return ct.map(pull)
        value = plain(ct)
        if not linear.gaps:
            return pull(value)
        return Masked(value, np.ones(shape_of(value), np.bool_)).map(pull)

    def _pull_split(self, cotangents: Variables, ct: Cotangent) -> None:
        """Pull through an operation of many arguments whose elements are sums of elements."""
        split = partial(self.primitive.differential.split, **self.params)
        parts = split(plain(ct), *self.primals)
        masks = split(ct.mask, *self.primals) if type(ct) is Masked else parts
        for position, (share, mask) in enumerate(zip(parts, masks, strict=True)):
            if self.operands[position] >= 0:
                self._add(cotangents, position, share if mask is share else Masked(share, mask))


class PatchEntry(LinearEntry):
    """A slice or a gather: cotangents are patches, which are collected rather than summed up."""

    __slots__ = ()

    def pull_from(self, cotangents: Variables, ct: Cotangent) -> None:
        """Add the cotangent to a buffer, unless a transformation follows the values."""
        x, indices, params = self.primals[0], self.primals[1:], self.params
        operand = self.operands[0]
        buffer = cotangents[operand]
        is_whole = type(ct) in RAW
        if type(buffer) is CotangentBuffer:
            buffer.widen(shape_of(x))
        if not (is_whole or is_raw(ct)) or (indices and not all(type(i) in RAW for i in indices)):
            self._collect(cotangents, ct)
            return
        is_fresh = buffer is None
        if type(buffer) is not CotangentBuffer:
            if not (is_fresh or is_raw(buffer)):
                self._collect(cotangents, ct)
                return
            shape, before = shape_of(x), buffer
            buffer = CotangentBuffer(np.zeros(shape, dtype_of(x)), np.zeros(shape, np.bool_))
            cotangents[operand] = buffer
            if not is_fresh:
                buffer.add(before)
        patch = self.primitive.differential.patch
        patch(buffer.value, ct if is_whole else ct.value, is_fresh, *indices, **params)
        if buffer.mask is not None:
            patch(buffer.mask, True if is_whole else ct.mask, is_whole, *indices, **params)

    def _collect(self, cotangents: Variables, ct: Cotangent) -> None:
        """Keep a patch until all patches of the variable are known."""
        operand, x = self.operands[0], self.primals[0]
        patches = cotangents[operand]
        if type(patches) is not CotangentPatches:
            whole = patches.finish() if type(patches) is CotangentBuffer else patches
            patches = cotangents[operand] = CotangentPatches(shape_of(x), dtype_of(x), whole)
        shape = shape_of(self.out)
        if type(ct) is Masked:
            ct = Masked(broadcast(ct.value, shape), ct.mask)
        else:
            ct = broadcast(ct, shape)
        patch = ct, self.primals[1:], self.params
        patches.put(self.primitive, patch)


class PushedEntry(OperationEntry):
    """An operation whose differential gives the pushforward. How it is transposed differs."""

    __slots__ = ()

    def _tangent(self, tangents: list[Value]) -> Value:
        directions = tuple(
            tangent if is_inexact(dtype_of(x)) else None
            for tangent, x in zip(tangents, self.primals, strict=True)
        )
        if all(tangent is None for tangent in directions):
            return None
        return self.primitive.differential.push(directions, self.out, *self.primals, **self.params)


class TransposedEntry(PushedEntry):
    """An operation whose differential gives the transpose of its pushforward as well."""

    __slots__ = ()

    def pull_from(self, cotangents: Variables, ct: Cotangent) -> None:
        differential = self.primitive.differential
        transposed = partial(differential.pull, **self.params)
        out, primals = self.out, self.primals
        if self.primitive.cores:
            pulled = pulled_by_example(
                lambda cts, outs, xs: transposed(fit_cotangent(cts[0], out), *outs, *xs),
                self.primitive.cores,
                [ct],
                [out],
                primals,
            )
            self._hand_on(cotangents, pulled)
            return
        ct = broadcast(plain(ct) if differential.mixes else ct, shape_of(out))
        masks: Sequence[Value] = ()
        if type(ct) is Masked:
            # At ones no product is zero. What nothing present reaches is made one: it is finite.
            ones = [np.ones(shape_of(x)) for x in (out, *primals)]
            present = cast(ct.mask, dtype=np.dtype(np.float64))
            masks = [sensitivity != 0 for sensitivity in transposed(present, *ones)]
            primals = [
                where(sensitivity, x, 1) for sensitivity, x in zip(masks, primals, strict=True)
            ]
        pulled = transposed(plain(ct), out, *primals)
        if masks:
            pulled = [Masked(g, m, False) for g, m in zip(pulled, masks, strict=True)]
        self._hand_on(cotangents, pulled)


class CarriedEntry(PushedEntry):
    """An operation whose tangents are carried by another operation, which takes parts of them; see
    ``carried``."""

    __slots__ = ()

    def pull_from(self, cotangents: Variables, ct: Cotangent) -> None:
        carry = self.primitive.differential.carry
        operation, others, params = carry(self.out, *self.primals, **self.params)
        primals = *self.primals, *others
        PatchEntry(operation, self.operands, primals, self.out, params).pull_from(cotangents, ct)

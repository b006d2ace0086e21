"""Operations without a structure, by the forms that they declare: windows, rows, orders, terms.

See ``Opaque``. A form that is not declared is ``UntranslatableError``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from funcgrad._backends.array_code.array_writer import Array
from funcgrad._backends.xla.xla_writer import UntranslatableError, XlaWriter
from funcgrad._core.specs import Spec
from funcgrad._core.structure.opaque_forms import Ordering, RowProducts, WindowProducts
from funcgrad._core.structure.structures import AlongAxis, Opaque

_BOOL: Final = np.dtype(np.bool_)
_INT64: Final = np.dtype(np.int64)


def by_form(
    writer: XlaWriter,
    structure: Opaque,
    operands: Sequence[Array],
    spec: Spec,
    params: Mapping[str, Any],
) -> Array:
    """The result of an operation that declares a form."""
    shapes = [x.shape for x in operands]
    if structure.orders is not None:
        return _ordered(writer, structure.orders(**params), operands[0], spec)
    if structure.windows is not None:
        return _convolved(writer, structure.windows(**params), operands, spec)
    if structure.rows is not None:
        return _by_rows(writer, structure.rows(**params), operands, spec)
    if structure.along is not None:
        along = structure.along(shapes[0], operands[0].dtype, **params)
        if along is not None:
            return _along(writer, along, operands[0], spec)
    if structure.terms is not None:
        terms = structure.terms(*shapes, **params)
        if terms is not None:
            return _summed(writer, terms, operands, spec)
    raise UntranslatableError("it declares no form")


def _ordered(writer: XlaWriter, form: Ordering, x: Array, spec: Spec) -> Array:
    """A stable order: a descending one is the ascending one of the reversed elements, reversed."""
    lax, axis = writer.lax, form.axis
    if x.dtype.kind == "c":
        raise UntranslatableError("XLA does not order complex numbers as NumPy does")
    keys = lax.rev(x, (axis,)) if form.descending else x
    line = np.arange(x.shape[axis])[:: -1 if form.descending else 1].copy()
    line = line.reshape([-1 if a == axis else 1 for a in range(len(x.shape))])
    places = writer.expanded(line, x.shape)
    values = [keys, places] if form.places else [keys]
    out = lax.sort(values, dimension=axis, is_stable=True, num_keys=1)[-1]
    out = lax.rev(out, (axis,)) if form.descending else out
    if form.wanted is not None:
        first = x.shape[axis] - form.wanted if form.last else 0
        out = writer.sliced(out, axis, first, form.wanted)
    if form.ranks is not None:
        out = lax.concatenate([writer.sliced(out, axis, k, 1) for k in form.ranks], axis)
    return writer.cast_to(out, spec.dtype)


def _convolved(
    writer: XlaWriter, form: WindowProducts, operands: Sequence[Array], spec: Spec
) -> Array:
    lax, rank, groups = writer.lax, len(form.strides), form.groups
    first, second = [writer.cast_to(x, spec.dtype) for x in operands]
    if 0 in (*first.shape, *second.shape, *spec.shape):
        return np.zeros(spec.shape, spec.dtype)
    options: dict[str, Any] = {"precision": lax.Precision.HIGHEST}
    if form.arrays == "xky":
        return lax.conv_general_dilated(
            first,
            second,
            form.strides,
            "VALID",
            rhs_dilation=form.dilations,
            feature_group_count=groups,
            **options,
        )
    if form.arrays == "ykx":  # a convolution of spread elements with turned kernels
        filters, channels, *sizes = second.shape
        kernel = writer.reshaped(second, (groups, filters // groups, channels, *sizes))
        kernel = lax.transpose(kernel, (0, 2, 1, *range(3, rank + 3)))
        kernel = writer.reshaped(kernel, (groups * channels, filters // groups, *sizes))
        kernel = lax.rev(kernel, range(2, rank + 2))
        reach = [d * (n - 1) for d, n in zip(form.dilations, sizes, strict=True)]
        spread = [s * (n - 1) + 1 for s, n in zip(form.strides, first.shape[2:], strict=True)]
        behind = [n - m for n, m in zip(spec.shape[2:], spread, strict=True)]
        return lax.conv_general_dilated(
            first,
            kernel,
            (1,) * rank,
            [*zip(reach, behind, strict=True)],
            lhs_dilation=form.strides,
            rhs_dilation=form.dilations,
            feature_group_count=groups,
            **options,
        )
    reach = [
        s * (n - 1) + d * (size - 1) + 1
        for s, n, d, size in zip(
            form.strides, second.shape[2:], form.dilations, spec.shape[2:], strict=True
        )
    ]
    for axis, n in enumerate(reach, 2):  # elements that no window reaches
        first = writer.sliced(first, axis, 0, n)
    space = "".join([chr(ord("a") + k) for k in range(rank)])
    out = lax.conv_general_dilated(
        first,
        second,
        form.dilations,
        "VALID",
        rhs_dilation=form.strides,
        batch_group_count=groups,
        dimension_numbers=("CN" + space, "IO" + space, "CN" + space),
        **options,
    )
    return writer.reshaped(out, spec.shape)


def _by_rows(writer: XlaWriter, form: RowProducts, operands: Sequence[Array], spec: Spec) -> Array:
    """Products with the nonzeros of a sparse matrix, gathered and added by rows."""
    jnp, result = writer.jax.numpy, form.arrays[2]
    dtype = _INT64 if spec.dtype == _BOOL else spec.dtype  # a number of products of True
    axis = len(spec.shape) - (1 if result == "d" else 2)
    places = {
        "x": np.asarray(form.indices, np.int64),
        "y": np.repeat(np.arange(len(form.indptr) - 1), np.diff(form.indptr)),
    }
    if not places["x"].size or not prod(spec.shape):
        return np.zeros(spec.shape, dtype)
    terms = []
    for name, operand in zip(form.arrays[:2], operands, strict=True):
        x = writer.cast_to(operand, dtype)
        if name == "d":
            terms.append(jnp.expand_dims(x, -1))
        else:
            terms.append(jnp.take(x, places[name], axis=-2, mode="clip"))
    product = jnp.multiply(*terms)
    if result == "d":
        return jnp.sum(product, axis=-1)
    at = (*[slice(None)] * axis, places[result])
    product = jnp.broadcast_to(product, (*spec.shape[:axis], *product.shape[-2:]))
    return (
        jnp.zeros(spec.shape, dtype)
        .at[at]
        .add(product, indices_are_sorted=result == "y", mode="promise_in_bounds")
    )


_TRANSFORMS: Final[Mapping[str, str]] = MappingProxyType(
    {"fft": "fft", "ifft": "ifft", "rfft_n_even": "rfft", "rfft_n_odd": "rfft", "irfft": "irfft"}
)


def _along(writer: XlaWriter, form: AlongAxis, x: Array, spec: Spec) -> Array:
    """A Fourier transform along an axis."""
    name = _TRANSFORMS.get(form.ufunc.__name__)
    if name is None or 0 in (*x.shape, *spec.shape):
        raise UntranslatableError("XLA has no such transform")
    dtype = np.result_type(spec.dtype, np.complex64)
    x = writer.cast_to(x, dtype.type(0).real.dtype if name == "rfft" else dtype)
    size = x.shape[form.axis] if name == "rfft" else spec.shape[form.axis]
    out = getattr(writer.jax.numpy.fft, name)(x, size, form.axis)
    number = form.number * (size if name in ("ifft", "irfft") else 1)
    if number != 1:
        out = out * out.dtype.type(number)
    return writer.cast_to(out, spec.dtype)


def _summed(
    writer: XlaWriter, terms: Sequence[np.ndarray[Any, Any]], operands: Sequence[Array], spec: Spec
) -> Array:
    """A sum of products of single elements, whose places are known."""
    places, *others = terms
    product = None
    for x, numbers in zip(operands, others, strict=True):
        flat = writer.reshaped(writer.cast_to(x, spec.dtype), (prod(x.shape),))
        term = writer.taken(flat, np.asarray(numbers, np.int64))
        product = term if product is None else writer.lax.mul(product, term)
    zeros = writer.expanded(np.zeros((), spec.dtype), (prod(spec.shape),))
    if not len(places):
        return writer.reshaped(zeros, spec.shape)
    return writer.reshaped(writer.put(zeros, np.asarray(places), product, True), spec.shape)

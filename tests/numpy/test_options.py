"""Options that functions refuse, and the reasons in their errors."""

from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import ArgumentError, AxisError, DtypeError, FunctionError, ShapeError
from tests.together import refused, together

NUMBERS = np.array([[1.0, 2.0, 4.0], [3.0, 0.0, 5.0]])
WINDOWS = fnp.lib.stride_tricks.sliding_window_view


@pytest.mark.parametrize("name", ["quantile", "nanquantile"])
def test_weights_of_quantiles(name: str) -> None:
    function: Any = getattr(fnp, name)
    inverted = {"method": "inverted_cdf"}
    found = function(NUMBERS, 0.5, axis=1, weights=[1.0, 1.0, 5.0], **inverted)
    assert found.tolist() == [4.0, 5.0]
    with pytest.raises(ArgumentError, match=f'{name}: weights are for method="inverted_cdf"'):
        function(NUMBERS, 0.5, weights=np.ones((2, 3)))
    for weights in (-np.ones((2, 3)), np.zeros((2, 3)), np.full((2, 3), np.nan)):
        with pytest.raises(ArgumentError, match="weights are finite, not negative"):
            function(NUMBERS, 0.5, weights=weights, **inverted)
    with pytest.raises(ShapeError, match=r"weights of the shape \(2,\) fit neither"):
        function(NUMBERS, 0.5, axis=1, weights=np.ones(2), **inverted)


test_words = refused(
    [
        (lambda: fnp.ravel_multi_index(([-1],), (2,)), AxisError, "must not be negative"),
        (lambda: fnp.ravel_multi_index(([1],), (2,), ["wrap"] * 2), ShapeError, "2 modes do not"),
        (lambda: fnp.ravel_multi_index(([1],), (2,), order="K"), ArgumentError, "order has to be"),
        (lambda: fnp.asarray_chkfinite([1.0, np.inf]), ArgumentError, "has to be finite"),
        (lambda: fnp.common_type([True]), DtypeError, "booleans are not numbers"),
        (lambda: fnp.mask_indices(2, 3), FunctionError, "mask_indices: expected a function"),  # type: ignore[arg-type]
        (lambda: fnp.trim_zeros([1.0], "x"), ArgumentError, "trim has to be one of"),
        (lambda: fnp.einsum_path("ij,jk", [1.0]), ValueError, "einsum_path"),
        (lambda: WINDOWS(NUMBERS, (2,)), ShapeError, "a window of 1 axes does not fit 2 axes"),
        (lambda: WINDOWS(NUMBERS, (2, 4)), ShapeError, "size 4 does not fit axis 1"),
        (lambda: WINDOWS(NUMBERS, -1, 0), ShapeError, "a window of the size -1"),
        (lambda: fnp.cov(NUMBERS, dtype="text"), DtypeError, "cov: 'text' is not a dtype"),
        (lambda: fnp.broadcast_shapes((2,), (3,)), ShapeError, "broadcast_shapes"),
        (lambda: fnp.correlate(1.0, [1.0]), ShapeError, "correlate: a sequence"),
        (lambda: fnp.partition([1.0], 0, kind="x"), ArgumentError, "partition: kind has to be"),
        (lambda: fnp.argpartition([1.0], 0, kind="x"), ArgumentError, "one of 'introselect'"),
        (lambda: fnp.sort([1.0], kind="x"), ArgumentError, "sort: kind has to be one of 'quick'"),
        (lambda: fnp.argsort([1.0], kind="x"), ArgumentError, "argsort: kind has to be one of"),
        (lambda: fnp.nanquantile([], 0.5, method="x"), ArgumentError, "the method has to be one"),
    ]
)


@together(
    "name, make",
    {
        "zeros": fnp.zeros,
        "ones": fnp.ones,
        "empty": fnp.empty,
        "full": lambda shape: fnp.full(shape, 1.0),
        "zeros_like": lambda shape: fnp.zeros_like(1.0, shape=shape),
        "full_like": lambda shape: fnp.full_like(1.0, 2.0, shape=shape),
        "eye": fnp.eye,
        "tri": fnp.tri,
        "linspace": lambda count: fnp.linspace(0.0, 1.0, count),
        "broadcast_to": lambda shape: fnp.broadcast_to(1.0, shape),
        "tile": lambda count: fnp.tile(1.0, count),
        "repeat": lambda count: fnp.repeat([1.0], count),
        "pad": lambda count: fnp.pad([1.0], count),
        "indices": lambda count: fnp.indices((count,)),
        "normal": lambda shape: fg.random.normal(fg.random.key(0), shape),
    }.items(),
)
def test_sizes_are_not_negative_or_too_large(name: str, make: Any) -> None:
    with pytest.raises(ShapeError, match=f"{name}: .*(must not be |have to be non-)negative"):
        make(-1)
    with pytest.raises(ShapeError, match=f"{name}: an array of the shape .* would be too large"):
        make(2**62)

"""``where`` of many elements has NumPy's bits, whichever way it takes."""

from itertools import product

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from tests.together import together

SHAPES = ((80, 90), (), (90,), (80, 1))


@together("dtype", list("bhilefdF?"))
@together("wide", [(80, 90), (1, 90), (80, 1), (3, 80, 90)])
def test_where_of_many_elements_is_numpys(dtype: str, wide: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    signs = rng.random(wide) > 0.5
    for condition, first, second in product((signs, np.asfortranarray(signs)), SHAPES, SHAPES):
        x, y = ((3 * rng.standard_normal(shape)).astype(dtype) for shape in (first, second))
        for pair in (
            (x, y),
            (x, 0),
            (0, y),
            (x, -0.0),
            (x, np.nan),
            (x[..., ::-1] if first else x, y),
        ):
            expected, found = np.where(condition, *pair), np.asarray(fnp.where(condition, *pair))
            assert found.dtype == expected.dtype
            assert found.shape == expected.shape
            assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gradients_through_many_signs(dtype: str) -> None:
    x = np.random.default_rng(1).standard_normal((80, 90)).astype(dtype)
    x[0] = np.nan, *[np.inf] * 89
    slope = fg.grad(lambda x: fnp.sum(fnp.where(x > 0, x * x, 1.0)))
    expected = np.where(x > 0, 2 * x, 0)
    for transformed in (slope, fg.jit(slope, backend="numpy")):
        np.testing.assert_array_equal(transformed(x), expected)

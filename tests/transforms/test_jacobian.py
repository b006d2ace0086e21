"""jacfwd, jacrev, hessian, hvp: what a user may rely on."""

from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import DifferentiationError
from tests.together import together
from tests.transforms.support import Layer, Point, assert_same, complex_numbers, numbers

BOTH = pytest.mark.parametrize("jacobian", [fg.jacfwd, fg.jacrev])


@BOTH
@together(
    ("shape_in", "shape_out"), [((), ()), ((3,), ()), ((), (2,)), ((2, 3), (4,)), ((3,), (2, 2))]
)
def test_shapes_are_those_of_the_result_then_the_argument(
    jacobian: Any, shape_in: tuple[int, ...], shape_out: tuple[int, ...]
) -> None:
    coefficients, x = numbers(*shape_out, *shape_in, seed=1), numbers(*shape_in)
    axes = len(shape_in)

    def f(x):
        return fnp.tensordot(coefficients, x**2, axes)

    assert_same(jacobian(f)(x), np.asarray(coefficients * 2 * x))


@BOTH
@pytest.mark.parametrize("shape", [(0,), (2, 0)])
def test_empty_arrays(jacobian: Any, shape: tuple[int, ...]) -> None:
    assert_same(jacobian(lambda x: x * 2)(np.zeros(shape)), np.zeros(shape + shape))
    assert_same(jacobian(fnp.sum)(np.zeros(shape)), np.zeros(shape))
    assert_same(jacobian(lambda x: fnp.zeros(shape) * x)(2.0), np.zeros(shape))


@BOTH
def test_the_tree_of_the_result_holds_trees_of_the_argument(jacobian: Any) -> None:
    w, b = numbers(2, 3), numbers(2, seed=1)

    def f(layer):
        return {"y": layer.weight @ np.ones(3) + layer.bias, "s": (fnp.sum(layer.weight), None)}

    by_weight = np.einsum("ij,k->ijk", np.eye(2), np.ones(3))
    expected = {"y": Layer(by_weight, np.eye(2)), "s": (Layer(np.ones((2, 3)), np.zeros(2)), None)}
    assert_same(jacobian(f)(Layer(w, b)), expected)


@BOTH
@together(
    ("argnums", "expected"), [(1, 2.0), (-1, 2.0), ((0, 1), (3.0, 2.0)), ((1,), (2.0,)), ((), ())]
)
def test_argnums(jacobian: Any, argnums: Any, expected: Any) -> None:
    assert_same(jacobian(lambda x, y: x * y, argnums)(2.0, 3.0), expected)
    assert_same(jacobian(lambda x, y: Point(x * y, 0.0), argnums)(2.0, 3.0).x, expected)


@BOTH
def test_trees_without_leaves(jacobian: Any) -> None:
    assert jacobian(lambda x: (1.0, [2.0]))({}) == ({}, [{}])
    assert jacobian(lambda x: {"a": None})(1.0) == {"a": None}


@BOTH
def test_aux_and_keyword_arguments(jacobian: Any) -> None:
    def f(x, *, scale):
        return x * scale, {"double": 2 * x, "name": "text"}

    found, aux = jacobian(f, has_aux=True)(numbers(2), scale=3.0)
    assert_same(found, 3 * np.eye(2))
    assert_same(aux["double"], 2 * numbers(2))
    assert aux["name"] == "text"


@BOTH
@together("dtype", ["e", "f", "d"])
def test_dtypes(jacobian: Any, dtype: str) -> None:
    x = numbers(2).astype(dtype)
    assert_same(jacobian(lambda x: x * x)(x), np.diag(2 * x), rtol=1e-3)


@BOTH
def test_mixed_dtypes(jacobian: Any) -> None:
    found = jacobian(lambda x, y: x * y, (0, 1))(np.float32(2.0), np.float64(3.0))
    np.testing.assert_allclose([float(part) for part in found], [3.0, 2.0])


# --------------------------------------------------------------------------------- complex


@BOTH
def test_holomorphic_functions(jacobian: Any) -> None:
    z = complex_numbers(3)
    assert_same(jacobian(lambda z: z**3, holomorphic=True)(z), np.diag(3 * z**2))
    assert_same(
        jacobian(lambda z: fnp.exp(z[0] * z[1]), holomorphic=True)(z),
        np.exp(z[0] * z[1]) * np.array([z[1], z[0], 0]),
    )


@BOTH
def test_real_functions_of_complex_arguments_as_grad(jacobian: Any) -> None:
    z = complex_numbers(3)
    assert_same(jacobian(lambda z: abs(z) ** 2)(z), np.diag(2 * z))
    assert_same(jacobian(lambda z: fnp.sum(z.real * z.imag))(z), z.imag + 1j * z.real)


@BOTH
def test_complex_functions_of_real_arguments(jacobian: Any) -> None:
    x = numbers(2)
    found = jacobian(lambda x: {"c": fnp.exp(1j * x), "r": x * x, "s": x[0] + 2j * x[1]})(x)
    expected = {"c": np.diag(1j * np.exp(1j * x)), "r": np.diag(2 * x), "s": np.array([1.0, 2j])}
    assert_same(found, expected)


@BOTH
def test_real_and_complex_arguments_together(jacobian: Any) -> None:
    x, z = 2.0, 1.0 + 3.0j
    found = jacobian(lambda x, z: x * abs(z) ** 2, (0, 1))(x, z)
    assert_same(found, (np.float64(10.0), np.complex128(2 * x * z)))


@BOTH
@together(
    ("f", "x", "holomorphic", "reason"),
    [
        (lambda z: z * z, 1j, False, "Say holomorphic=True"),
        (lambda z: abs(z), 1j, True, "have to be complex"),
        (lambda x: x * 1j, 1.0, True, "have to be complex"),
        (lambda x: fnp.floor(x).astype(int), 1.0, False, "result is of dtype int64"),
        (lambda x: [x, {"a": x > 0}], 1.0, False, "result[1]['a'] is of dtype bool"),
    ],
)
def test_derivatives_without_a_meaning_are_refused(
    jacobian: Any, f: Any, x: Any, holomorphic: bool, reason: str
) -> None:
    with pytest.raises(DifferentiationError) as caught:
        jacobian(f, holomorphic=holomorphic)(x)
    assert reason in str(caught.value)
    assert str(caught.value).startswith(jacobian.__name__ + ": ")


# --------------------------------------------------------------------------------- hessian


def rosenbrock(x):
    return fnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def test_hessian_of_rosenbrock() -> None:
    x = np.array([1.0, 2.0])
    expected = np.array([[1200 - 4 * 200 + 2.0, -400.0], [-400.0, 200.0]])
    assert_same(fg.hessian(rosenbrock)(x), expected)


def test_all_orders_of_composition_agree() -> None:
    x = numbers(3)
    reference = np.asarray(fg.hessian(rosenbrock)(x))
    for outer in (fg.jacfwd, fg.jacrev):
        for inner in (fg.jacfwd, fg.jacrev, fg.grad):
            assert_same(outer(inner(rosenbrock))(x), reference)
    assert_same(reference.T + fnp.zeros(()), reference)


def test_hessians_of_trees() -> None:
    def f(p):
        return p["a"] ** 2 * fnp.sum(p["b"])

    b = numbers(2)
    found = fg.hessian(f)({"a": 3.0, "b": b})
    expected = {
        "a": {"a": 2 * b.sum(), "b": np.full(2, 6.0)},
        "b": {"a": np.full(2, 6.0), "b": np.zeros((2, 2))},
    }
    assert_same(found, expected)


def test_hessian_in_several_arguments_with_aux() -> None:
    found, aux = fg.hessian(lambda x, y: (x**2 * y, "aux"), (0, 1), has_aux=True)(2.0, 3.0)
    assert_same(found, ((6.0, 4.0), (4.0, 0.0)))
    assert aux == "aux"


def test_hessian_of_a_vector_function() -> None:
    x = numbers(2)
    expected = np.zeros((2, 2, 2))
    expected[0, 0, 0], expected[1, 1, 1] = 6 * x
    assert_same(fg.hessian(lambda x: x**3)(x), expected)


def test_third_derivatives() -> None:
    x = numbers(2)
    third = fg.jacfwd(fg.hessian(lambda x: fnp.sum(x**4) / 24))(x)
    expected = np.zeros((2, 2, 2))
    expected[0, 0, 0], expected[1, 1, 1] = x
    assert_same(third, expected)


def test_jacobians_and_hessians_under_vmap_and_grad() -> None:
    x = numbers(4, 3)
    stacked = fg.vmap(fg.hessian(rosenbrock))(x)
    assert_same(stacked, np.stack([np.asarray(fg.hessian(rosenbrock)(row)) for row in x]))

    def curvature(x):
        return fnp.sum(fg.hessian(lambda v: fnp.sum(v**3))(x))

    assert_same(fg.grad(curvature)(numbers(3)), np.full(3, 6.0))


def test_closures_over_outer_tracers() -> None:
    def f(a):
        return fnp.sum(fg.jacfwd(fg.jacrev(lambda x: a * fnp.sum(x**3)))(fnp.ones(2) * a))

    assert_same(fg.grad(f)(2.0), 2 * 12 * 2.0)


# --------------------------------------------------------------------------------- hvp


def test_hvp_is_the_hessian_times_a_vector() -> None:
    x, v = numbers(4), numbers(4, seed=1)
    assert_same(fg.hvp(rosenbrock, (x,), (v,)), np.asarray(fg.hessian(rosenbrock)(x)) @ v)


def test_hvp_in_several_arguments_and_trees() -> None:
    def f(x, p):
        return x**2 * p["y"] + p["y"] ** 3

    out = fg.hvp(f, (2.0, {"y": 3.0}), (1.0, {"y": 10.0}))
    assert_same(out, (6.0 + 40.0, {"y": 4.0 + 180.0}))


def test_hvp_under_vmap() -> None:
    x = numbers(3)
    rows = fg.vmap(lambda v: fg.hvp(rosenbrock, (x,), (v,)))(np.eye(3))
    assert_same(rows, np.asarray(fg.hessian(rosenbrock)(x)))

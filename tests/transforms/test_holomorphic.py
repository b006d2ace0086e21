"""``holomorphic=True`` is the complex derivative f'(z), in every transformation that takes it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import DifferentiationError, MissingOptionError
from tests.together import together

Z = 0.7 - 0.4j
FUNCTIONS: dict[str, tuple[Any, Any, Any]] = {
    "power": (lambda z: z**3, lambda z: 3 * z**2, lambda z: 6 * z),
    "exp": (fnp.exp, np.exp, np.exp),
    "sin": (fnp.sin, np.cos, lambda z: -np.sin(z)),
    "reciprocal": (lambda z: 1.0 / z, lambda z: -1 / z**2, lambda z: 2 / z**3),
    "log": (fnp.log, lambda z: 1 / z, lambda z: -1 / z**2),
    "plain NumPy": (
        lambda z: np.sum(np.exp(np.stack([z, 2.0 * z]))),
        lambda z: np.exp(z) + 2 * np.exp(2 * z),
        lambda z: np.exp(z) + 4 * np.exp(2 * z),
    ),
    "constant factor": (lambda z: (2.0 + 1j) * z * z, lambda z: (4 + 2j) * z, lambda z: 4 + 2j),
}
FIRST: dict[str, Any] = {
    "grad": lambda f: fg.grad(f, holomorphic=True),
    "value_and_grad": lambda f: lambda z: fg.value_and_grad(f, holomorphic=True)(z)[1],
    "jacfwd": lambda f: fg.jacfwd(f, holomorphic=True),
    "jacrev": lambda f: fg.jacrev(f, holomorphic=True),
    "jvp": lambda f: lambda z: fg.jvp(f, (z,), (1.0 + 0j,))[1],
    "jit": lambda f: fg.jit(fg.grad(f, holomorphic=True)),
    "vmap": lambda f: lambda z: fg.vmap(fg.grad(f, holomorphic=True))(np.array([z, z]))[1],
    "checkpoint": lambda f: fg.grad(fg.checkpoint(f), holomorphic=True),
    "positional": lambda f: fg.grad(f, 0, False, (), True),
}
SECOND: dict[str, Any] = {
    "grad of grad": lambda f: fg.grad(fg.grad(f, holomorphic=True), holomorphic=True),
    "hessian": lambda f: fg.hessian(f, holomorphic=True),
    "jvp of grad": lambda f: lambda z: fg.jvp(fg.grad(f, holomorphic=True), (z,), (1.0 + 0j,))[1],
    "grad of jacfwd": lambda f: fg.grad(fg.jacfwd(f, holomorphic=True), holomorphic=True),
    "jit of grad of grad": lambda f: fg.jit(
        fg.grad(fg.grad(f, holomorphic=True), holomorphic=True)
    ),
}


@together("name", FUNCTIONS)
@together("way", FIRST)
def test_the_complex_derivative(name: str, way: str) -> None:
    f, slope, _ = FUNCTIONS[name]
    np.testing.assert_allclose(FIRST[way](f)(Z), slope(Z), rtol=1e-13)


@together("name", FUNCTIONS)
@together("way", SECOND)
def test_the_second_complex_derivative(name: str, way: str) -> None:
    f, _, curvature = FUNCTIONS[name]
    np.testing.assert_allclose(SECOND[way](f)(Z), curvature(Z), rtol=1e-12)


@together("name", FUNCTIONS)
def test_the_equations_of_cauchy_and_riemann(name: str) -> None:
    """The derivative along i is i times that along 1, and the real part alone determines both."""
    f, _, _ = FUNCTIONS[name]
    slope = complex(fg.grad(f, holomorphic=True)(Z))
    along_one = complex(fg.jvp(f, (Z,), (1.0 + 0j,))[1])
    along_i = complex(fg.jvp(f, (Z,), (1j,))[1])
    np.testing.assert_allclose([along_one, along_i], [slope, 1j * slope], rtol=1e-13)
    descent = complex(fg.grad(lambda z: f(z).real)(Z))  # without holomorphic: its conjugate
    np.testing.assert_allclose(descent, np.conj(slope), rtol=1e-13)


def test_of_what_is_not_holomorphic_the_real_part_counts() -> None:
    found = fg.grad(lambda z: z * z.conj(), holomorphic=True)(Z)
    np.testing.assert_allclose(found, 2 * np.conj(Z))  # du/dx - i du/dy of u = x**2 + y**2


def test_trees_arguments_and_what_is_handed_through() -> None:
    def f(p: Any, w: Any) -> Any:
        return fnp.sum(p["a"] * p["b"] ** 2) * w, "aux"

    p, w = {"a": np.array([1.0, 2j]), "b": np.array([1j, 3.0 + 1j])}, 2.0 - 1j
    (by_p, by_w), aux = fg.grad(f, (0, 1), has_aux=True, holomorphic=True)(p, w)
    np.testing.assert_allclose(by_p["a"], p["b"] ** 2 * w)
    np.testing.assert_allclose(by_p["b"], 2 * p["a"] * p["b"] * w)
    np.testing.assert_allclose(by_w, np.sum(p["a"] * p["b"] ** 2))
    assert aux == "aux"
    (value, _), _ = fg.value_and_grad(f, has_aux=True, holomorphic=True)(p, w)
    np.testing.assert_allclose(value, f(p, w)[0])


def test_probes_have_complex_derivatives_too() -> None:
    def f(z: Any) -> Any:
        return fg.probe(z * z, "square") ** 3

    slope, probes = fg.grad(f, probes=("square",), holomorphic=True)(Z)
    np.testing.assert_allclose(slope, 6 * Z**5)
    np.testing.assert_allclose(probes["square"], 3 * Z**4)


def test_the_precision_is_the_arguments() -> None:
    found = fg.grad(lambda z: z * z, holomorphic=True)(np.complex64(1 + 2j))
    assert found.dtype == np.complex64


@together("transform", [fg.grad, fg.value_and_grad])
@together(
    ("f", "x", "holomorphic", "words"),
    [
        (lambda z: z * z, Z, False, "holomorphic=True is for f'(z)"),
        (lambda z: abs(z), Z, True, "have to be complex, but their dtypes are complex128, float64"),
        (lambda x: x * 1j, 2.0, True, "have to be complex, but their dtypes are float64, complex1"),
        (lambda z: fnp.stack([z, z]), Z, True, "not a scalar"),
        (lambda z: fnp.sum(z.real > 0), Z, True, "whose derivative is zero everywhere"),
    ],
)
def test_what_has_no_complex_derivative(
    transform: Any, f: Any, x: Any, holomorphic: bool, words: str
) -> None:
    with pytest.raises(DifferentiationError) as caught:
        transform(f, holomorphic=holomorphic)(x)
    assert words in str(caught.value)
    assert str(caught.value).startswith(f"{transform.__name__}: ")


def test_modes_without_the_option_say_so() -> None:
    unchecked: Any = fg
    with pytest.raises(MissingOptionError, match=r"no option holomorphic: a tangent is any"):
        unchecked.jvp(fnp.exp, (Z,), (1j,), holomorphic=True)

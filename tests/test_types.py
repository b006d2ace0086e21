"""What type checkers make of natural code: it runs here as a test, and mypy and pyright read it.

``assert_type`` holds for both. A line that both have to refuse says so with a comment, ``type:
ignore``, which each of them reports where it finds nothing to refuse.
"""

# pyright: reportUnnecessaryTypeIgnoreComment=error

from dataclasses import dataclass
from typing import Any, assert_type

import numpy as np
import numpy.typing as npt
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import FuncgradError, ImmutableError

X = fg.tensor([1.0, 2.0])


def parabola(x: float) -> float:
    return x * x


def rotation(z: complex) -> float:
    return abs(z)


def total(x: fg.Tensor) -> fg.Tensor:
    return fnp.sum(x * x)


def plain(x: npt.NDArray[np.float64], power: int = 2) -> float:
    result: float = np.sum(x**power)
    return result


def linear(params: dict[str, fg.Tensor], x: fg.Tensor) -> fg.Tensor:
    return fnp.sum(params["w"] * x)


def counted(x: fg.Tensor) -> tuple[fg.Tensor, str]:
    return fnp.sum(x), "aux"


def counted_tree(params: dict[str, fg.Tensor]) -> tuple[fg.Tensor, int]:
    return fnp.sum(params["w"]), 3


@dataclass(frozen=True)
class Line:
    slope: fg.Tensor
    offset: fg.Tensor


def error(line: Line, x: fg.Tensor, *, squared: bool = True) -> fg.Tensor:
    residual = line.slope * x + line.offset
    return fnp.sum(residual**2 if squared else abs(residual))


PARAMS = {"w": X}
LINE = Line(X, X)


def test_the_gradient_in_any_array_is_a_tensor() -> None:
    assert_type(fg.grad(parabola)(2.0), fg.Tensor)
    assert_type(fg.grad(rotation)(2.0 + 1j), fg.Tensor)
    assert_type(fg.grad(total)(X), fg.Tensor)
    assert_type(fg.grad(plain)(np.ones(3), power=3), fg.Tensor)
    assert_type(fg.grad(fg.grad(parabola))(2.0), fg.Tensor)
    # An array may be given as any array or number.
    assert_type(fg.grad(total)(np.ones(3)), fg.Tensor)
    assert_type(fg.grad(parabola)(X[0]), fg.Tensor)


def test_the_gradient_in_a_tree_is_a_tree_of_that_type() -> None:
    assert_type(fg.grad(linear)(PARAMS, X), dict[str, fg.Tensor])
    assert_type(fg.grad(error)(LINE, X, squared=False), Line)
    assert_type(fg.jit(fg.grad(linear))(PARAMS, X), dict[str, fg.Tensor])


def test_values_and_gradients() -> None:
    assert_type(fg.value_and_grad(parabola)(2.0), tuple[fg.Tensor, fg.Tensor])
    assert_type(fg.value_and_grad(linear)(PARAMS, X), tuple[fg.Tensor, dict[str, fg.Tensor]])
    assert_type(
        fg.jit(fg.value_and_grad(linear))(PARAMS, X), tuple[fg.Tensor, dict[str, fg.Tensor]]
    )


def test_argnums_choose_the_type() -> None:
    assert_type(fg.grad(linear, argnums=0)(PARAMS, X), dict[str, fg.Tensor])
    assert_type(fg.grad(linear, argnums=1)(PARAMS, X), fg.Tensor)
    assert_type(fg.grad(linear, argnums=(0, 1))(PARAMS, X), tuple[dict[str, fg.Tensor], fg.Tensor])
    assert_type(fg.grad(linear, 1)(PARAMS, X), fg.Tensor)
    assert_type(fg.value_and_grad(linear, argnums=1)(PARAMS, X), tuple[fg.Tensor, fg.Tensor])
    assert_type(
        fg.value_and_grad(linear, argnums=(0, 1))(PARAMS, X),
        tuple[fg.Tensor, tuple[dict[str, fg.Tensor], fg.Tensor]],
    )


def test_has_aux_hands_the_type_through() -> None:
    assert_type(fg.grad(counted, has_aux=True)(X), tuple[fg.Tensor, str])
    assert_type(fg.grad(counted_tree, has_aux=True)(PARAMS), tuple[dict[str, fg.Tensor], int])
    assert_type(
        fg.value_and_grad(counted, has_aux=True)(X), tuple[tuple[fg.Tensor, str], fg.Tensor]
    )
    assert_type(
        fg.value_and_grad(counted_tree, has_aux=True)(PARAMS),
        tuple[tuple[fg.Tensor, int], dict[str, fg.Tensor]],
    )
    assert_type(fg.jacrev(counted, has_aux=True)(X), tuple[Any, str])


def test_jacobians_between_arrays_are_tensors() -> None:
    assert_type(fg.jacfwd(total)(X), fg.Tensor)
    assert_type(fg.jacrev(total)(X), fg.Tensor)
    assert_type(fg.hessian(total)(X), fg.Tensor)
    assert_type(fg.hessian(parabola)(2.0), fg.Tensor)
    assert_type(fg.hessian(linear)(PARAMS, X), Any)


def test_lambdas_and_untyped_functions_take_any_tree() -> None:
    gradient = fg.grad(lambda params, x: fnp.sum(params["w"] * x["x"]))({"w": X}, {"x": X})
    assert set(gradient.keys()) == {"w"}
    value, by_name = fg.value_and_grad(lambda params: params["a"] * params["b"])(
        {"a": 1.0, "b": 2.0}
    )
    assert (float(value), sorted(by_name)) == (2.0, ["a", "b"])
    assert float(fg.grad(fg.grad(lambda x: x**3))(2.0)) == 12.0
    assert float(fg.grad(fg.checkpoint(lambda x: x * x))(3.0)) == 6.0
    assert fg.vmap(fg.grad(fg.checkpoint(lambda x: x * x)))(X).shape == (2,)
    assert fg.vmap(parabola)(X).shape == (2,)  # what it is given is a batch, no float
    assert fg.hessian(lambda x: fnp.sum(x**3))(X).shape == (2, 2)


def test_arrays_and_numbers_beside_tensors() -> None:
    array, number = np.ones(2), np.float64(2.0)
    assert_type(X * array, fg.Tensor)
    assert_type(2.0 * X, fg.Tensor)
    assert_type(number * X, fg.Tensor)
    assert_type(X == X, fg.Tensor)
    # NumPy's stubs take a tensor for an array; what they say of the result is theirs.
    results: tuple[Any, ...] = (array * X, array + X, array - X, array / X, array**X, array @ X)
    results += (array < X, array == X, np.arange(2) * X, np.ones(2, np.float32) - X, np.sin(X))
    assert all(isinstance(result, fg.Tensor) for result in results)


def test_writing_is_an_error_on_its_line_and_the_rest_is_read() -> None:
    with pytest.raises(ImmutableError):
        X[0] = 1.0  # type: ignore[index]
    with pytest.raises(ImmutableError):
        del X[0]  # type: ignore[attr-defined]

    def written(x: fg.Tensor) -> int:
        x[0] = 1.0  # type: ignore[index]
        wrong: int = "read"  # type: ignore[assignment]
        return wrong

    with pytest.raises(ImmutableError):
        written(X)


def test_what_does_not_fit_is_an_error() -> None:
    with pytest.raises(FuncgradError):
        fg.grad(error)("text", X)  # type: ignore[arg-type]
    with pytest.raises(AttributeError):
        fg.grad(error)(X, X)  # type: ignore[arg-type]
    with pytest.raises(FuncgradError):
        fg.grad(3)  # type: ignore[call-overload]


def mistakes() -> None:
    """Mistakes in users' code, that both checkers find on their lines; it is never called."""
    optimizer = fg.optim.adam(0.1)
    state = optimizer.init(PARAMS)
    _, pullback = fg.vjp(total, X)
    _, _, _ = fg.vjp(total, X)  # type: ignore[misc]
    jitted = fg.jit(linear)
    fg.grad(total, argnums="x")  # type: ignore[arg-type]
    fg.grad(linear)(X, X)  # type: ignore[arg-type]
    fg.hessian("x")  # type: ignore[call-overload]
    fg.jacfwd(total, argnums=1.5)  # type: ignore[call-overload]
    fg.jvp(total, X, X)  # type: ignore[arg-type]
    fg.vmap(total, in_axes="0")  # type: ignore[arg-type]
    pullback("text")  # type: ignore[call-overload]
    pullback(X, X)  # type: ignore[call-overload]
    optimizer.update(PARAMS, PARAMS, PARAMS)  # type: ignore[arg-type]
    optimizer.update(PARAMS, state)  # type: ignore[call-arg]
    updates, _ = optimizer.update(PARAMS, state, PARAMS)
    _number: int = fg.optim.apply_updates(PARAMS, updates)  # type: ignore[assignment]
    jitted(PARAMS)  # type: ignore[call-arg]
    jitted(PARAMS, X, 3)  # type: ignore[call-arg]
    print(jitted(PARAMS, X).shpae)  # type: ignore[attr-defined]
    fg.checkpoint(total)(X, X)  # type: ignore[call-arg]
    fg.custom_jvp(3)  # type: ignore[arg-type]
    fg.cond(True, total, X)  # type: ignore[arg-type]
    fg.gard(total)  # type: ignore[attr-defined]
    fg.optim.Adam(0.1)  # type: ignore[attr-defined]
    fg.random.PRNGKey(0)  # type: ignore[attr-defined]
    fg.optim.adam(lr=0.1)  # type: ignore[call-arg]
    fg.nn.conv(X, X, strides=2)  # type: ignore[call-arg]
    X.backward()  # type: ignore[attr-defined]


def test_updates_have_the_type_of_gradients_and_parameters_keep_theirs() -> None:
    optimizer = fg.optim.sgd(0.1)
    gradient = fg.grad(linear)(PARAMS, X)
    updates, _ = optimizer.update(gradient, optimizer.init(PARAMS), PARAMS)
    assert_type(updates, dict[str, fg.Tensor])
    assert_type(fg.optim.apply_updates(PARAMS, updates), dict[str, fg.Tensor])


def test_pullbacks_take_cotangents_of_any_kind() -> None:
    _, pullback = fg.vjp(total, X)
    for cotangent in (1.0, np.float64(1.0), X[0]):
        assert len(pullback(cotangent)) == 1
    _, _, note = fg.vjp(counted, X, has_aux=True)
    assert_type(note, str)
    _, of_pair = fg.vjp(lambda x: (x, {"y": x}), X)
    assert len(of_pair((X, {"y": X}))) == 1
    _, of_line = fg.vjp(lambda x: Line(x, x), X)
    assert len(of_line(LINE)) == 1


def test_holomorphic_derivatives_have_the_same_types() -> None:
    def square(z: complex) -> complex:
        return z * z

    assert_type(fg.grad(square, holomorphic=True)(1j), fg.Tensor)
    assert_type(fg.hessian(square, holomorphic=True)(1j), fg.Tensor)

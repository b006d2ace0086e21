"""Types of natural code: it runs here as a test, and mypy and pyright check it.

``assert_type`` holds for both. A line that both have to reject has a comment, ``type: ignore``,
which each of them reports if the line has no error.
"""

# pyright: reportUnnecessaryTypeIgnoreComment=error

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, assert_type

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
    return np.sum(x**power)


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


def halves(x: fg.Tensor) -> tuple[fg.Tensor, fg.Tensor]:
    return x / 2.0, x / 2.0


def swapped(pair: tuple[fg.Tensor, fg.Tensor]) -> tuple[fg.Tensor, fg.Tensor]:
    return pair[1], pair[0]


def is_small(pair: tuple[fg.Tensor, fg.Tensor]) -> fg.Tensor:
    return fnp.sum(pair[0]) < -1.0


def is_less(x: float) -> bool:
    return x < 0.0


def running(carry: fg.Tensor, x: fg.Tensor) -> tuple[fg.Tensor, fg.Tensor]:
    return carry + x, carry


def halved(x: fg.Tensor, a: fg.Tensor) -> fg.Tensor:
    return x / 2.0 + 0.0 * fnp.sum(a)


def newton(f: Callable[[Any], Any], x: Any) -> Any:
    return x


Pair: TypeAlias = tuple[fg.Tensor, fg.Tensor]
PAIR = (X, X)
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


def test_options_make_a_decorator_that_keeps_the_types() -> None:
    @fg.jit(static_argnums=1)
    def power(x: fg.Tensor, n: int) -> fg.Tensor:
        return x**n

    @fg.custom_vjp(nondiff_argnums=(1,))
    def clipped(x: fg.Tensor, limit: float) -> fg.Tensor:
        return x

    @fg.custom_jvp(nondiff_argnums=())
    def cube(x: float) -> float:
        return x**3

    @fg.checkpoint(save=("h",))
    def layer(params: dict[str, fg.Tensor], x: fg.Tensor) -> fg.Tensor:
        return fg.probe(x, "h") * params["w"]

    @fg.vmap(in_axes=(0, None))
    @fg.grad(argnums=1)
    def slopes(x: float, y: float) -> float:
        return x * y**2

    @fg.value_and_grad(has_aux=True)
    def measured(params: dict[str, fg.Tensor]) -> tuple[fg.Tensor, int]:
        return fnp.sum(params["w"]), 3

    @fg.grad(argnums=(0, 1))
    def mixed(params: dict[str, fg.Tensor], x: fg.Tensor, power: int = 2) -> fg.Tensor:
        return fnp.sum(params["w"] * x**power)

    assert_type(measured(PARAMS), tuple[tuple[fg.Tensor, int], dict[str, fg.Tensor]])
    assert_type(mixed(PARAMS, X, power=3), tuple[dict[str, fg.Tensor], fg.Tensor])
    assert_type(fg.value_and_grad(argnums=0)(total)(X), tuple[fg.Tensor, fg.Tensor])
    assert_type(fg.grad(argnums=1)(linear)(PARAMS, X), fg.Tensor)
    clipped.defvjp(lambda x, limit: (x, None), lambda limit, _, ct: (ct,))
    cube.defjvps(lambda tangent, out, x: 3 * x**2 * tangent)
    assert_type(power(X, 2), fg.Tensor)
    assert_type(clipped(X, 2.0), fg.Tensor)
    assert_type(cube(2.0), float)
    assert_type(layer(PARAMS, X), fg.Tensor)
    assert_type(fg.grad(cube)(2.0), fg.Tensor)
    assert slopes(X, 3.0).tolist() == [6.0, 12.0]
    assert power.stagings == 1


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
    fg.jvp(total, X, X)  # type: ignore[call-overload]
    fg.vmap(total, in_axes="0")  # type: ignore[call-overload]
    fg.vmap(lambda line: line.slope, in_axes="0")  # type: ignore[call-overload]
    fg.vmap(3.0)  # type: ignore[call-overload]
    pullback("text")  # type: ignore[call-overload]
    pullback(X, X)  # type: ignore[call-overload]
    optimizer.update(PARAMS, PARAMS, PARAMS)  # type: ignore[arg-type]
    optimizer.update(PARAMS, state)  # type: ignore[call-arg]
    updates, _ = optimizer.update(PARAMS, state, PARAMS)
    _number: int = fg.optim.apply_updates(PARAMS, updates)  # type: ignore[assignment]
    jitted(PARAMS)  # type: ignore[call-arg]
    fg.jit(static_argnums="x")(total)  # type: ignore[arg-type]
    fg.jit(backend="numpy")(total)(X, X)  # type: ignore[call-arg]
    jitted(PARAMS, X, 3)  # type: ignore[call-arg]
    print(jitted(PARAMS, X).shpae)  # type: ignore[attr-defined]
    fg.checkpoint(total)(X, X)  # type: ignore[call-arg]
    fg.custom_jvp(3)  # type: ignore[call-overload]
    fg.cond(True, total, X)  # type: ignore[call-overload]
    fg.cond(linear, total, total, X)  # type: ignore[call-overload]
    fg.cond(total, X > 0, total, X)  # type: ignore[call-overload]
    print(fg.cond(True, total, halves, X).shape)  # type: ignore[attr-defined]
    fg.switch(total, [total], X)  # type: ignore[call-overload]
    fg.switch(0, total, X)  # type: ignore[call-overload]
    fg.switch(0.5, [total], X)  # type: ignore[call-overload]
    fg.while_loop(swapped, is_small, PAIR)  # type: ignore[misc, arg-type]
    fg.while_loop(parabola, is_less, 2.0)  # type: ignore[arg-type]
    fg.while_loop(is_small, swapped, X)  # type: ignore[arg-type]
    fg.while_loop(is_small, swapped, LINE)  # type: ignore[arg-type]
    fg.while_loop(is_less, halves, X)  # type: ignore[arg-type]
    fg.while_loop(is_less, lambda x, y: x + y, X)  # type: ignore[arg-type]
    fg.while_loop(is_less, parabola)  # type: ignore[call-overload]
    _text: str = fg.while_loop(is_less, parabola, 2.0)  # type: ignore[assignment]
    fg.fori_loop(running, 0.0, X, 3)  # type: ignore[call-overload]
    fg.fori_loop(0, 3, swapped, PAIR)  # type: ignore[arg-type]
    fg.fori_loop(0, 3, lambda x: x, X)  # type: ignore[arg-type]
    fg.fori_loop(0, 3.5, running, X)  # type: ignore[call-overload]
    _, _, _ = fg.scan(running, 0.0, X)  # type: ignore[misc]
    fg.scan(total, 0.0, X)  # type: ignore[arg-type]
    fg.scan(X, running, 0.0)  # type: ignore[call-overload]
    fg.scan(running, LINE, X)  # type: ignore[arg-type]
    fg.scan(lambda c: (c, c), 0.0, X)  # type: ignore[arg-type]
    fg.scan(running, 0.0, X, length="3")  # type: ignore[call-overload]
    print(fg.scan(running, 0.0, X).shape)  # type: ignore[attr-defined]
    fg.map(X, total)  # type: ignore[call-overload]
    print(fg.map(halves, X).shape)  # type: ignore[attr-defined]
    fg.associative_scan(halves, X)  # type: ignore[arg-type]
    fg.odeint(total, X, [0.0, 1.0])  # type: ignore[arg-type]
    fg.odeint(X, total, [0.0, 1.0])  # type: ignore[call-overload]
    fg.fixed_point(halves, X)  # type: ignore[arg-type]
    fg.fixed_point(X, parabola)  # type: ignore[call-overload]
    fg.custom_root(total, X)  # type: ignore[call-overload]
    print(fg.custom_root(swapped, PAIR, newton).shape)  # type: ignore[attr-defined]
    fg.gard(total)  # type: ignore[attr-defined]
    fg.optim.Adam(0.1)  # type: ignore[attr-defined]
    fg.random.clone(0)  # type: ignore[attr-defined]
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


def test_a_loop_from_an_array_or_a_number_gives_a_tensor() -> None:
    assert_type(fg.while_loop(is_less, parabola, 2.0), fg.Tensor)
    assert_type(fg.while_loop(lambda x: fnp.any(x < 0.0), lambda x: x * x, X), fg.Tensor)
    assert_type(fg.while_loop(is_less, parabola, np.float64(2.0)), fg.Tensor)
    assert_type(fg.fori_loop(np.int64(0), fnp.sum(X).astype(int), lambda _, x: x, X), fg.Tensor)
    assert_type(fg.scan(running, 0.0, X), tuple[fg.Tensor, fg.Tensor])
    assert_type(fg.map(parabola, X), fg.Tensor)
    assert_type(fg.associative_scan(fnp.multiply, np.ones(3)), fg.Tensor)
    assert_type(fg.odeint(lambda y, t: -y, X, [0.0, 1.0]), fg.Tensor)
    assert_type(fg.fixed_point(halved, 1.0, X), fg.Tensor)
    assert_type(fg.custom_root(parabola, 0.0, newton), fg.Tensor)
    # Lambdas from numbers: mypy takes the results for anything, pyright for tensors.
    results: tuple[fg.Tensor, ...] = (
        fg.while_loop(lambda x: x < 9.0, lambda x: x * x, 2.0),
        fg.fori_loop(0, 2, lambda i, x: i * x, 2),
        fg.fori_loop(0, X.shape[0], lambda i, x: 2.0, 1.0),
        fg.odeint(lambda y, t: -y, 1.0, [0.0, 1.0]),
        fg.fixed_point(lambda x, a: (x + a / x) / 2.0, 1.0, 4.0),
        fg.custom_root(lambda x: x - 1.0, 1.0, newton, lambda _, y: y),
    )
    assert all(isinstance(result, fg.Tensor) for result in results)


def test_a_loop_from_a_tree_gives_a_tree_of_that_type() -> None:
    def moved(_: fg.Tensor, line: Line) -> Line:
        return Line(line.slope, 2.0 * line.offset)

    def counted_up(pair: Pair, x: fg.Tensor) -> tuple[Pair, None]:
        return (pair[0] + x, pair[1]), None

    def spread(carry: fg.Tensor, x: fg.Tensor) -> tuple[fg.Tensor, Pair]:
        return carry, (carry, x)

    def rotated(pair: Pair, t: fg.Tensor, speed: float) -> tuple[fg.Tensor, ...]:
        return speed * pair[1], -speed * pair[0]

    def product(f: Pair, g: Pair) -> Pair:
        return f[0] * g[0], f[1] * g[1]

    assert_type(fg.while_loop(is_small, swapped, PAIR), Pair)
    assert_type(fg.fori_loop(0, 2, moved, LINE), Line)
    # A tree may be given with numbers, where the function is declared for tensors.
    assert_type(fg.scan(counted_up, (0.0, 0.0), X), tuple[Pair, None])
    assert_type(fg.scan(spread, 0.0, np.ones(3)), tuple[fg.Tensor, Pair])
    assert_type(fg.map(halves, X), Pair)
    assert_type(fg.associative_scan(product, PAIR), Pair)
    assert_type(fg.odeint(rotated, (1.0, 0.0), [0.0, 1.0], 2.0), Pair)
    assert_type(fg.fixed_point(lambda line: Line(X, X), LINE), Line)
    assert_type(fg.custom_root(swapped, PAIR, newton), Pair)
    with_notes = fg.custom_root(swapped, PAIR, lambda f, x: (x, 1), lambda _, y: y, True)
    assert_type(with_notes, Any)
    assert_type(fg.custom_root(swapped, PAIR, lambda f, x: (x, 1), has_aux=True), tuple[Pair, Any])


def test_choices_have_the_type_of_what_is_chosen() -> None:
    assert_type(fg.cond(X[0] > 0, total, fnp.sum, X), fg.Tensor)
    assert_type(fg.cond(True, lambda: 1.0, lambda: 2), fg.Tensor)
    assert_type(fg.cond(np.bool(True), swapped, swapped, PAIR), tuple[fg.Tensor, fg.Tensor])
    assert_type(fg.switch(1, [parabola, fnp.sin, parabola], 2.0), fg.Tensor)
    assert_type(fg.switch(X[0].astype(int), (swapped,), PAIR), tuple[fg.Tensor, fg.Tensor])


def test_untyped_functions_of_loops_carry_any_tree() -> None:
    def step(carry, x):
        return {"n": carry["n"] + 1, "x": carry["x"] * x}, (x, None)

    carry, (xs, none) = fg.scan(step, {"n": 0, "x": 1.0}, X)
    assert (float(carry["x"]), xs.shape, none) == (2.0, (2,), None)
    end, n = fg.while_loop(lambda s: s[1] < 3, lambda s: (s[0] * 2.0, s[1] + 1), (1.0, 0))
    assert (end.shape, int(n), float(end)) == ((), 3, 8.0)
    last = fg.fori_loop(0, 2, lambda i, s: {"a": s["b"], "b": s["a"] + i}, {"a": X, "b": 0.0 * X})
    assert last["a"].shape == (2,)
    for start in (1.0, X, {"x": X}):
        assert fg.cond(True, lambda x: x, lambda x: x, start) is not None
    position, speed = fg.odeint(lambda y, t: (y[1], -y[0]), (1.0, 0.0), [0.0, 1.0])
    assert (position.shape, speed.shape) == ((2,), (2,))


def test_values_and_tangents_have_the_type_of_the_result() -> None:
    def tree(x: fg.Tensor) -> dict[str, fg.Tensor]:
        return {"y": x * x}

    def untyped(x: Any) -> Any:
        return {"y": [x * x]}

    assert_type(fg.jvp(total, (X,), (X,)), tuple[fg.Tensor, fg.Tensor])
    assert_type(fg.jvp(parabola, (2.0,), (1.0,)), tuple[fg.Tensor, fg.Tensor])
    assert_type(fg.jvp(tree, (X,), (X,)), tuple[dict[str, fg.Tensor], dict[str, fg.Tensor]])
    assert_type(fg.jvp(counted, (X,), (X,), has_aux=True), tuple[fg.Tensor, fg.Tensor, str])
    assert_type(fg.vjp(total, X)[0], fg.Tensor)
    assert_type(fg.vjp(tree, X)[0], dict[str, fg.Tensor])
    assert_type(fg.vjp(counted, X, has_aux=True)[0], fg.Tensor)
    out, tangent = fg.jvp(untyped, (X,), (X,))  # of which nothing is known
    assert len(out["y"]) == len(tangent["y"]) == 1
    value, _ = fg.vjp(untyped, X)
    assert len(value["y"]) == 1


def test_trees_keep_their_type() -> None:
    assert_type(fg.tree.map(fnp.sin, PARAMS), dict[str, fg.Tensor])
    assert_type(fg.tree.map(fnp.add, LINE, LINE), Line)


def test_files_have_the_type_of_what_is_like_them(tmp_path: Path) -> None:
    fg.io.save(tmp_path / "line.safetensors", LINE)
    assert_type(fg.io.load(tmp_path / "line.safetensors", LINE), Line)
    assert_type(fg.io.load(tmp_path / "line.safetensors", like=LINE, strict=False), Line)


def test_solvers_find_what_they_start_with() -> None:
    pytest.importorskip("scipy")

    def squares(x: fg.Tensor) -> fg.Tensor:
        return fnp.sum(x * x)

    assert_type(fg.scipy.optimize.minimize(squares, X).x, fg.Tensor)
    assert_type(fg.scipy.optimize.minimize(parabola, 2.0).x, fg.Tensor)
    found = fg.scipy.optimize.least_squares(lambda line: error(line, X), LINE)
    assert_type(found.x, Line)
    assert isinstance(found.message, str)

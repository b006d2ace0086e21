"""Functions of other libraries as operations: in every mode like the same function written here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import errors
from funcgrad.extend import Spec, foreign
from tests.backends.fake_device import FakeDevice
from tests.together import together

FLOAT = np.dtype(float)
NUMBER = Spec((), FLOAT)


def outside(p: Any, x: Any) -> Any:
    """A function of a tree and an array to two results; it refuses what is no array of numbers."""
    assert type(p["scale"]) is type(x) is np.ndarray
    y = np.sin(x * p["scale"][..., None]) * p["by"]
    return {"y": y, "total": np.sum(y * y, axis=-1)}


def written(p: Any, x: Any) -> Any:
    y = fnp.sin(x * p["scale"]) * p["by"]
    return {"y": y, "total": fnp.sum(y * y)}


def result(p: Any, x: Any) -> Any:
    return {"y": x, "total": Spec((), x.dtype)}


def push(primals: Any, out: Any, tangents: Any) -> Any:
    (p, x), (dp, dx) = primals, tangents
    dy = fnp.cos(x * p["scale"]) * p["by"] * (dx * p["scale"] + x * dp["scale"])
    dy = dy + fnp.sin(x * p["scale"]) * dp["by"]
    return {"y": dy, "total": 2 * fnp.sum(out["y"] * dy)}


def pull(primals: Any, out: Any, ct: Any) -> Any:
    p, x = primals
    dy = ct["y"] + 2 * out["y"] * ct["total"]
    slope = fnp.cos(x * p["scale"]) * p["by"] * dy
    by = fnp.sum(fnp.sin(x * p["scale"]) * dy)
    return {"scale": fnp.sum(slope * x), "by": by}, slope * p["scale"]


RULES: dict[str, dict[str, Any]] = {
    "jvp": {"jvp": push},
    "vjp": {"vjp": pull},
    "both": {"jvp": push, "vjp": pull},
    "numerical": {"numerical": True},
}
P = {"scale": fg.tensor(0.7), "by": fg.tensor(1.3)}
X = fg.tensor([0.3, -1.0, 2.0])


def loss(f: Any) -> Any:
    def value(p: Any, x: Any) -> Any:
        out = f(p, x * x)
        return fnp.sum(out["y"] * x) + out["total"] * p["by"]

    return value


def rows(f: Any) -> Any:
    return lambda p, x: f(p, fnp.stack([x, x + 1.0, x * x]))


MODES: dict[str, Any] = {
    "value": lambda f: f,
    "jit": fg.jit,
    "grad": lambda f: fg.grad(loss(f), argnums=(0, 1)),
    "grad of jit": lambda f: fg.grad(loss(fg.jit(f)), argnums=(0, 1)),
    "jit of grad": lambda f: fg.jit(fg.grad(loss(f), argnums=(0, 1))),
    "jvp": lambda f: lambda p, x: fg.jvp(f, (p, x), ({"scale": 2.0, "by": 0.5}, x))[1],
    "jvp in one argument": lambda f: lambda p, x: fg.jvp(lambda y: f(p, y), (x,), (x,))[1],
    "linearize": lambda f: lambda p, x: fg.linearize(lambda y: f(p, y), x)[1](x),
    "forward over reverse": lambda f: fg.hessian(loss(f), argnums=1),
    "reverse over reverse": lambda f: fg.jit(fg.jacrev(fg.grad(loss(f), argnums=1), argnums=1)),
    "reverse over forward": lambda f: fg.jacrev(fg.jacfwd(loss(f), argnums=1), argnums=1),
    "vmap": lambda f: rows(fg.vmap(f, in_axes=(None, 0))),
    "jit of vmap of grad": lambda f: fg.jit(rows(fg.vmap(fg.grad(loss(f)), (None, 0)))),
    "grad of vmap": lambda f: fg.grad(
        lambda p, x: fnp.sum(rows(fg.vmap(loss(f), (None, 0)))(p, x)), argnums=(0, 1)
    ),
    "vmap of jvp": lambda f: rows(
        fg.vmap(lambda p, x: fg.jvp(f, (p, x), (p, x))[1], in_axes=(None, 0))
    ),
    "vmap of vmap": lambda f: (
        lambda p, x: fg.vmap(
            lambda s: fg.vmap(lambda y: f({**p, "scale": s}, y))(fnp.stack([x, x + 1.0]))
        )(fnp.stack([1.0, 2.0, 3.0]))
    ),
    "scan": lambda f: fg.jit(
        fg.grad(
            lambda p, x: fnp.sum(fg.scan(lambda c, _: (f(p, c)["y"], c[0]), x, None, length=3)[1])
        )
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("batch", ["loop", "stacked", "callable"])
@pytest.mark.parametrize("rules", RULES)
def test_every_mode(rules: str, batch: str) -> None:
    calls = []

    def counted(p: Any, x: Any) -> Any:
        calls.append(x.shape)
        return outside(p, x)

    how: Any = {"callable": stacked}.get(batch, batch)
    f = foreign(counted if batch == "loop" else stacked, result, batch=how, **RULES[rules])
    for name, mode in MODES.items():
        actual, expected = mode(f)(P, X), mode(written)(P, X)
        tolerance = 3e-6 if rules == "numerical" else 1e-11
        try:
            fg.testing.assert_trees_close(actual, expected, rtol=tolerance, atol=tolerance)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from None
    assert all(shape == (3,) for shape in calls)


def stacked(p: Any, x: Any) -> Any:
    """The function for one example and for batches."""
    by = p["by"][..., None]
    y = np.sin(x * p["scale"][..., None]) * by
    return {"y": y, "total": np.sum(y * y, axis=-1)}


def test_a_batch_is_one_call() -> None:
    shapes: list[Any] = []

    def seen(x: Any) -> Any:
        shapes.append(x.shape)
        return x.sum(axis=-1)

    f = foreign(np.sum, NUMBER, batch=seen)
    assert f(np.ones(3)).tolist() == 3.0
    assert fg.vmap(fg.vmap(f))(np.ones((4, 5, 3))).shape == (4, 5)
    assert shapes == [(20, 3)]
    assert fg.vmap(f)(np.ones((0, 3))).shape == (0,)


@pytest.mark.parametrize("rules", RULES)
def test_complex_numbers(rules: str) -> None:
    def cube(z: Any) -> Any:  # not analytic, so the convention counts
        return z * z * np.conj(z)

    def push(primals: Any, out: Any, tangents: Any) -> Any:
        (z,), (t,) = primals, tangents
        return 2 * z * fnp.conj(z) * t + z * z * fnp.conj(t)

    def pull(primals: Any, out: Any, ct: Any) -> Any:
        (z,) = primals
        return (2 * z * fnp.conj(z) * ct + z * z * fnp.conj(ct),)

    given = {"jvp": push, "vjp": pull}
    options: dict[str, Any] = {name: given.get(name, True) for name in RULES[rules]}
    f = foreign(cube, lambda z: z, **options)
    z = fg.tensor([1.0 + 2.0j, -0.5j])

    def value(g: Any) -> Any:
        return lambda z: fnp.sum(fnp.real(g(z)) * fnp.imag(z))

    tol = 1e-9 if rules == "numerical" else 1e-12
    fg.testing.assert_trees_close(fg.grad(value(f))(z), fg.grad(value(cube))(z), rtol=tol)
    ours, theirs = [fg.jvp(g, (z,), (z * 1j,))[1] for g in (f, cube)]
    fg.testing.assert_trees_close(ours, theirs, rtol=tol)


def test_integers_have_no_derivative() -> None:
    where = foreign(lambda x, n: np.argmax(x) + n, Spec((), np.dtype(np.int64)))
    f = foreign(lambda x, n: x * n, lambda x, n: x, vjp=lambda xs, out, ct: (ct * xs[1], None))
    x = fg.tensor([1.0, 3.0, 2.0])
    assert fg.grad(lambda x: x[where(x, 0)])(x).tolist() == [0.0, 1.0, 0.0]
    assert fg.grad(lambda x: fnp.sum(f(x, fg.tensor(2))))(x).tolist() == [2.0] * 3
    assert fg.jvp(lambda x: f(x, fg.tensor(2)), (x,), (x,))[1].tolist() == [2.0, 6.0, 4.0]


def test_float32_and_python_numbers() -> None:
    f = foreign(np.exp, lambda x: x, numerical=True)
    x = fg.tensor([0.5, 1.0], "float32")
    gradient = fg.grad(lambda x: fnp.sum(f(x)))(x)
    assert gradient.dtype == np.float32
    np.testing.assert_allclose(gradient, np.exp(x), rtol=1e-4)
    g = foreign(lambda x: 2.0, NUMBER, numerical=True)
    assert float(fg.grad(g)(3.0)) == 0.0


def test_differences_say_how_good_they_are() -> None:
    f = foreign(np.sin, lambda x: x, numerical=True)
    x = fg.tensor([0.5, 2.0])
    (error,) = f.error(x)
    gradient = fg.grad(lambda x: fnp.sum(f(x)))(x)
    assert np.max(np.abs(np.asarray(gradient) - np.cos(x))) < 1e-11
    assert 1e-11 < error < 1e-5
    with pytest.raises(errors.DifferentiationError, match="it has rules"):
        foreign(np.sin, lambda x: x).error(x)


@pytest.mark.parametrize("transform", [fg.grad, fg.jacfwd])
def test_doubtful_differences_are_refused(transform: Any) -> None:
    step = foreign(lambda x: np.floor(x) * 3.0, lambda x: x, numerical=True)
    assert transform(step)(0.5) == 0.0
    with pytest.raises(errors.DifferentiationError, match=r"argument\[0\].*estimated error of"):
        transform(step)(1.0)

    def rough(x: Any) -> Any:  # a solver that stops at 1e-6
        return np.round(np.sin(x), 6)

    with pytest.raises(errors.DifferentiationError, match="numerical=1e-6"):
        transform(foreign(rough, lambda x: x, numerical=True))(1.565)
    smooth = transform(foreign(rough, lambda x: x, numerical=1e-6))(1.565)
    np.testing.assert_allclose(smooth, np.cos(1.565), atol=1e-4)


@pytest.mark.parametrize("derive", [fg.grad, fg.jacfwd, lambda f: fg.jit(fg.grad(f))])
def test_each_element_is_moved_by_its_own_scale(derive: Any) -> None:
    def bell(x: Any) -> Any:
        return np.exp(-(x[1] ** 2)) + 0.0 * x[0]

    f = foreign(bell, NUMBER, numerical=True)
    slope = derive(f)(fg.tensor([1e6, 0.5]))
    np.testing.assert_allclose(slope, [0.0, -np.exp(-0.25)], rtol=1e-6, atol=1e-12)
    along = fg.jvp(f, (fg.tensor([1e6, 0.5]),), (fg.tensor([1.0, 1.0]),))[1]
    np.testing.assert_allclose(along, -np.exp(-0.25), rtol=1e-5)


SHAPES: dict[str, tuple[Any, Any]] = {
    "sine": (np.sin, np.cos),
    "bell": (lambda u: np.exp(-(u**2)), lambda u: -2.0 * u * np.exp(-(u**2))),
    "step": (np.tanh, lambda u: 1.0 / np.cosh(u) ** 2),
    "line": (lambda u: 3.0 * u + 1.0, lambda u: 3.0 + 0.0 * u),
    "square": (np.square, lambda u: 2.0 * u),
}


@pytest.mark.parametrize("name", SHAPES)
def test_the_scale_of_a_function_may_be_any_other_than_its_arguments(name: str) -> None:
    """What cannot be known is refused; what is returned is right within its estimated error."""
    shape, slope = SHAPES[name]
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(60):
        scale, distance, u = 10.0 ** rng.uniform(-6, 6), 10.0 ** rng.uniform(-6, 6), rng.normal()
        centre = scale * distance
        x = centre + scale * u
        seen = (x - centre) / scale  # by rounding not quite u
        f = foreign(lambda x, c=centre, s=scale: shape((x - c) / s), NUMBER, numerical=True)
        try:
            found = float(fg.grad(f)(x)) * scale
        except errors.DifferentiationError:
            refused += 1
            continue
        assert abs(found - slope(seen)) < 1e-4 * (1.0 + abs(slope(seen))), (scale, distance, u)
    assert refused < 3


def bent(x: Any) -> Any:
    """The derivative of the function below, a matrix that depends on x."""
    return np.array([[2.0 + x[0], x[1]], [0.0, x[0] * x[1]]])


moved_back = foreign(
    lambda x, ct: bent(x).T @ ct, lambda x, ct: ct, linear_in=1, vjp=lambda *a: back(*a)
)
moved = foreign(
    lambda x, t: bent(x) @ t,
    lambda x, t: t,
    linear_in=(1,),
    vjp=lambda xs, out, ct: (None, moved_back(xs[0], ct)),
)


def back(xs: Any, out: Any, ct: Any) -> Any:
    return None, moved(xs[0], ct)


@pytest.mark.parametrize("rule", ["vjp", "jvp"])
def test_a_rule_may_hand_what_it_gets_to_a_function_that_is_linear_in_it(rule: str) -> None:
    """One rule is enough for both modes, since the other foreign function is transposed."""
    rules: dict[str, Any] = {
        "vjp": lambda xs, out, ct: (moved_back(xs[0], ct),),
        "jvp": lambda xs, out, ts: moved(xs[0], ts[0]),
    }
    f = foreign(lambda x: x * 1.0, lambda x: x, **{rule: rules[rule]})
    x = fg.tensor([1.5, 2.0])
    for jacobian in (fg.jacrev, fg.jacfwd):
        for derive in (jacobian(f), fg.jit(jacobian(f)), jacobian(fg.jit(f))):
            np.testing.assert_allclose(derive(x), bent(x), rtol=1e-12)
        rows = fg.vmap(jacobian(f))(fnp.stack([x, 2.0 * x]))
        np.testing.assert_allclose(rows[1], bent(2.0 * x), rtol=1e-12)
    np.testing.assert_allclose(fg.linear_transpose(lambda t: moved(x, t), x)(x)[0], bent(x).T @ x)
    np.testing.assert_allclose(fg.jvp(lambda t: moved(x, t), (x,), (x,))[1], bent(x) @ x)


def test_a_rule_that_is_not_linear_in_what_it_gets_says_what_to_do() -> None:
    unsaid = foreign(lambda x, ct: np.asarray(x * ct), NUMBER, numerical=True)
    f = foreign(
        lambda x: np.asarray(x * x / 2.0), NUMBER, vjp=lambda xs, o, ct: (unsaid(xs[0], ct),)
    )
    assert fg.grad(f)(3.0) == 3.0
    with pytest.raises(errors.DifferentiationError, match=r"forward mode.*linear_in="):
        fg.jvp(f, (3.0,), (1.0,))


# ------------------------------------------------------------------------------------------ errors


@together("wrap", [lambda f: f, fg.jit, lambda f: lambda x: fg.vmap(f)(x[None])])
@together(
    ("f", "kind", "words"),
    [
        (lambda x: x[:2], errors.ShapeError, r"result has shape \(2,\), but result= says \(3,\)"),
        (lambda x: x.astype("f"), errors.DtypeError, r"dtype float32, .* \.astype\('float64'\)"),
        (lambda x: (x, x), errors.TreeError, "result differs from result="),
        (lambda x: "text", errors.ShapeError, "result has shape"),
    ],
)
def test_results_are_checked(wrap: Any, f: Any, kind: Any, words: str) -> None:
    g = foreign(f, Spec((3,), FLOAT))
    with pytest.raises(kind, match=words) as caught:
        wrap(lambda x: g(x))(np.ones(3))
    assert "test_foreign.py:" in str(caught.value)


def test_errors_of_the_function_are_its_own() -> None:
    def fails(x: Any) -> Any:
        raise KeyError("mine")

    for run in (foreign(fails, NUMBER), fg.jit(foreign(fails, NUMBER))):
        with pytest.raises(KeyError, match="mine") as caught:
            run(np.ones(3))
        (note,) = dict.fromkeys(caught.value.__notes__)
        assert "test_foreign.py:" in note
        assert "float64[3]" in note


@together("mode", ["grad", "jacfwd", "hessian"])
@together("wrap", [lambda f: f, fg.jit])
def test_no_derivative_without_a_rule(mode: str, wrap: Any) -> None:
    f = foreign(np.sin, lambda x: x)
    with pytest.raises(
        errors.DifferentiationError, match=r"no derivative\. Pass a rule to foreign"
    ):
        wrap(getattr(fg, mode)(lambda x: x * f(x)))(2.0)
    stopped = fg.grad(lambda x: x * f(fg.stop_gradient(x)))(2.0)
    np.testing.assert_allclose(stopped, np.sin(2.0))


def test_wrong_rules_are_refused() -> None:
    x = np.ones(3)
    f = foreign(np.sin, lambda x: x, vjp=lambda xs, out, ct: ct)
    with pytest.raises(errors.DifferentiationError, match="vjp has to return a tuple"):
        fg.grad(lambda x: fnp.sum(f(x)))(x)
    f = foreign(np.sin, lambda x: x, vjp=lambda xs, out, ct: (ct[:2],))
    with pytest.raises(errors.ShapeError, match=r"expected shape \(3,\)"):
        fg.grad(lambda x: fnp.sum(f(x)))(x)
    f = foreign(np.sin, lambda x: x, jvp=lambda xs, out, ts: ts[0][:2])
    with pytest.raises(errors.ShapeError, match=r"expected shape \(3,\)"):
        fg.jvp(f, (x,), (x,))


@together(
    ("options", "kind", "words"),
    [
        ({"batch": "map"}, errors.ArgumentError, "batch has to be 'loop', 'stacked', or a func"),
        ({"numerical": -1.0}, errors.ArgumentError, "numerical has to be True, False"),
        ({"numerical": "yes"}, errors.ArgumentError, "got 'yes'"),
        ({"linear_in": -1}, errors.ArgumentError, "linear_in has to be positions of argum"),
        ({"jvp": 3.0}, errors.FunctionError, "rule: expected a function"),
        ({"result": (3,)}, errors.LeafError, r"result\[0\] has to be a fg\.extend\.Spec"),
        ({"result": Spec((), np.dtype(object))}, errors.DtypeError, "dtype object"),
        ({"f": 3.0}, errors.FunctionError, "foreign: expected a function, got 3.0"),
    ],
)
def test_options_are_checked(options: Any, kind: Any, words: str) -> None:
    with pytest.raises(kind, match=words):
        foreign(**{"f": np.sin, "result": NUMBER, **options})


def test_arguments_cannot_be_written_to_and_results_are_copies() -> None:
    def writes(x: Any) -> Any:
        x[0] = 5.0
        return x

    with pytest.raises(ValueError, match="read-only"):
        foreign(writes, lambda x: x)(np.ones(3))
    kept = np.zeros(3)
    f = foreign(lambda x: kept, lambda x: x)
    out = f(np.ones(3))
    kept[0] = 7.0
    assert out.tolist() == [0.0] * 3


def test_a_closed_over_traced_value_is_named() -> None:
    def loss(w: Any) -> Any:
        return foreign(lambda x: x * w, NUMBER)(2.0)

    with pytest.raises(errors.LeafError, match="traced value that the function closes over"):
        fg.grad(loss)(3.0)


def test_programs_watch_the_rules_and_not_the_function() -> None:
    seen, factors = [], {"factor": 2.0}

    def counted(x: Any) -> Any:
        seen.append(float(x))
        return 2.0 * x

    f = foreign(counted, NUMBER, vjp=lambda xs, out, ct: (factors["factor"] * ct,))
    value, slope = fg.jit(lambda x: f(x)), fg.jit(fg.grad(f))
    assert [float(value(x)) for x in (1.0, 2.0, 3.0)] == [2.0, 4.0, 6.0]
    assert set(seen) == {1.0, 2.0, 3.0}
    assert float(slope(1.0)) == 2.0
    factors["factor"] = 3.0
    assert float(slope(1.0)) == 3.0


def test_it_is_one_equation_with_names() -> None:
    def simulate(x: Any, rate: Any = 2.0) -> Any:
        return x * rate

    f = foreign(simulate, lambda x, rate: x)
    text = fg.program(lambda x: f(x, rate=fnp.exp(x[0])))(np.ones(3)).to_text()
    assert "foreign simulate" in text
    assert (f.__name__, repr(f)) == ("simulate", "<foreign function simulate>")
    with pytest.raises(errors.ProgramError, match="cannot be saved"):
        fg.program(f)(np.ones(3), 2.0).to_json()


def test_the_function_may_return_tensors() -> None:
    f = foreign(lambda x: fg.tensor(x) * 2.0, lambda x: x)
    np.testing.assert_array_equal(f(np.ones(2)), [2.0, 2.0])
    there = fg.put(np.ones(2), FakeDevice("fake:foreign"))
    f = foreign(lambda x: there * 3.0, lambda x: x)
    np.testing.assert_array_equal(f(np.ones(2)), [3.0, 3.0])


def test_a_function_of_batches_gets_all_arguments_with_the_examples_first() -> None:
    shapes = []

    def scaled(x: Any, y: Any) -> Any:
        shapes.append((x.shape, y.shape))
        return np.sum(x, -1) * np.sum(y, -1)

    f = foreign(scaled, lambda x, y: NUMBER, batch="stacked", numerical=True)
    xs, y = np.arange(6.0).reshape(3, 2), np.ones(4)
    np.testing.assert_array_equal(fg.vmap(lambda x: f(x, y))(xs), [4.0, 20.0, 36.0])
    np.testing.assert_array_equal(fg.vmap(lambda x: f(y, x))(xs), [4.0, 20.0, 36.0])
    assert shapes == [((3, 2), (3, 4)), ((3, 4), (3, 2))]

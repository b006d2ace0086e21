"""custom_jvp and custom_vjp: what a user may rely on.

The rules here are mostly wrong on purpose, a factor off, so that it shows which rule was used.
"""

from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import DifferentiationError, FunctionError, LeafError, ShapeError, TreeError
from tests.together import together
from tests.transforms.support import Layer, Point, assert_same, complex_numbers, numbers


@fg.custom_jvp
def cube_forward(x):
    return x * x * x


@cube_forward.defjvp
def _cube_rule(primals, tangents):
    (x,), (t,) = primals, tangents
    return cube_forward(x), 30.0 * x * x * t


@fg.custom_vjp
def cube_reverse(x):
    return x * x * x


def _cube_fwd(x):
    return cube_reverse(x), x


def _cube_bwd(x, ct):
    return (30.0 * x * x * ct,)


cube_reverse.defvjp(_cube_fwd, _cube_bwd)

CUBES = pytest.mark.parametrize("cube", [cube_forward, cube_reverse], ids=["jvp", "vjp"])


# --------------------------------------------------------------- under every transformation


@CUBES
def test_plain_calls_use_the_function(cube: Any) -> None:
    assert_same(cube(2.0), 8.0)
    assert_same(cube(np.array([1, 2], np.float32)), np.array([1, 8], np.float32))
    assert cube.__name__.startswith("cube")


@CUBES
def test_every_derivative_uses_the_rule(cube: Any) -> None:
    assert_same(fg.grad(cube)(2.0), 120.0)
    assert_same(fg.value_and_grad(cube)(2.0), (8.0, 120.0))
    assert_same(fg.vjp(cube, 2.0)[1](2.0), (240.0,))
    assert_same(fg.jvp(cube, (2.0,), (2.0,)), (8.0, 240.0))
    assert_same(fg.linearize(cube, 2.0)[1](2.0), 240.0)
    x = numbers(3)
    assert_same(fg.jacfwd(cube)(x), np.diag(30 * x**2))
    assert_same(fg.jacrev(cube)(x), np.diag(30 * x**2))
    assert_same(fg.grad(fg.checkpoint(cube))(2.0), 120.0)


@CUBES
def test_second_derivatives_differentiate_the_rule(cube: Any) -> None:
    assert_same(fg.grad(fg.grad(cube))(2.0), 120.0)
    assert_same(fg.hessian(cube)(2.0), 120.0)
    assert_same(fg.jvp(fg.grad(cube), (2.0,), (1.0,)), (120.0, 120.0))
    for outer in (fg.jacfwd, fg.jacrev):
        for inner in (fg.jacfwd, fg.jacrev):
            assert_same(outer(inner(cube))(2.0), 120.0)
    assert_same(fg.grad(fg.grad(fg.grad(cube)))(2.0), 60.0)


@CUBES
def test_batches(cube: Any) -> None:
    x, t = numbers(4), numbers(4, seed=1)
    assert_same(fg.vmap(cube)(x), x**3)
    assert_same(fg.vmap(fg.grad(cube))(x), 30 * x**2)
    assert_same(fg.grad(lambda x: fnp.sum(fg.vmap(cube)(x)))(x), 30 * x**2)
    assert_same(fg.jvp(fg.vmap(cube), (x,), (t,)), (x**3, 30 * x**2 * t))
    assert_same(fg.vmap(fg.vmap(fg.grad(cube)))(np.outer(x, x)), 30 * np.outer(x, x) ** 2)
    assert_same(
        fg.vmap(fg.hessian(lambda v: fnp.sum(cube(v))))(np.outer(x, x))[1], np.diag(60 * x[1] * x)
    )


@CUBES
def test_tangents_and_cotangents_may_be_batched_alone(cube: Any) -> None:
    x = numbers(3)
    rows = fg.vmap(lambda t: fg.jvp(cube, (x,), (t,))[1])(np.eye(3))
    assert_same(rows, np.diag(30 * x**2))
    _, pullback = fg.vjp(cube, x)
    assert_same(fg.vmap(pullback)(np.eye(3)), (np.diag(30 * x**2),))


@CUBES
def test_control_flow_inside_the_function_and_the_rule_is_not_batched(cube: Any) -> None:
    def f(x):
        return cube(x) if x > 0 else x

    assert_same((fg.grad(f)(2.0), fg.grad(f)(-2.0)), (120.0, 1.0))


# --------------------------------------------------------------- several arguments, trees


def test_arguments_of_which_some_are_batched() -> None:
    @fg.custom_vjp
    def scaled(w, x):
        return w * fnp.sum(x)

    scaled.defvjp(
        lambda w, x: (w * fnp.sum(x), (w, x)),
        lambda r, ct: (ct * fnp.sum(r[1]), ct * r[0] * fnp.ones(3)),
    )
    x = numbers(4, 3)

    def loss(w, x):
        return fnp.sum(fg.vmap(scaled, in_axes=(None, 0))(w, x))

    assert_same(fg.grad(loss, (0, 1))(2.0, x), (x.sum(), np.full((4, 3), 2.0)))
    per_example = fg.vmap(fg.grad(scaled, (0, 1)), in_axes=(None, 0))(2.0, x)
    assert_same(per_example, (x.sum(1), np.full((4, 3), 2.0)))


def tree_function(layer, point):
    return {"y": layer.weight * point.x, "z": (layer.bias, point.y)}


def test_trees_in_every_place_of_a_jvp_rule() -> None:
    f = fg.custom_jvp(tree_function)

    @f.defjvp
    def _(primals, tangents):
        layer, point = primals
        dlayer, dpoint = tangents
        assert isinstance(dlayer, Layer)
        assert isinstance(dpoint, Point)
        y = layer.weight * dpoint.x + dlayer.weight * point.x
        return f(layer, point), {"y": 10 * y, "z": (dlayer.bias, dpoint.y)}

    check_tree_function(f)


def test_trees_in_every_place_of_a_vjp_rule() -> None:
    f = fg.custom_vjp(tree_function)

    def bwd(residuals, ct):
        layer, point = residuals["saved"]
        assert residuals["name"] == "text"
        weight, x = 10 * ct["y"] * point.x, 10 * ct["y"] * layer.weight
        return Layer(weight, ct["z"][0]), Point(x, ct["z"][1])

    f.defvjp(lambda a, b: (tree_function(a, b), {"saved": (a, b), "name": "text"}), bwd)
    check_tree_function(f)


def check_tree_function(f: Any) -> None:
    layer, point = Layer(2.0, numbers(2)), Point(3.0, None)
    out, pullback = fg.vjp(f, layer, point)
    assert_same(out, {"y": 6.0, "z": (numbers(2), None)})
    ct = {"y": 1.0, "z": (np.ones(2), None)}
    assert_same(pullback(ct), (Layer(30.0, np.ones(2)), Point(20.0, None)))
    _, tangent = fg.jvp(f, (layer, point), (Layer(1.0, np.ones(2)), Point(1.0, None)))
    assert_same(tangent, {"y": 50.0, "z": (np.ones(2), None)})
    batch = fg.vmap(f)(Layer(np.ones(4), np.ones((4, 2))), Point(np.ones(4), None))
    assert_same(batch, {"y": np.ones(4), "z": (np.ones((4, 2)), None)})


def test_none_is_a_zero_cotangent() -> None:
    @fg.custom_vjp
    def f(x, p):
        return x * p["a"] * p["b"]

    f.defvjp(lambda x, p: (f(x, p), x), lambda x, ct: (None, {"a": ct * x, "b": None}))
    found = fg.grad(f, (0, 1))(2.0, {"a": 3.0, "b": 5.0})
    assert_same(found, (0.0, {"a": 2.0, "b": 0.0}))
    assert_same(
        fg.vmap(fg.grad(f), in_axes=(0, None))(np.ones(2), {"a": 3.0, "b": 5.0}), np.zeros(2)
    )
    f_all = fg.custom_vjp(lambda x, p: x * p["a"])
    f_all.defvjp(lambda x, p: (x * p["a"], None), lambda _, ct: (ct, None))
    assert_same(fg.grad(f_all, 1)(2.0, {"a": 3.0}), {"a": 0.0})


def test_integer_arguments() -> None:
    @fg.custom_vjp
    def power(x, n):
        return x**n

    power.defvjp(
        lambda x, n: (x**n, (x, n)), lambda r, ct: (10.0 * ct * r[1] * r[0] ** (r[1] - 1), None)
    )
    assert_same(fg.grad(power)(2.0, 3), 120.0)
    assert_same(
        fg.vmap(fg.grad(power))(np.array([2.0, 3.0]), np.array([3, 2])), np.array([120.0, 60.0])
    )

    @fg.custom_jvp
    def power_too(x, n):
        return x**n

    @power_too.defjvp
    def _(primals, tangents):
        x, n = primals
        return x**n, 10.0 * n * x ** (n - 1) * tangents[0]

    assert_same(fg.grad(power_too)(2.0, 3), 120.0)
    assert_same(fg.jvp(lambda x: power_too(x, 3), (2.0,), (1.0,)), (8.0, 120.0))


def test_integer_results() -> None:
    @fg.custom_jvp
    def f(x):
        return x * 2, fnp.argmax(x)

    @f.defjvp
    def _(primals, tangents):
        out = f(*primals)
        return out, (20 * tangents[0], fnp.zeros((), int))

    x = numbers(3)
    assert_same(fg.jvp(f, (x,), (x,))[1], (20 * x, np.int64(0)))
    assert_same(fg.grad(lambda x: fnp.sum(f(x)[0]))(x), np.full(3, 20.0))


def test_keyword_arguments_and_defaults() -> None:
    @fg.custom_vjp
    def f(x, scale=2.0):
        return x * scale

    f.defvjp(
        lambda x, scale=2.0: (x * scale, scale), lambda scale, ct: (10 * ct * scale,) + (None,) * 1
    )
    assert_same(f(3.0, scale=5.0), 15.0)
    assert_same(fg.grad(f)(3.0, scale=5.0), 50.0)
    assert_same(fg.grad(lambda x: f(scale=4.0, x=x))(3.0), 40.0)


def test_static_arguments_reach_the_rules_first() -> None:
    def apply(f, x, n):
        return f(x) * n

    first = fg.custom_vjp(apply, nondiff_argnums=(0, 2))
    first.defvjp(lambda f, x, n: (f(x) * n, x), lambda f, n, x, ct: (10 * ct * n * fg.grad(f)(x),))
    assert_same(fg.grad(lambda x: first(fnp.exp, x, 3))(0.0), 30.0)

    second = fg.custom_jvp(apply, nondiff_argnums=(0, 2))

    @second.defjvp
    def _(f, n, primals, tangents):
        (x,), (t,) = primals, tangents
        return f(x) * n, 10 * n * t * fg.grad(f)(x)

    assert_same(fg.grad(lambda x: second(fnp.exp, x, 3))(0.0), 30.0)
    assert_same(fg.vmap(lambda x: second(fnp.exp, x, 3))(np.zeros(2)), np.full(2, 3.0))


# --------------------------------------------------------------- dtypes, shapes, complex


@CUBES
@together("dtype", ["e", "f", "d"])
def test_derivatives_keep_the_dtype(cube: Any, dtype: str) -> None:
    x = np.array([0.5, 1.0]).astype(dtype)
    assert_same(fg.grad(lambda x: fnp.sum(cube(x)))(x), 30 * x * x)
    assert_same(fg.jvp(cube, (x,), (x,))[1], 30 * x**3)


@CUBES
@together("shape", [(), (0,), (2, 3)])
def test_every_shape(cube: Any, shape: tuple[int, ...]) -> None:
    x = np.asarray(numbers(*shape))
    assert_same(fg.grad(lambda x: fnp.sum(cube(x)))(x), 30 * x * x)


def test_a_wider_cotangent_is_cast_to_the_argument_s_dtype() -> None:
    @fg.custom_vjp
    def f(x):
        return x * 2

    f.defvjp(lambda x: (x * 2, None), lambda _, ct: (fg.tensor(ct, dtype="complex128") * 10,))
    assert_same(fg.grad(f)(np.float32(1.0)), np.float32(10.0))
    assert_same(fg.jvp(f, (np.float32(1.0),), (1.0,))[1], np.float32(10.0))


@CUBES
def test_complex_values(cube: Any) -> None:
    z, t = complex_numbers(3), complex_numbers(3, seed=1)

    def holomorphic(z):
        return fnp.sum(cube(z).real)

    forward = fg.jvp(holomorphic, (z,), (t,))[1]
    backward = fg.grad(holomorphic)(z)
    np.testing.assert_allclose(float(forward), np.sum((np.conj(np.asarray(backward)) * t).real))


# --------------------------------------------------------------- closures over outer tracers


def test_a_jvp_function_may_close_over_outer_tracers() -> None:
    def f(a, x):
        @fg.custom_jvp
        def g(x):
            return a * x * x

        @g.defjvp
        def _(primals, tangents):
            return a * primals[0] ** 2, 20 * a * primals[0] * tangents[0]

        return g(x)

    check_closure(f)


def test_a_vjp_function_may_close_over_outer_tracers() -> None:
    def f(a, x):
        @fg.custom_vjp
        def g(x):
            return a * x * x

        g.defvjp(lambda x: (a * x * x, x), lambda x, ct: (20 * a * x * ct,))
        return g(x)

    check_closure(f)


def check_closure(f: Any) -> None:
    a, x = 3.0, 2.0
    assert_same(fg.grad(f, 1)(a, x), 20 * a * x)  # by the rule
    assert_same(fg.grad(f, 0)(a, x), x * x)  # through the function's own operations
    assert_same(fg.grad(f, (0, 1))(a, x), (x * x, 20 * a * x))
    assert_same(fg.jvp(f, (a, x), (1.0, 1.0))[1], x * x + 20 * a * x)
    assert_same(fg.linearize(f, a, x)[1](1.0, 1.0), x * x + 20 * a * x)
    assert_same(fg.grad(fg.grad(f, 1), 0)(a, x), 20 * x)
    assert_same(fg.grad(lambda a: fg.jvp(lambda x: f(a, x), (x,), (1.0,))[1])(a), 20 * x)
    many_a, many_x = np.full(2, a), np.full(2, x)
    assert_same(fg.vmap(f, in_axes=(0, None))(many_a, x), many_a * x * x)
    assert_same(fg.vmap(fg.grad(f, 1), in_axes=(0, None))(many_a, x), 20 * many_a * x)
    assert_same(fg.vmap(fg.grad(f, 1))(many_a, many_x), 20 * many_a * x)
    assert_same(fg.jacrev(lambda p: f(*p))((a, x)), (x * x, 20 * a * x))
    assert_same(fg.grad(lambda ct: fg.vjp(f, a, x)[1](ct)[1])(1.0), 20 * a * x)
    _, pullback = fg.vjp(f, a, x)
    assert_same(fg.vmap(pullback)(np.ones(2)), (many_x**2, 20 * many_a * x))
    # Over values of transformations inside of those of the arguments, and of the same batch.
    assert_same(fg.vmap(f)(many_a, many_x), many_a * x * x)
    assert_same(fg.vmap(fg.grad(f, 0), in_axes=(None, 0))(a, many_x), many_x**2)
    assert_same(fg.grad(lambda x: fg.grad(f, 0)(a, x))(x), 2 * x)  # its own operations' slope
    assert_same(fg.grad(lambda x: fg.jvp(lambda a: f(a, x), (a,), (1.0,))[1])(x), 2 * x)
    # Within staging.
    assert_same(fg.jit(fg.grad(f, (0, 1)))(a, x), (x * x, 20 * a * x))
    assert_same(fg.grad(fg.jit(f), (0, 1))(a, x), (x * x, 20 * a * x))
    assert_same(fg.grad(fg.program(f)(a, x), (0, 1))(a, x), (x * x, 20 * a * x))
    assert_same(fg.grad(lambda a: fg.jit(lambda x: f(a, x))(x))(a), x * x)
    assert_same(fg.grad(lambda x: fg.jit(lambda a: f(a, x))(a))(x), 20 * a * x)
    assert_same(fg.grad(fg.grad(fg.jit(f), 1), 0)(a, x), 20 * x)
    assert_same(fg.grad(lambda a: fg.checkpoint(lambda a: f(a, x))(a))(a), x * x)


# --------------------------------------------------------------- rules in rules


def test_custom_functions_inside_custom_functions() -> None:
    @fg.custom_vjp
    def outer(x):
        return cube_forward(x) + cube_reverse(x)

    outer.defvjp(lambda x: (outer(x), x), lambda x, ct: (ct * fg.grad(cube_forward)(x),))
    assert_same(fg.grad(outer)(2.0), 120.0)
    assert_same(fg.grad(fg.grad(outer))(2.0), 120.0)
    assert_same(fg.vmap(fg.grad(outer))(np.full(2, 2.0)), np.full(2, 120.0))


def test_a_rule_may_use_transformations() -> None:
    @fg.custom_jvp
    def root(a):
        x = a
        for _ in range(40):
            x = (x + a / x) / 2
        return x

    @root.defjvp
    def _(primals, tangents):
        (a,), (t,) = primals, tangents
        x = root(a)
        return x, t / fg.grad(lambda y: y * y)(x)

    assert_same(fg.grad(root)(2.0), 0.5 / np.sqrt(2))
    assert_same(fg.grad(fg.grad(root))(2.0), -0.25 * 2**-1.5)
    assert_same(fg.vmap(fg.grad(root))(np.array([1.0, 4.0])), np.array([0.5, 0.25]))


def test_where_keeps_rules_out_of_what_was_not_chosen() -> None:
    @fg.custom_jvp
    def log(x):
        return fnp.log(x)

    @log.defjvp
    def _(primals, tangents):
        return log(*primals), tangents[0] / primals[0]

    assert_same(fg.jvp(lambda x: fnp.where(x > 0, log(x), 0.0), (0.0,), (1.0,))[1], 0.0)


# --------------------------------------------------------------- bad rules


def rule_of(kind: str, *rules: Any) -> Any:
    f = fg.custom_jvp(lambda x, y: x * y) if kind == "jvp" else fg.custom_vjp(lambda x, y: x * y)
    f.__name__ = "product"
    (f.defjvp if kind == "jvp" else f.defvjp)(*rules)  # type: ignore[union-attr]
    return f


def save(x, y):
    return x * y, (x, y)


BAD_RULES = (
    # What the rule is, the error and its words.
    (
        rule_of("jvp", lambda p, t: p[0]),
        DifferentiationError,
        "custom_jvp product: the rule has to return a pair (result, tangent), but it returned a t",
    ),
    (
        rule_of("jvp", lambda p, t: (p[0], (t[0],))),
        TreeError,
        "custom_jvp product: tangent: expected a leaf, got a tuple of 1",
    ),
    (
        rule_of("jvp", lambda p, t: (p[0], t[0][None])),
        ShapeError,
        "custom_jvp product: tangent: expected shape (), the shape of the result, got (1,)",
    ),
    (
        rule_of("jvp", lambda p, t: (p[0] + t[0], t[0])),
        DifferentiationError,
        "custom_jvp product: reverse mode needs a rule that is linear in the tangents",
    ),
    (
        rule_of("jvp", lambda p, t: (p[0], "text")),
        LeafError,
        "custom_jvp product: tangent: expected an array or a number, got 'text'",
    ),
    (
        rule_of("vjp", lambda x, y: x * y, save),
        DifferentiationError,
        "custom_vjp product: the fwd rule has to return a pair (result, residuals)",
    ),
    (
        rule_of("vjp", save, lambda r, ct: ct),
        DifferentiationError,
        "custom_vjp product: the bwd rule has to return a tuple with a cotangent for each of the 2"
        " argument(s), but it returned a tensor of shape ()",
    ),
    (
        rule_of("vjp", save, lambda r, ct: (ct,)),
        DifferentiationError,
        "for each of the 2 argument(s), but it returned 1",
    ),
    (
        rule_of("vjp", save, lambda r, ct: (ct, (ct,))),
        TreeError,
        "custom_vjp product: cotangent[1]: expected a leaf, got a tuple of 1",
    ),
    (
        rule_of("vjp", save, lambda r, ct: (ct[None], ct)),
        ShapeError,
        "custom_vjp product: cotangent[0]: expected shape (), the shape of the argument, got (1,)",
    ),
    (
        rule_of("vjp", save, lambda r, ct: ("text", ct)),
        LeafError,
        "custom_vjp product: cotangent: expected an array or a number, got 'text'",
    ),
)


@together(("f", "kind", "reason"), BAD_RULES)
def test_what_a_rule_returns_is_checked(f: Any, kind: type[Exception], reason: str) -> None:
    for _ in range(2):  # the second time as the first: nothing was left behind
        with pytest.raises(kind) as caught:
            fg.grad(f)(2.0, 3.0)
        assert reason in str(caught.value)
    assert_same(f(2.0, 3.0), 6.0)
    assert_same(fg.grad(lambda x: x * x)(3.0), 6.0)


def test_rules_are_given_once_and_have_to_be_there() -> None:
    f, g = fg.custom_vjp(lambda x: x), fg.custom_jvp(lambda x: x)
    with pytest.raises(DifferentiationError, match=r"<lambda> has no rule yet.*defvjp\(fwd, bwd\)"):
        f(1.0)
    with pytest.raises(DifferentiationError, match=r"<lambda> has no rule yet.*defjvp\(rule\)"):
        g(1.0)
    with pytest.raises(FunctionError, match="custom_jvp <lambda>: rule: expected a function"):
        g.defjvp(3)  # type: ignore[arg-type]
    g.defjvp(lambda p, t: (p[0], t[0]))
    with pytest.raises(DifferentiationError, match=r"already has a rule.*decorate"):
        g.defjvp(lambda p, t: (p[0], t[0]))


def test_arguments_that_only_go_by_keyword_are_refused() -> None:
    @fg.custom_vjp
    def f(x, *, scale=2.0):
        return x * scale

    f.defvjp(lambda x: (x, None), lambda _, ct: (ct,))
    with pytest.raises(DifferentiationError, match=r"custom_vjp f: .*scale can only be passed by"):
        f(1.0, scale=3.0)


def test_static_positions_have_to_exist() -> None:
    f = fg.custom_vjp(lambda x: x, nondiff_argnums=(-1,))
    f.defvjp(lambda x: (x, None), lambda _, ct: (ct,))
    with pytest.raises(DifferentiationError, match="nondiff_argnums names argument -1"):
        f(1.0)


def test_arguments_that_are_no_arrays_are_refused() -> None:
    with pytest.raises(LeafError, match=r"custom_jvp cube_forward: arguments\[0\]: .*'text'"):
        cube_forward("text")


def test_a_rule_around_a_function_with_a_rule_has_its_own() -> None:
    @fg.custom_jvp
    def inner(x: Any) -> Any:
        return x

    inner.defjvp(lambda primals, tangents: (inner(*primals), 10.0 * tangents[0]))
    outer = fg.custom_jvp(fg.grad(lambda x: inner(x) * x))
    outer.defjvp(lambda primals, tangents: (outer(*primals), 7.0 * tangents[0]))
    assert float(outer(2.0)) == 22.0
    assert float(fg.grad(outer)(2.0)) == 7.0


@pytest.mark.parametrize(
    "tangent",
    [lambda x, t: t * t, lambda x, t: abs(t) * x, lambda x, t: t + 1.0, lambda x, t: fnp.sin(t)],
    ids=["square", "absolute", "affine", "sine"],
)
def test_a_jvp_rule_that_is_not_linear_is_refused_in_reverse_mode(tangent: Any) -> None:
    f = fg.custom_jvp(lambda x: x * x)
    f.defjvp(lambda primals, tangents: (primals[0] ** 2, tangent(primals[0], tangents[0])))
    for derivative in (fg.grad(f), lambda x: fg.linearize(f, x)):
        with pytest.raises(DifferentiationError, match="a rule that is linear in the tangents"):
            derivative(2.0)


def test_a_jvp_rule_may_be_infinite() -> None:
    f = fg.custom_jvp(fnp.sqrt)
    f.defjvp(lambda primals, tangents: (f(*primals), 0.5 * tangents[0] / f(*primals)))
    assert float(fg.grad(f)(0.0)) == np.inf


# ------------------------------------------------------------- what a rule that runs later reads


def beside(s: Any) -> Any:
    """The identity, with a true rule whose pullback alone closes over a value."""
    f = fg.custom_vjp(lambda x: 1.0 * x)
    f.defvjp(lambda x: (1.0 * x, None), lambda _, ct: (ct * (s / s),))
    return f


@pytest.mark.parametrize(
    "f",
    [
        lambda x: fnp.sum(fg.vmap(lambda x, s: beside(s)(x))(x, x)),
        lambda x: fnp.sum(fg.grad(lambda s: fnp.sum(beside(s)(x) * s))(2.0 * x)),
    ],
)
def test_a_pullback_may_close_over_an_inner_value(f: Any) -> None:
    x = np.array([1.0, 2.0, 3.0])
    for gradient in (fg.grad(f), fg.grad(fg.jit(f)), fg.jit(fg.grad(f))):
        assert_same(gradient(x), np.ones_like(x))


def test_a_pullback_may_close_over_a_value_of_forward_mode() -> None:
    def f(x: Any) -> Any:
        return fg.jvp(lambda s: fnp.sum(beside(s)(x) * s), (x,), (x,))[1]

    x = np.array([1.0, 2.0, 3.0])
    for gradient in (fg.grad(f), fg.grad(fg.jit(f))):
        assert_same(gradient(x), 2.0 * x)


def test_such_a_value_may_be_an_argument() -> None:
    f: Any = fg.custom_vjp(lambda x, s: 1.0 * x)
    f.defvjp(lambda x, s: (1.0 * x, s), lambda s, ct: (ct * s, None))
    x = np.array([1.0, 2.0, 3.0])
    assert_same(fg.grad(lambda x: fnp.sum(fg.vmap(f)(x, x)))(x), x)


def handing_on(f: Any) -> Any:
    """A function whose rule hands its own pullback on."""
    custom: Any = fg.custom_vjp(f)
    custom.defvjp(lambda x: fg.vjp(f, x), lambda pull, ct: pull(ct))
    return custom


@pytest.mark.parametrize("staged", [lambda f: f, fg.jit, lambda f: fg.program(f)(0.5)])
def test_a_residual_may_be_a_function(staged: Any) -> None:
    for of in (fg.grad, lambda f: fg.grad(fg.grad(f))):
        assert_same(of(staged(handing_on(fnp.sin)))(2.0), np.asarray(of(fnp.sin)(2.0)))


@pytest.mark.parametrize("staged", [lambda f: f, fg.jit, lambda f: fg.program(f)(2.0)])
def test_values_that_such_a_function_hides_do_not_get_lost(staged: Any) -> None:
    def f(x: Any) -> Any:
        def own(p: Any) -> Any:
            return handing_on(lambda r: x * r)(p) * p

        outer = fg.custom_vjp(own)
        outer.defvjp(lambda p: (outer(p), p), lambda p, ct: fg.vjp(own, p)[1](ct))
        return outer(x)

    assert_same(staged(fg.grad(f))(2.0), np.asarray(12.0))  # f(x) is x * x * x
    assert_same(staged(fg.grad(fg.grad(f)))(2.0), np.asarray(12.0))
    assert_same(fg.grad(fg.grad(staged(f)))(2.0), np.asarray(12.0))


SPREAD = {
    "broadcast_to": lambda x: fnp.broadcast_to(x, (2, 3)),
    "tile": lambda x: fnp.tile(x, (2, 1)),
    "outer": lambda x: x * fnp.ones((2, 3)),
    "sum": lambda x: fnp.sum(x) + fnp.zeros((2, 3)),
}


@together("f", SPREAD.values(), ids=SPREAD)
@together(
    "move",
    [
        lambda y: y.reshape(6),
        lambda y: y.T,
        lambda y: y[1],
        lambda y: fnp.flip(y) * 2.0,
        lambda y: fnp.concatenate([y, y]),
        lambda y: fnp.sin(y),
    ],
)
def test_a_tangent_that_a_rule_makes_by_transposing_has_the_shape_of_its_result(f, move):
    # The transpose of a rule that sums up is content with a number for all of a result.
    ruled = fg.custom_vjp(f)
    ruled.defvjp(lambda x: (f(x), x), lambda x, ct: fg.vjp(f, x)[1](ct))
    for x in (numbers(3), fg.tensor(0.5)):
        if f is SPREAD["tile"] and x.ndim == 0:
            continue
        for g in (ruled, fg.jit(ruled), fg.checkpoint(ruled)):
            out, push = fg.linearize(lambda x, g=g: move(g(x)), x)
            expected = fg.jvp(lambda x: move(f(x)), (x,), (x * 2.0,))
            assert_same((out, push(x * 2.0)), expected)


def test_a_rule_for_each_argument() -> None:
    def made(*rules: Any) -> Any:
        product = fg.custom_jvp(lambda x, y: {"xy": x * y * y})
        product.defjvps(*rules)
        return lambda x, y: product(x, y)["xy"]

    left = lambda t, out, x, y: {"xy": t * y * y}  # noqa: E731
    right = lambda t, out, x, y: {"xy": 2 * t * out["xy"] / y}  # noqa: E731
    whole = made(left, right)
    assert fg.grad(whole, argnums=(0, 1))(2.0, 3.0) == (9.0, 12.0)
    assert fg.jvp(whole, (2.0, 3.0), (1.0, 1.0))[1].item() == 21.0
    fg.testing.check_grads(whole, (2.0, 3.0), order=2)
    slopes = fg.jit(fg.vmap(fg.grad(whole, 1)))(fg.tensor([1.0, 2.0]), fg.tensor([1.0, 3.0]))
    assert slopes.tolist() == [2.0, 12.0]
    assert fg.grad(made(None, right), argnums=(0, 1))(2.0, 3.0) == (0.0, 12.0)
    assert fg.grad(made(None, None))(2.0, 3.0).item() == 0.0
    with pytest.raises(DifferentiationError, match="given 1 rules, but there are 2 arguments"):
        fg.grad(made(left))(2.0, 3.0)
    with pytest.raises(FunctionError, match="rule"):
        made(left, 3.0)
    with pytest.raises(DifferentiationError, match="nondiff_argnums; write one rule"):
        fg.custom_jvp(lambda x, n: x * n, nondiff_argnums=(1,)).defjvps(left)


def test_the_jacobian_has_another_name() -> None:
    assert fg.jacobian is fg.jacrev

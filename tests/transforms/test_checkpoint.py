"""checkpoint: what a user may rely on."""

import tracemalloc
from collections.abc import Callable
from functools import partial
from itertools import permutations
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._passes.pipeline import optimize
from funcgrad.errors import LeafError, TracerError
from tests.together import together
from tests.transforms.support import Layer, Point, assert_same, complex_numbers, numbers


def layers(x, steps=20):
    for _ in range(steps):
        x = fnp.sin(x) + 0.5 * x
    return x


def peak(f: Callable[[], Any]) -> int:
    f()
    tracemalloc.start()
    f()
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found


@pytest.mark.slow
def test_it_trades_memory_for_recomputation() -> None:
    x = numbers(10_000)
    calls: list[int] = []

    def block(x):
        calls.append(len(calls))
        return layers(x)

    def loss(block):
        def run(x):
            for _ in range(10):
                x = block(x)
            return fnp.sum(x)

        return run

    plain = np.asarray(fg.grad(loss(block))(x))
    assert len(calls) == 10
    calls.clear()
    assert_same(fg.grad(loss(fg.checkpoint(block)))(x), plain)
    assert len(calls) == 10  # what runs again are its operations
    remembered = peak(lambda: fg.grad(loss(layers))(x))
    spared: dict[str, Callable[[Any], Any]] = {
        "arguments": loss(fg.checkpoint(layers)),
        "closed over": loss(lambda x: fg.checkpoint(lambda: layers(x))()),
        "nested": fg.checkpoint(loss(fg.checkpoint(layers))),
        "nested and closed over": lambda x: fg.checkpoint(
            lambda: loss(lambda x: fg.checkpoint(lambda: layers(x))())(x)
        )(),
        "jitted": loss(fg.checkpoint(fg.jit(layers))),
        "in a batch": lambda x: fnp.sum(fg.vmap(loss(fg.checkpoint(layers)))(x.reshape(100, 100))),
    }
    for name, f in spared.items():
        assert peak(lambda: fg.grad(f)(x)) < 0.25 * remembered, name  # noqa: B023 - called at once
        assert_same(fg.grad(f)(x), plain)


def test_it_costs_nothing_where_nothing_is_recorded() -> None:
    calls = []

    @fg.checkpoint
    def f(x):
        calls.append(x)
        return x * x

    assert_same(f(3.0), 9.0)
    assert_same(fg.jvp(f, (3.0,), (1.0,)), (9.0, 6.0))
    assert_same(fg.vmap(f)(numbers(3)), numbers(3) ** 2)
    assert_same(fg.grad(lambda x: x * f(2.0))(1.0), 4.0)
    assert len(calls) == 4


def test_it_keeps_the_name() -> None:
    assert fg.checkpoint(layers).__name__ == "layers"


# ------------------------------------------------------------------------- as if it were not there


def twice(x):
    return fg.checkpoint(lambda y: fnp.exp(y) * y * x)(x * x)


def plain_twice(x):
    return fnp.exp(x * x) * x * x * x


def compositions() -> dict[str, Callable[[Callable[[Any], Any]], Any]]:
    """What a user may do to a function of one number: name, and what of the function."""
    xs = numbers(4)

    def derivative(f):
        return lambda x: fg.jvp(f, (x,), (1.0,))[1]

    def total(f):
        return lambda xs: fnp.sum(fg.vmap(f)(xs))

    return {
        "value": lambda f: f(0.7),
        "grad": lambda f: fg.grad(f)(0.7),
        "jvp": lambda f: derivative(f)(0.7),
        "linearize": lambda f: fg.linearize(f, 0.7)[1](2.0),
        "vjp": lambda f: fg.vjp(f, 0.7)[1](2.0),
        "vmap": lambda f: fg.vmap(f)(xs),
        "grad of grad": lambda f: fg.grad(fg.grad(f))(0.7),
        "grad of jvp": lambda f: fg.grad(derivative(f))(0.7),
        "jvp of grad": lambda f: derivative(fg.grad(f))(0.7),
        "grad of linearize": lambda f: fg.grad(lambda x: fg.linearize(f, x)[1](x))(0.7),
        "third": lambda f: fg.grad(fg.grad(fg.grad(f)))(0.7),
        "hessian": lambda f: fg.hessian(total(f))(xs),
        "jacfwd": lambda f: fg.jacfwd(fg.vmap(f))(xs),
        "jacrev": lambda f: fg.jacrev(fg.vmap(f))(xs),
        "vmap of grad": lambda f: fg.vmap(fg.grad(f))(xs),
        "grad of vmap": lambda f: fg.grad(total(f))(xs),
        "grad of vmap of grad": lambda f: fg.grad(total(fg.grad(f)))(xs),
        "vmap of pullback": lambda f: fg.vmap(fg.vjp(f, 0.7)[1])(xs),
        "grad of pullback": lambda f: fg.grad(lambda ct: fg.vjp(f, 0.7)[1](ct)[0])(1.0),
        "checkpoint": lambda f: fg.grad(fg.checkpoint(f))(0.7),
        "checkpoint of grad": lambda f: fg.grad(fg.checkpoint(fg.grad(f)))(0.7),
        "checkpoint of vmap": lambda f: fg.grad(fg.checkpoint(total(f)))(xs),
        "vmap of checkpoint of grad": lambda f: fg.vmap(fg.grad(fg.checkpoint(fg.grad(f))))(xs),
    }


@together("name", compositions())
def test_every_composition_is_as_without(name: str) -> None:
    of = compositions()[name]
    expected = fg.tree.map(np.asarray, of(plain_twice))
    assert_same(of(twice), expected)
    assert_same(of(fg.checkpoint(plain_twice)), expected)
    assert_same(of(lambda x: fg.checkpoint(twice)(x)), expected)


CLOSURES: dict[str, Callable[[Any, Any], Any]] = {
    # One function of (w, x) closes over x, w, or both.
    "over x": lambda w, x: fg.checkpoint(lambda w: fnp.sin(w * x) * x)(w),
    "over w": lambda w, x: fg.checkpoint(lambda x: fnp.sin(w * x) * x)(x),
    "over both": lambda w, x: fg.checkpoint(lambda: fnp.sin(w * x) * x)(),
    "nested": lambda w, x: fg.checkpoint(lambda: fg.checkpoint(lambda w: fnp.sin(w * x) * x)(w))(),
}


@pytest.mark.parametrize("name", CLOSURES)
def test_closures_over_any_tracer_are_followed(name: str) -> None:
    f = CLOSURES[name]
    w, xs = 1.3, numbers(4)

    def plain(w, x):
        return fnp.sin(w * x) * x

    def check(of):
        assert_same(of(f), fg.tree.map(np.asarray, of(plain)))

    check(lambda f: fg.grad(f, (0, 1))(w, 0.4))
    check(lambda f: fg.vmap(f, in_axes=(None, 0))(w, xs))
    check(lambda f: fg.vmap(f, in_axes=(0, None))(xs, w))
    check(lambda f: fg.vmap(f)(xs, xs))
    check(lambda f: fg.vmap(fg.grad(f, (0, 1)), in_axes=(None, 0))(w, xs))
    check(lambda f: fg.grad(lambda w: fnp.sum(fg.vmap(lambda x: f(w, x))(xs)))(w))
    check(lambda f: fg.grad(lambda w: fnp.sum(fg.vmap(fg.grad(f, 1), in_axes=(None, 0))(w, xs)))(w))
    check(lambda f: fg.grad(lambda x: fg.grad(lambda w: f(w, x))(w))(0.4))
    check(lambda f: fg.grad(lambda x: fg.jvp(lambda w: f(w, x), (w,), (1.0,))[1])(0.4))
    check(lambda f: fg.vmap(lambda x: fg.jvp(lambda w: f(w, x), (w,), (1.0,))[1])(xs))
    check(lambda f: fg.jvp(lambda w: fg.grad(f, 1)(w, 0.4), (w,), (1.0,)))
    check(lambda f: fg.hessian(f, (0, 1))(w, 0.4))


# --------------------------------------------------------------------------------- trees, dtypes


def test_trees_in_every_place() -> None:
    @fg.checkpoint
    def f(layer, point, *, scale):
        return {"y": layer.weight * point.x * scale, "same": point, "n": fnp.argmax(layer.weight)}

    def loss(layer, point):
        out = f(layer, point, scale=2.0)
        assert out["n"].dtype == np.int64
        return fnp.sum(out["y"]) + out["same"].x

    layer, point = Layer(numbers(3), None), Point(2.0, {"unused": 1.0})
    expected = (Layer(np.full(3, 4.0), None), Point(2 * numbers(3).sum() + 1, {"unused": 0.0}))
    assert_same(fg.grad(loss, (0, 1))(layer, point), expected)


@pytest.mark.parametrize("empty", [None, (), {}, [None, {}]])
def test_results_without_leaves(empty: Any) -> None:
    def f(x):
        assert fg.checkpoint(lambda y: empty)(x) == empty
        return x

    assert_same(fg.grad(f)(2.0), 1.0)


@pytest.mark.parametrize("dtype", ["e", "f", "d", "F", "D"])
def test_dtypes(dtype: str) -> None:
    x = complex_numbers(3).astype(dtype) if dtype in "FD" else numbers(3).astype(dtype)
    grad = fg.grad(lambda x: fnp.sum(abs(fg.checkpoint(lambda y: y * y)(x)) ** 2))(x)
    assert_same(grad, 4 * x * abs(x) ** 2, rtol=1e-2)


def test_arguments_and_constants_as_results() -> None:
    def f(x, y):
        a, b, c = fg.checkpoint(lambda x: (x, 3.0, y))(x)
        return a * b + c * c

    assert_same(fg.grad(f, (0, 1))(2.0, 5.0), (3.0, 10.0))


def test_one_value_as_several_results() -> None:
    def f(x):
        a, b = fg.checkpoint(lambda x: (x * x,) * 2)(x)
        return a + 10 * b

    assert_same(fg.grad(f)(3.0), 66.0)


def test_arrays_count_as_they_were() -> None:
    scale = np.ones(3)
    _, pullback = fg.vjp(lambda x: fg.checkpoint(lambda x, s: x * s)(x, scale), numbers(3))
    scale[:] = np.nan
    assert_same(pullback(np.ones(3)), (np.ones(3),))


def test_a_pullback_can_be_called_many_times_and_under_vmap() -> None:
    def cube(x):
        return x**3

    _, pullback = fg.vjp(fg.checkpoint(cube), 2.0)
    for scale in (1.0, 2.0):
        assert_same(pullback(scale), (12.0 * scale,))
    assert_same(fg.vmap(pullback)(np.arange(3.0)), (12.0 * np.arange(3.0),))


def test_control_flow_inside() -> None:
    f = fg.checkpoint(lambda x: x * x if x > 0 else -x)
    assert_same((fg.grad(f)(3.0), fg.grad(f)(-3.0)), (6.0, -1.0))


def test_where_keeps_the_other_branch_out() -> None:
    f = fg.checkpoint(lambda x: fnp.where(x > 0, fnp.sqrt(x), 0.0))
    assert_same((fg.grad(f)(0.0), fg.grad(fg.grad(f))(0.0)), (0.0, 0.0))

    def g(x):
        return fnp.where(x > 0, fg.checkpoint(fnp.sqrt)(x), 0.0)

    assert_same((fg.grad(g)(4.0), fg.grad(g)(-1.0)), (0.25, 0.0))


# --------------------------------------------------------------------------------- errors


def test_an_error_inside_leaves_nothing_behind() -> None:
    def fails(x):
        raise KeyError("from inside")

    for _ in range(2):
        with pytest.raises(KeyError, match="from inside"):
            fg.grad(lambda x: fg.checkpoint(fails)(x * x))(1.0)
    assert_same(fg.grad(lambda x: fg.checkpoint(fnp.sin)(x))(0.0), 1.0)


def test_arguments_that_are_no_arrays_are_named() -> None:
    def f(x, options):
        return x

    with pytest.raises(LeafError, match=r"checkpoint: options\['mode'\]: .*got 'fast'"):
        fg.checkpoint(f)(1.0, {"mode": "fast"})
    with pytest.raises(LeafError, match=r"checkpoint: options: .*got 'fast'"):
        fg.checkpoint(f)(1.0, options="fast")


# --------------------------------------------------------------------------------- programs


def blocks(block: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The sum of what ten blocks in a row make of an array."""

    def loss(x):
        for _ in range(10):
            x = block(x)
        return fnp.sum(x)

    return loss


def most_alive(program: fg.Program) -> int:
    """The most bytes that results of equations take at a time, each until its last use."""
    specs = program.specs()
    given = len(specs) - sum(len(equation.results) for equation in program.equations)
    last = dict.fromkeys(program.outputs, len(program.equations))
    for position in reversed(range(len(program.equations))):
        for variable in program.equations[position].operands:
            last.setdefault(variable, position)
    alive = most = 0
    ends: dict[int, int] = {}
    variable = given
    for position, equation in enumerate(program.equations):
        for spec in equation.results:
            size = int(np.prod(spec.shape)) * spec.dtype.itemsize
            alive += size
            ends[last.get(variable, position)] = ends.get(last.get(variable, position), 0) + size
            variable += 1
        most = max(most, alive)
        alive -= ends.pop(position, 0)
    return most


def test_a_program_runs_blocks_again_and_keeps_less() -> None:
    x = fg.tensor(numbers(1000))
    plain = optimize(fg.program(fg.grad(blocks(layers)))(x))
    spared = optimize(fg.program(fg.grad(blocks(fg.checkpoint(layers))))(x))
    assert most_alive(spared) < 0.3 * most_alive(plain)
    # Nobody asks for the value: the last block runs once; the last step of each run again, whose
    # result is at hand already, gives its cosine only.
    sines = [equation.epoch for equation in spared.equations if equation.operation.name == "sin"]
    assert [sines.count(epoch) for epoch in range(11)] == [180] + [19] * 10
    eager = np.asarray(fg.grad(blocks(layers))(x))
    for program in (plain, spared):
        assert np.asarray(program(x)).tobytes() == eager.tobytes()


def test_within_one_run_repetitions_are_merged() -> None:
    def block(x):
        return fnp.sin(x * x) * fnp.sin(x * x)

    program = optimize(fg.program(fg.grad(fg.checkpoint(block)))(2.0))
    names = [equation.operation.name for equation in program.equations]
    assert (names.count("sin"), names.count("cos")) == (1, 1)
    assert_same(program(2.0), fg.grad(block)(2.0))


def test_every_run_has_an_epoch_of_its_own() -> None:
    block = fg.checkpoint(lambda x: fnp.sin(x) * x)
    program = fg.program(fg.grad(lambda x: block(block(x)) + x))(2.0)
    epochs = {e.epoch for e in program.equations if e.operation.name == "sin"}
    assert epochs == {0, 1, 2}
    assert program == fg.program(fg.grad(lambda x: block(block(x)) + x))(2.0)
    assert {e.epoch for e in optimize(program).equations} == {0, 1, 2}


def test_jit_of_a_checkpointed_function_is_what_it_is_without() -> None:
    x = fg.tensor(numbers(50))
    f = fg.grad(blocks(fg.checkpoint(lambda x: fg.checkpoint(layers)(x) * x)))
    jitted = fg.jit(f, exact=True)
    for _ in range(2):
        assert np.asarray(jitted(x)).tobytes() == np.asarray(f(x)).tobytes()


# -------------------------------------------------------------------------------- closures


@pytest.mark.parametrize(
    "transform", [fg.grad, lambda f: fg.jit(fg.grad(f)), lambda f: fg.grad(fg.jit(f))]
)
def test_a_function_made_in_a_loop_closes_over_what_the_names_stood_for(transform: Any) -> None:
    weights = numbers(4, 3, 3)

    def layer(weight: Any, x: Any) -> Any:
        return fnp.tanh(weight @ x)

    def network(wrap: Any) -> Any:
        def f(weights: Any, x: Any) -> Any:
            for i in range(4):

                def inner(x: Any, *, scale: float = 1.0 + i) -> Any:
                    return layer(weights[i] * scale, x)  # noqa: B023 - that is the point

                x = wrap(lambda x: inner(x) + i)(x)  # noqa: B023
            return fnp.sum(x**2)

        return f

    expected = fg.grad(network(lambda f: f))(weights, np.ones(3))
    assert_same(transform(network(fg.checkpoint))(weights, np.ones(3)), expected)


def test_recursion_and_writes_to_names_outside_stay_what_they_are() -> None:
    runs = 0

    def power(x: Any, count: int) -> Any:
        nonlocal runs
        runs += 1
        return x * power(x, count - 1) if count else 1.0

    f = fg.checkpoint(lambda x: power(x, 3))
    assert_same(fg.grad(lambda x: f(x))(2.0), 12.0)
    assert runs == 4


# ------------------------------------------------------------------ what was read is what counts


SCALE = 3.0


class Scaled:
    """A callable object, whose attribute may be set."""

    def __init__(self, scale: Any) -> None:
        self.scale = scale

    def __call__(self, x: Any) -> Any:
        return fnp.sin(x) * self.scale

    def method(self, x: Any) -> Any:
        return fnp.sin(x) * self.scale


def by_a_name() -> tuple[Any, Callable[[], None]]:
    scale = 3.0

    def change() -> None:
        nonlocal scale
        scale = 7.0

    return (lambda x: fnp.sin(x) * scale), change


def by_a_global_name() -> tuple[Any, Callable[[], None]]:
    def change() -> None:
        globals()["SCALE"] = 7.0

    globals()["SCALE"] = 3.0
    return (lambda x: fnp.sin(x) * SCALE), change


def by_an_array() -> tuple[Any, Callable[[], None]]:
    scale = np.array(3.0)
    return (lambda x: fnp.sin(x) * scale), lambda: scale.fill(7.0)


def by_a_list() -> tuple[Any, Callable[[], None]]:
    scales = [3.0]
    return (lambda x: fnp.sin(x) * scales[-1]), lambda: scales.append(7.0)


def by_a_path() -> tuple[Any, Callable[[], None]]:
    flags = {"sine": True}
    return (lambda x: 3.0 * fnp.sin(x) if flags["sine"] else 7.0 * x), flags.clear


def by_an_attribute() -> tuple[Any, Callable[[], None]]:
    scaled = Scaled(3.0)
    return scaled, lambda: setattr(scaled, "scale", 7.0)


def by_a_method() -> tuple[Any, Callable[[], None]]:
    scaled = Scaled(3.0)
    return scaled.method, lambda: setattr(scaled, "scale", 7.0)


def by_a_partial() -> tuple[Any, Callable[[], None]]:
    scale = np.array(3.0)
    return partial(lambda s, x: fnp.sin(x) * s, scale), lambda: scale.fill(7.0)


def by_a_default() -> tuple[Any, Callable[[], None]]:
    def f(x: Any, *, scale: float = 3.0) -> Any:
        return fnp.sin(x) * scale

    return f, lambda: setattr(f, "__kwdefaults__", {"scale": 7.0})


DOORS = {
    door.__name__: door
    for door in (
        by_a_name,
        by_a_global_name,
        by_an_array,
        by_a_list,
        by_a_path,
        by_an_attribute,
        by_a_method,
        by_a_partial,
        by_a_default,
    )
}


def rule(kind: Any) -> Callable[[Any], Any]:
    """A function with a true rule, which applies the function."""

    def with_rule(f: Any) -> Any:
        custom: Any = kind(lambda x: f(x))
        if kind is fg.custom_jvp:
            custom.defjvp(lambda p, t: (f(*p), fg.jvp(f, p, t)[1]))
        else:
            custom.defvjp(lambda x: (f(x), x), lambda x, ct: fg.vjp(f, x)[1](ct))
        return custom

    return with_rule


INSIDE: dict[str, Callable[[Any], Any]] = {
    "itself": lambda f: f,
    "jit": fg.jit,
    "program": lambda f: lambda x: fg.program(f)(x)(x),
    "checkpoint": fg.checkpoint,
    "a gradient": lambda f: lambda x: fg.value_and_grad(f)(x)[0],
    "a derivative": lambda f: lambda x: fg.jvp(f, (x,), (0.0,))[0],
    "a batch": lambda f: lambda x: fg.vmap(f)(fnp.stack([x, x]))[1],
    "custom_jvp": rule(fg.custom_jvp),
    "custom_vjp": rule(fg.custom_vjp),
}


@together("inside", INSIDE)
@together("door", DOORS)
def test_what_runs_again_is_what_ran(door: str, inside: str) -> None:
    """Changed between the call and the pullback, nothing that was read is seen anew."""

    def check(of: Callable[[Any], tuple[Any, Callable[[Any], Any]]], expected: float) -> None:
        f, change = DOORS[door]()
        out, later = of(fg.checkpoint(INSIDE[inside](f)))
        change()
        assert_same(out, 3.0 * np.sin(0.5))
        assert_same(later(1.0), expected)

    slope, curvature = 3.0 * np.cos(0.5), -3.0 * np.sin(0.5)
    check(lambda f: fg.linearize(f, 0.5), slope)

    def pulled(f: Any) -> Any:
        out, pullback = fg.vjp(f, 0.5)
        return out, lambda ct: pullback(ct)[0]

    check(pulled, slope)

    def twice(f: Any) -> Any:
        (out, _), pullback = fg.vjp(lambda x: fg.value_and_grad(f)(x), 0.5)
        return out, lambda ct: pullback((0.0, ct))[0]

    check(twice, curvature)


@pytest.mark.slow
@together("inside", INSIDE)
@pytest.mark.parametrize("door", DOORS)
def test_a_program_is_what_was_staged(door: str, inside: str) -> None:
    """Changed between staging and the call, nothing that was read is seen anew."""
    f, change = DOORS[door]()
    staged = fg.program(INSIDE[inside](f))(0.5)
    change()
    value, slope = 3.0 * np.sin(0.5), 3.0 * np.cos(0.5)
    assert_same(staged(0.5), value)
    for of in (fg.grad, fg.jacfwd):
        for p in (staged, fg.jit(staged), fg.checkpoint(staged), fg.program(staged)(0.5)):
            assert_same(of(p)(0.5), slope)
        assert_same(of(of(staged))(0.5), -value)
        assert_same(fg.jit(of(staged))(0.5), slope)
        assert_same(fg.vmap(of(staged))(np.full(2, 0.5)), np.full(2, slope))


def test_side_effects_happen_once() -> None:
    lines: list[str] = []

    @fg.checkpoint
    def f(x: Any) -> Any:
        lines.append("called")
        return x * x

    assert_same(fg.grad(lambda x: f(x) + f(2.0 * x))(3.0), 30.0)
    assert len(lines) == 2


@pytest.mark.parametrize("made", [lambda f, k: fg.jit(f), lambda f, k: partial(f), lambda f, k: f])
def test_a_loop_at_any_level_keeps_its_numbers(made: Any) -> None:
    def total(x: Any) -> Any:
        found = 0.0
        for k in (1.0, 2.0, 3.0):
            found = found + fg.checkpoint(made(lambda x: x * x * k, k))(x)  # noqa: B023
        return found

    every: list[Any] = [
        fg.grad,
        fg.jacfwd,
        lambda f: fg.jit(fg.grad(f)),
        lambda f: fg.grad(fg.jit(f)),
    ]
    for of in every:
        assert_same(of(total)(1.0), 12.0)
    assert_same(fg.grad(fg.grad(total))(1.0), 12.0)


# ------------------------------------------------------------------ numbers that are looked at


def test_numbers_may_be_looked_at_as_without_a_checkpoint() -> None:
    def f(x: Any) -> Any:
        steps = int(x[0]) if x[0] > 0 else 1
        fixed = fg.stop_gradient(x)
        order = np.argsort(np.asarray(fixed))  # all its numbers
        return fnp.sum((x * float(fixed[1]))[order] ** 2) * steps * float(fnp.floor(x[2]))

    x = np.array([2.5, 2.0, 3.5])
    for inner in (f, fg.checkpoint(f)):
        assert_same(fg.grad(fg.checkpoint(inner))(x), fg.grad(f)(x))


@together("look", [float, np.asarray, lambda t: t.item(), lambda t: t.tolist()])
@together("nested", [False, True])
def test_a_number_that_is_differentiated_does_not_get_lost(look: Any, nested: bool) -> None:
    def f(x: Any, y: Any) -> Any:
        return y * np.max(look(x * x))

    g = fg.checkpoint(fg.checkpoint(f)) if nested else fg.checkpoint(f)
    assert_same(fg.grad(g, 1)(3.0, 2.0), 9.0)
    with pytest.raises(TracerError, match="is being differentiated"):
        fg.grad(g)(3.0, 2.0)
    with pytest.raises(TracerError, match="is being differentiated"):
        fg.grad(lambda x: fg.checkpoint(lambda y: f(x, y))(2.0))(3.0)


# ------------------------------------------------------------------ within staging


@pytest.mark.parametrize("wrap", [fg.jit, lambda f: lambda x: fg.program(f)(x)(x)])
def test_what_a_staged_checkpoint_closes_over_is_differentiated(wrap: Any) -> None:
    def inside(y: Any) -> Any:
        return wrap(fg.checkpoint(lambda x: x * x * y))(fg.tensor(2.0))

    def twice(y: Any) -> Any:
        return wrap(fg.checkpoint(lambda x: fg.checkpoint(lambda z: z * y * y)(x)))(y) * y

    def plain(y: Any) -> Any:
        return 4.0 * y + y**4 + y * y

    f = lambda y: inside(y) + twice(y) + y * y  # noqa: E731
    ys = numbers(3)
    every: list[Callable[[Any], Any]] = [
        lambda f: f(3.0),
        lambda f: fg.grad(f)(3.0),
        lambda f: fg.jvp(f, (3.0,), (1.0,)),
        lambda f: fg.vmap(f)(ys),
        lambda f: fg.vmap(fg.grad(f))(ys),
        lambda f: fg.grad(fg.grad(f))(3.0),
        lambda f: fg.hvp(f, (3.0,), (1.0,)),
        lambda f: fg.linearize(f, 3.0)[1](1.0),
        lambda f: fg.grad(fg.grad(fg.grad(f)))(3.0),
        lambda f: fg.jit(fg.grad(fg.grad(f)))(3.0),
        lambda f: fg.grad(fg.jit(f))(3.0),
        lambda f: fg.grad(lambda ys: fnp.sum(fg.vmap(f)(ys)))(ys),
    ]
    for of in every:
        assert_same(of(f), fg.tree.map(np.asarray, of(plain)))


def test_a_program_of_a_derivative_of_a_checkpoint_is_linearized() -> None:
    def sine(x: Any) -> Any:
        return fnp.sin(x) * x

    def f(x: Any) -> Any:
        return fg.jvp(fg.checkpoint(sine), (x,), (1.0,))[1]

    def staged(x: Any) -> Any:
        return fg.program(f)(x)(x)

    every: list[Callable[[Any], Any]] = [
        lambda f: fg.linearize(f, 0.5)[1](1.0),
        lambda f: fg.grad(f)(0.5),
        lambda f: fg.grad(fg.grad(f))(0.5),
        lambda f: fg.vmap(fg.grad(f))(numbers(3)),
    ]
    for of in every:
        assert_same(of(staged), np.asarray(of(f)))


@pytest.mark.parametrize("around", [lambda f: f, fg.checkpoint, fg.jit])
def test_a_checkpoint_within_a_rule_within_a_checkpoint_has_second_derivatives(around):
    def inner(x):
        return fg.checkpoint(lambda y: y * y)(x)

    @fg.custom_vjp
    def clipped(x):
        return inner(x)

    def backward(x, ct):
        return fg.vjp(inner, x)[1](fnp.where(abs(ct) > 2.5, 0.25 * ct, ct))

    clipped.defvjp(lambda x: (inner(x), x), backward)
    f = around(lambda x: fnp.sum(clipped(x) * x))
    x = fg.tensor([1.0, 2.0, 3.0])  # the third cotangent is clipped: 3 x² becomes 1.5 x²
    expected = [6.0, 12.0, 9.0]
    assert np.allclose(fg.hvp(f, (x,), (fnp.ones(3),)), expected)
    assert np.allclose(fg.jacrev(fg.grad(f))(x), np.diag(expected))


@fg.custom_vjp
def damped(x):
    return x * 1.0


damped.defvjp(lambda x: (x * 1.0, None), lambda _, ct: (0.5 * ct,))

LAYERS: dict[str, Callable[[Any], Any]] = {
    "checkpoint": fg.checkpoint,
    "cond": lambda f: lambda x: fg.cond(x > 1.0, lambda y: y, lambda y: y + f(y), x),
    "vmap": lambda f: lambda x: fg.vmap(lambda y: f(y) * x)(fnp.stack([x, 2.0 * x])).sum(),
    "vmap of nothing": lambda f: lambda x: fg.vmap(lambda y: f(x) * y)(np.array([0.3, 0.4])).sum(),
}


@pytest.mark.slow
@together("names", list(permutations(LAYERS, 3)), ids=", ".join)
@together("leaf", [damped, lambda x: fnp.linalg.inv(x[None, None])[0, 0]])
def test_examples_choose_branches_within_checkpoints_and_around_them(
    leaf: Callable[[Any], Any], names: tuple[str, ...]
) -> None:
    f = leaf
    for name in names:
        f = LAYERS[name](f)
    xs = np.array([0.4, 0.9, 1.5])
    expected = np.stack([np.asarray(fg.grad(f)(x)) for x in xs])
    assert_same(fg.vmap(fg.grad(f))(xs), expected)
    assert_same(fg.jit(fg.vmap(fg.grad(f)))(xs), expected)
    assert_same(fg.grad(lambda xs: fnp.sum(fg.vmap(f)(xs)))(xs), expected)


def fixed(f: Callable[..., Any], a: Any) -> Any:
    """The fixed point of cos(a x), from iterations of a function that may be checkpointed."""
    return fg.fixed_point(f, 1.0, a)


def summed(f: Callable[..., Any], a: Any) -> Any:
    """Four steps of x = cos(a x), in a loop of known length."""
    return fg.scan(lambda x, _: (f(x, a), x), 1.0, length=4)[0]


def repeated(f: Callable[..., Any], a: Any) -> Any:
    """The same steps, in a loop whose length depends on the data."""
    return fg.while_loop(lambda s: s[1] < 4, lambda s: (f(s[0], a), s[1] + 1), (1.0, 0))[0]


def chosen(f: Callable[..., Any], a: Any) -> Any:
    """A branch whose predicate depends on the data."""
    return fg.cond(a > 0.0, lambda x: f(f(x, a), a), lambda x: x, 1.0 + 0.0 * a)


MODES = {
    "grad": fg.grad,
    "grad in jit": lambda f: fg.jit(fg.grad(f)),
    "grad of jit": lambda f: fg.grad(fg.jit(f)),
    "grad of program": lambda f: lambda a: fg.grad(fg.program(f)(a))(a),
    "vmap": lambda f: lambda a: fg.vmap(fg.grad(f))(fnp.stack([a, 2.0 * a]))[0],
    "grad of vmap": lambda f: fg.grad(lambda a: fg.vmap(f)(fnp.stack([a, a]))[0]),
}


@pytest.mark.slow
@together("mode", MODES.values(), ids=MODES)
@together("inside", [fixed, summed, repeated, chosen])
def test_a_checkpoint_may_hold_a_loop_or_a_solution_that_holds_a_checkpoint(
    inside: Any, mode: Any
) -> None:
    """A loop in it runs on numbers that no transformation follows; those count as such."""

    def cosine(x: Any, a: Any) -> Any:
        return fnp.cos(a * x)

    plain = fg.grad(lambda a: inside(cosine, a))(0.8)
    assert plain != 0.0
    again = mode(lambda a: fg.checkpoint(lambda a: inside(fg.checkpoint(cosine), a))(a))
    np.testing.assert_allclose(again(fg.tensor(0.8)), plain, rtol=1e-12)
    closing = mode(
        lambda a: fg.checkpoint(lambda: inside(fg.checkpoint(lambda x, _: cosine(x, a)), a))()
    )
    np.testing.assert_allclose(closing(fg.tensor(0.8)), plain, rtol=1e-12)

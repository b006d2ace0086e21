"""checkpoint(save=): named values are kept, and what only leads to them is not computed again."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._passes.pipeline import optimize
from funcgrad.errors import DifferentiationError, TracerError
from funcgrad.extend import Trace, Tracer, begin_level, bind
from tests.together import together
from tests.transforms.support import assert_same, numbers
from tests.transforms.test_checkpoint import INSIDE, compositions, layers, peak


def named(x: Any) -> Any:
    """Two named values, one expensive to compute, and an elementwise function of each."""
    h = fg.probe(fnp.exp(x) * x, "h")
    return fnp.tanh(fg.probe(fnp.sin(h) + x, "s")) * h


SAVES = [("h",), ("s",), ("h", "s")]


@pytest.mark.slow
@together("name", compositions())
@together("save", SAVES, ids=str)
def test_with_kept_values_every_composition_is_as_without(name: str, save: tuple[str]) -> None:
    of = compositions()[name]
    expected = fg.tree.map(np.asarray, of(named))
    assert_same(of(fg.checkpoint(named, save=save)), expected)
    assert_same(of(lambda x: fg.checkpoint(lambda: named(x), save=save)()), expected)
    assert_same(of(lambda x: fg.checkpoint(fg.checkpoint(named), save=save)(x)), expected)
    assert_same(of(fg.checkpoint(fg.checkpoint(named, save=save))), expected)
    assert_same(of(fg.checkpoint(fg.jit(named), save=save)), expected)
    assert_same(of(fg.jit(fg.checkpoint(named, save=save))), expected)
    assert_same(fg.jit(lambda: of(fg.checkpoint(named, save=save)))(), expected)


class Counter(Trace):
    """Counts the operations on values that depend on an argument."""

    title = "the counter"
    has_numbers = True

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self.counts: dict[str, int] = {}

    def process(self, primitive: Any, args: tuple[Any, ...], params: Any) -> Any:
        self.counts[primitive.name] = self.counts.get(primitive.name, 0) + 1
        return Tracer.around(self, bind(primitive, tuple(map(self.inner, args)), params))


def operations(f: Callable[[Any], Any], x: Any) -> dict[str, int]:
    with begin_level() as level:
        counter = Counter(level)
        f(Tracer.around(counter, x))
    return counter.counts


def layer(w: Any, x: Any) -> Any:
    hidden = fg.probe(w @ x, "product")
    return fnp.sin(fg.probe(w.T @ fnp.tanh(hidden), "back")) + x


def products(save: tuple[str, ...] | None, how: Callable[[Any], Any] = lambda f: f) -> int:
    """The products of matrices in a gradient through three layers."""
    block = layer if save is None else fg.checkpoint(layer, save=save)

    def loss(w: Any) -> Any:
        x: Any = np.ones(3)
        for _ in range(3):
            x = how(block)(w, x)
        return fnp.sum(x)

    return operations(fg.grad(loss), numbers(3, 3))["matmul"]


def in_a_batch(block: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda w, x: fg.vmap(block, in_axes=(None, 0))(w, fnp.stack([x, x]))[0]


@pytest.mark.parametrize("how", [lambda f: f, in_a_batch, fg.checkpoint])
def test_what_leads_to_kept_values_only_is_not_computed_again(how: Any) -> None:
    plain = products(None, in_a_batch if how is in_a_batch else lambda f: f)
    again = 6 if how is fg.checkpoint else 0  # by the checkpoint around
    assert products(("product", "back"), how) == plain + again
    assert products(("product",), how) == products(("back",), how) == plain + 3 + again
    assert products((), how) == plain + 6 + again


def test_a_program_computes_kept_values_once() -> None:
    def count(f: Any) -> int:
        program = optimize(fg.program(fg.value_and_grad(f))(numbers(3, 3)))
        return [equation.operation.name for equation in program.equations].count("matmul")

    def loss(block: Any) -> Any:
        return lambda w: fnp.sum(block(w, block(w, np.ones(3))))

    plain = count(loss(layer))
    kept = fg.checkpoint(layer, save=("product", "back"))
    assert count(loss(kept)) == plain
    assert count(loss(lambda w, x: fg.jit(kept)(w, x))) == plain
    assert count(loss(fg.checkpoint(layer, save=("product",)))) == plain + 2
    assert count(loss(fg.checkpoint(layer))) == plain + 4


def test_a_loop_over_checkpointed_steps_stacks_the_kept_values() -> None:
    def loss(step: Any) -> Any:
        def f(w: Any) -> Any:
            return fnp.sum(fg.scan(lambda x, _: (step(w, x), None), np.ones(3), length=5)[0])

        return f

    w = numbers(3, 3)
    expected = np.asarray(fg.grad(loss(layer))(w))

    def steps_products(step: Any) -> int:
        staged = optimize(fg.program(fg.grad(loss(step)))(w))
        text = str(staged)
        assert_same(staged(w), expected)
        return text.count("matmul")

    counts = [
        steps_products(step)
        for step in (
            layer,
            fg.checkpoint(layer, save=("product", "back")),
            fg.checkpoint(layer, save=("product",)),
            fg.checkpoint(layer),
        )
    ]
    assert [count - counts[0] for count in counts] == [0, 0, 1, 2]
    for save in ((), ("product",), ("product", "back")):
        kept = fg.checkpoint(layer, save=save)
        assert_same(fg.grad(loss(kept))(w), expected)
        assert_same(fg.jit(fg.grad(loss(kept)))(w), expected)
        assert_same(fg.grad(fg.jit(loss(kept)))(w), expected)


@pytest.mark.slow
def test_memory_is_that_of_the_kept_values() -> None:
    x = numbers(20_000)

    def block(x: Any) -> Any:
        return layers(fg.probe(fnp.sin(layers(x, 10)), "middle"), 10)

    def loss(block: Any) -> Any:
        return lambda x: fnp.sum(block(block(block(block(block(x))))))

    remembered = peak(lambda: fg.grad(loss(block))(x))
    spared = peak(lambda: fg.grad(loss(fg.checkpoint(block)))(x))
    kept = peak(lambda: fg.grad(loss(fg.checkpoint(block, save=("middle",))))(x))
    assert kept < 0.5 * remembered
    assert kept < spared + 6 * x.nbytes


def test_kept_values_of_any_kind() -> None:
    def f(x: Any) -> Any:
        order = fg.probe(fnp.argsort(x), "order")  # integers
        fg.probe(x * 2.0, "unused")
        fg.probe(np.arange(3.0), "constant")
        fg.probe(x, "argument")
        (low, high) = (fg.probe(part, "parts") for part in (x[:1], x[1:]))  # twice
        return fnp.sum(x[order] * np.arange(3.0)) * fnp.sum(low) * fnp.sum(high**2)

    x = numbers(3)
    expected = fg.grad(f)(x)
    save = ["order", "unused", "constant", "argument", "parts"]
    assert_same(fg.grad(fg.checkpoint(f, save=save))(x), np.asarray(expected))
    assert_same(fg.jit(fg.grad(fg.checkpoint(f, save=save)))(x), np.asarray(expected))
    assert_same(fg.grad(fg.checkpoint(lambda x: f(x), save=["order"]))(x), np.asarray(expected))


def test_kept_and_probed_values_may_be_the_same() -> None:
    kept = fg.checkpoint(named, save=("h",))
    expected = fg.tree.map(np.asarray, fg.grad(named, probes=("h", "s"))(0.7))
    assert_same(fg.grad(kept, probes=("h", "s"))(0.7), expected)


def test_long_functions_of_kept_values_need_no_recursion() -> None:
    def f(x: Any) -> Any:
        fg.probe(x, "x")
        for _ in range(3000):
            x = fnp.sin(x)
        return x

    assert_same(fg.grad(fg.checkpoint(f, save=("x",)))(1.0), np.asarray(fg.grad(f)(1.0)))


def test_kept_values_before_loops_and_rules() -> None:
    def f(x: Any) -> Any:
        h = fg.probe(fnp.sin(x), "h")
        y = fg.fori_loop(0, 3, lambda _, y: fnp.cos(y * h), h)
        return INSIDE["custom_vjp"](lambda y: y * y)(y) + fg.cond(h > 0, fnp.exp, fnp.sin, h)

    expected = np.asarray(fg.grad(f)(0.7))
    kept = fg.checkpoint(f, save=("h",))
    assert_same(fg.grad(kept)(0.7), expected)
    assert_same(fg.jit(fg.grad(kept))(0.7), expected)
    assert_same(fg.vmap(fg.grad(kept))(np.full(2, 0.7)), np.full(2, expected))
    assert_same(fg.jit(fg.vmap(fg.grad(kept)))(np.full(2, 0.7)), np.full(2, expected))
    assert_same(fg.grad(fg.grad(kept))(0.7), np.asarray(fg.grad(fg.grad(f))(0.7)))


def test_a_program_with_kept_values_can_be_saved() -> None:
    staged = fg.program(fg.checkpoint(named, save=("h",)))(0.7)
    loaded = fg.Program.from_json(staged.to_json())
    assert loaded == staged
    assert_same(fg.grad(loaded)(0.7), np.asarray(fg.grad(named)(0.7)))


@pytest.mark.parametrize("mode", [lambda f: f, fg.grad, fg.jit, lambda f: fg.jit(fg.grad(f))])
def test_names_that_no_value_has_are_told(mode: Any) -> None:
    wrong = mode(fg.checkpoint(named, save=("h", "q")))
    with pytest.raises(DifferentiationError, match=r"names no value 'q'; it names \['h'\]"):
        wrong(0.7)
    with pytest.raises(DifferentiationError, match=r"save has to be a tuple of names"):
        fg.checkpoint(named, save="h")


def test_a_name_within_a_loop_is_refused() -> None:
    def f(x: Any) -> Any:
        return fg.scan(lambda x, _: (fg.probe(fnp.sin(x), "h"), None), x, length=3)[0]

    with pytest.raises(TracerError, match="Name the result of the loop"):
        fg.jit(fg.grad(fg.checkpoint(f, save=("h",))))(0.7)


def test_a_pullback_with_kept_values_runs_in_other_transformations() -> None:
    cts = numbers(4)
    _, plain = fg.vjp(named, np.ones(4) * 0.3)
    _, pullback = fg.vjp(fg.checkpoint(named, save=("h",)), np.ones(4) * 0.3)
    expected = np.asarray(plain(cts)[0])
    assert_same(fg.jit(pullback)(cts)[0], expected)
    assert_same(fg.vmap(pullback)(np.stack([cts, cts]))[0][1], expected)
    assert_same(fg.jit(fg.vmap(pullback))(np.stack([cts, cts]))[0][1], expected)
    assert_same(fg.jvp(lambda ct: pullback(ct)[0], (cts,), (cts,)), (expected, expected))
    assert_same(fg.grad(lambda ct: fnp.sum(pullback(ct)[0]))(cts), expected / cts)
    assert_same(fg.linearize(fg.checkpoint(named, save=("h",)), 0.3)[1](1.0), fg.grad(named)(0.3))

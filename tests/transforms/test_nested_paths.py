"""Batches in batches whose answers form many patterns: one run for each path, as for one batch."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._primitives.logic import logical_not
from funcgrad._transforms import masked_paths, paths
from funcgrad.errors import BatchError
from tests.transforms.support import assert_same, halved, numbers

XS = numbers(8, 6) * 2
XS[0, 0] = 0.0


def root(x: Any) -> Any:
    return fnp.sqrt(x) if x > 0 else x * 2


def whole(x: Any) -> Any:
    return x * int(x) if x > 0.3 else 2.0 - x


def scanned(x: Any) -> Any:
    step = lambda c, k: (fnp.sin(c * k) if c > 0.5 else c + x, c)  # noqa: E731
    return fg.scan(step, x, fnp.arange(1.0, 4.0))[0]


def guarded(x: Any) -> Any:
    try:
        if x < 0:
            raise ValueError(x)
        return x * x
    except ValueError:
        return -3 * x


def factored(x: Any) -> Any:
    try:
        return fnp.linalg.cholesky(x * fnp.eye(2))[0, 0] if x > -1 else x
    except np.linalg.LinAlgError:
        return x * 7


def swallowing(x: Any) -> Any:
    try:
        return fnp.sin(x) if x > 0 else x
    except:  # noqa: E722 - as users write it
        return 0.0 * x


def conditional(x: Any) -> Any:
    return fg.cond(x < 1, lambda x: x * x, fnp.log, x) if x > 0 else fnp.exp(x)


def looped(x: Any) -> Any:
    return fg.while_loop(lambda c: c < 3, lambda c: c * 2 + 1, x) if x > 0 else x


def checkpointed(x: Any) -> Any:
    return fg.checkpoint(lambda x: fnp.sin(x) if x > 0 else x**3)(x)


def ruled(x: Any) -> Any:
    f = fg.custom_vjp(lambda x: x * x if x > 0 else x)
    f.defvjp(lambda x: (f(x), x), lambda x, ct: (ct * 2 * x if x > 0 else ct,))
    return f(x)


def jitted(x: Any) -> Any:
    return fg.jit(lambda x: fnp.sqrt(x) if x > 0 else x * 2, backend="numpy")(x)


def sorted_numbers(x: Any) -> Any:
    return sorted([x, x * x, 2.0 - x])[1]


FUNCTIONS = [
    *(root, halved, whole, scanned, guarded, factored, swallowing, conditional, looped),
    *(checkpointed, ruled, jitted, sorted_numbers),
]


def each(f: Callable[..., Any], batch: Any) -> np.ndarray[Any, Any]:
    """The plain loop over numbers."""
    results = [np.asarray(f(fg.tensor(x))) for x in np.asarray(batch).reshape(-1)]
    return np.array(results).reshape(np.shape(batch))


def total(f: Callable[..., Any]) -> Callable[[Any], Any]:
    return lambda xs: fnp.sum(fg.vmap(f)(xs))


def product_of_sums(f: Callable[..., Any]) -> Callable[[Any], Any]:
    """A function of rows, each with a batch, whose second derivatives couple its numbers."""
    return lambda xs: fnp.sum(fg.vmap(f)(xs)) * fnp.sum(xs)


@pytest.mark.slow
@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_nested_batches_equal_the_loop(f: Any) -> None:
    values, slopes = each(f, XS), each(fg.grad(f), XS)
    same = partial(np.testing.assert_allclose, rtol=1e-12, atol=1e-14)
    out = fg.vmap(fg.vmap(f))(XS)
    same(out, values)
    assert out.dtype == values.dtype
    same(fg.vmap(fg.vmap(f, in_axes=0), in_axes=1, out_axes=1)(XS), values)
    same(fg.vmap(fg.vmap(fg.vmap(f)))(XS.reshape(4, 2, 6)).reshape(8, 6), values)
    same(fg.vmap(fg.vmap(fg.grad(f)))(XS), slopes)
    same(fg.vmap(fg.grad(total(f)))(XS), slopes)
    same(fg.grad(total(total(f)))(XS), slopes)
    same(fg.jvp(fg.vmap(fg.vmap(f)), (XS,), (np.ones_like(XS),))[1], slopes)
    same(fg.vmap(lambda xs: fg.jvp(fg.vmap(f), (xs,), (np.ones(6),))[1])(XS), slopes)
    rows = [np.asarray(fg.hessian(lambda xs: sum(map(f, xs)) * fnp.sum(xs))(x)) for x in XS]
    same(fg.vmap(fg.hessian(product_of_sums(f)))(XS), rows)
    same(fg.vmap(fg.jacrev(fg.grad(product_of_sums(f))))(XS), rows)


def test_each_path_takes_one_run() -> None:
    runs: list[Any] = []

    def f(x: Any) -> Any:
        runs.append(x.shape)
        return halved(x)

    batch = np.abs(numbers(20, 30)) * 3
    count = len({int(np.ceil(np.log2(x))) if x > 1 else 0 for x in batch.reshape(-1)})
    for g in (
        fg.vmap(fg.vmap(f)),
        fg.vmap(fg.vmap(fg.grad(f))),
        fg.vmap(fg.grad(total(f))),
        fg.grad(total(total(f))),
        lambda xs: fg.vmap(fg.vmap(fg.vmap(f)))(xs.reshape(5, 4, 30)),
    ):
        runs.clear()
        g(batch)
        assert len(runs) == count


def test_few_patterns_divide_the_batch_around() -> None:
    report = fg.debug.paths(fg.vmap(root))(np.array([[1.0, 2.0], [-1.0, -2.0], [3.0, 1.0]]))
    assert len(report) == 2
    assert len(fg.debug.paths(fg.vmap(root))(np.abs(XS) * np.sign(XS))) == 1


def test_values_of_the_batches_around() -> None:
    def outer(row: Any, scale: Any) -> Any:
        inner = lambda x: scale * x if x > 0 else (x - scale if scale > 0 else x + scale)  # noqa: E731
        return fg.vmap(inner)(row)

    scales = np.array([1.0, -1, 2, -2, 3, -3, 4, -4])
    expected = np.where(XS > 0, scales[:, None] * XS, XS - np.abs(scales)[:, None])
    assert_same(fg.vmap(outer)(XS, scales), expected)
    slopes = fg.vmap(fg.grad(lambda row, scale: outer(row, scale).sum(), argnums=1))(XS, scales)
    plain = np.where(XS > 0, XS, -np.sign(scales)[:, None]).sum(1)
    assert_same(slopes, plain)


def test_exceptions_reach_the_rows_that_raise_them() -> None:
    def positive(x: Any) -> Any:
        if x < 0:
            raise ValueError("negative")
        return x * 2

    def row(xs: Any) -> Any:
        try:
            return fg.vmap(positive)(xs)
        except ValueError:
            return xs * 0

    some = XS.copy()
    some[[1, 4]] = np.abs(some[[1, 4]])
    assert_same(fg.vmap(row)(some), np.where(np.min(some, 1, keepdims=True) < 0, 0.0, some * 2))
    with pytest.raises(ValueError, match="negative") as raised:
        fg.vmap(fg.vmap(positive))(XS)
    assert any("example" in note for note in raised.value.__notes__)
    with np.errstate(all="raise"):  # no number may go along a path that it does not take
        assert_same(fg.vmap(fg.vmap(root))(XS), each(root, XS))


def test_results_have_to_fit() -> None:
    joined = fg.vmap(fg.vmap(lambda x: np.float32(0.5) if x > 1 else 3 if x > 0 else np.int8(1)))
    assert_same(joined(XS), np.where(XS > 1, 0.5, np.where(XS > 0, 3, 1)).astype("f4"))
    with pytest.raises(BatchError, match="one structure"):
        fg.vmap(fg.vmap(lambda x: (x, x) if x > 0 else x))(XS)
    with pytest.raises(BatchError, match="one shape"):
        fg.vmap(fg.vmap(lambda x: fnp.stack([x, x]) if x > 0 else x))(XS)


def test_random_numbers_and_probes() -> None:
    def drawn(key: Any) -> Any:
        return fg.random.normal(key, ()) if fg.random.uniform(key, ()) > 0.4 else 0.0

    keys = fg.random.split(fg.random.key(0), 48)
    single = fg.vmap(drawn)(keys)
    assert_same(fg.vmap(fg.vmap(drawn))(keys.reshape(8, 6, 2)), single.reshape(8, 6))

    def marked(x: Any) -> Any:
        return fg.probe(x * 2, "h") ** 2 if x > 0 else x

    _, cotangents = fg.grad(total(total(marked)), probes=("h",))(XS)
    assert_same(cotangents["h"], np.where(XS > 0, 4 * XS, 0.0))


def unmasked(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda mask, new, old: new


def negated(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda mask: function(logical_not(mask))


def one_sided(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, follow, data, use: np.bool_(True)


def inverse(runs: list[Any], m: Any) -> Any:
    runs.append(None)
    return fnp.linalg.inv(m)[0, 0] if m[0, 0] > 0 else m[0, 0] * 3


def check() -> None:
    """The results, and that the two paths took one run each."""
    runs: list[Any] = []
    matrices = np.where(XS > 0, XS, 0.0)[..., None, None] * np.eye(2)
    expected = np.array([[1 / x if x > 0 else 0.0 for x in row] for row in XS])
    assert_same(fg.vmap(fg.vmap(partial(inverse, runs)))(matrices), expected)
    assert len(runs) == 2


@pytest.mark.parametrize(
    ("module", "name", "mistake"),
    [
        (paths, "chosen_examples", unmasked),
        (masked_paths, "with_active", negated),
        (masked_paths.MaskedPath, "choose", one_sided),
    ],
)
def test_a_mistake_is_seen(
    module: Any, name: str, mistake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    check()
    monkeypatch.setattr(module, name, mistake(getattr(module, name)))
    with pytest.raises(AssertionError):
        check()

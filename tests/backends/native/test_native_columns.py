"""Reductions of rows, whose totals lie in registers: any shapes, dtypes, processors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._backends.native import nest_forms
from tests.backends.native.other_machines import OTHERS, machine_code_of
from tests.together import together

pytest.importorskip("llvmlite")


def special(shape: tuple[int, ...], kind: str, seed: int = 0) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape) * 4
    if np.dtype(kind).kind == "f":
        x = np.where(rng.random(shape) < 0.05, rng.choice([np.nan, np.inf, -np.inf], shape), x)
    return x.astype(kind)


SHAPES = [(7, 5), (3, 8), (4, 9), (6, 16), (5, 33), (9, 64), (3, 100), (2, 300), (70, 12)]


@together("shape", SHAPES, ids=str)
def test_extremes_of_sums_have_numpys_bits(shape: tuple[int, int]) -> None:
    def f(s: Any, x: Any) -> Any:
        table = s[:, None] + x
        return fnp.max(table, axis=0), fnp.min(x, axis=0), table[0], fnp.argmax(table, axis=0)

    for kind in "fdi":
        s, x = special(shape[:1], kind, 1), special(shape, kind)
        with np.errstate(all="ignore"):
            wanted = f(s, x)
        for out, expected in zip(machine_code_of(f, s, x), wanted, strict=True):
            assert out.dtype == expected.dtype
            np.testing.assert_array_equal(out, expected)


@together("shape", SHAPES[1::2], ids=str)
def test_sums_and_stores_beside_them(shape: tuple[int, int]) -> None:
    def f(s: Any, x: Any) -> Any:
        rest = (s[:, None] - x) ** 2
        return rest, fnp.sum(rest, axis=0), fnp.sum(x, axis=0), fnp.prod(fnp.sign(rest + 1), axis=0)

    def g(s: Any, x: Any) -> Any:
        batch = fnp.stack([x, 2 * x, x - s[:, None]])
        return fnp.sum(batch * batch, axis=1), fnp.max(fnp.sum(batch, axis=0), axis=0)

    rng = np.random.default_rng(3)
    for kind, rtol in (("f", 3e-7), ("d", 1e-14), ("e", 4e-3), ("l", 0), ("D", 1e-14)):
        s, x = (rng.standard_normal(shape[:1]) * 3).astype(kind), rng.standard_normal(shape)
        x = x.astype(kind)
        for h in (f, g) if kind != "D" else (lambda s, x: fnp.sum(s[:, None] * x, axis=0),):
            wide = "D" if kind == "D" else "d" if kind in "fe" else kind
            expected = h(s.astype(wide), x.astype(wide))
            for out, value in zip(machine_code_of(h, s, x), fg.tree.leaves(expected), strict=True):
                scale = np.max(np.abs(value)) if np.size(value) else 1
                np.testing.assert_allclose(out, value, rtol=rtol, atol=rtol * float(scale))


@pytest.mark.parametrize("machine", OTHERS, ids=str)
def test_columns_on_other_processors(machine: Any) -> None:
    def f(s: Any, x: Any) -> Any:
        return fnp.max(s[:, None] + x, axis=0), fnp.sum(s[:, None] * x, axis=0)

    for shape in ((5, 3), (4, 9), (3, 50), (6, 300)):
        s, x = np.arange(shape[0]) / 2.0, np.sin(np.arange(np.prod(shape))).reshape(shape)
        top, total = machine_code_of(f, s, x, machine=machine)
        np.testing.assert_array_equal(top, np.max(s[:, None] + x, axis=0))
        np.testing.assert_allclose(total, s @ x, rtol=1e-13, atol=1e-14)


def test_viterbis_steps_in_a_loop_a_batch_and_a_gradient() -> None:
    rng = np.random.default_rng(5)
    s, table, seen = rng.standard_normal(12), rng.standard_normal((12, 12)), np.ones((6, 12))

    def best(s: Any, table: Any) -> Any:
        step = lambda s, e: (fnp.max(s[:, None] + table, axis=0) + e, None)  # noqa: E731
        return fnp.max(fg.scan(step, s, seen)[0])

    np.testing.assert_array_equal(fg.jit(best, backend="native")(s, table), best(s, table))
    for f in (fg.grad(best, (0, 1)), lambda s, t: fg.vmap(best, (0, None))(s + np.ones((5, 1)), t)):
        for out, expected in zip(
            fg.tree.leaves(fg.jit(f, backend="native")(s, table)),
            fg.tree.leaves(f(s, table)),
            strict=True,
        ):
            np.testing.assert_allclose(out, expected, rtol=1e-14)


def test_large_matrices_are_read_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(1).standard_normal((50, 40))
    small = machine_code_of(lambda x: fnp.max(x + 1.0, axis=0), x)
    monkeypatch.setattr(nest_forms, "_IN_CACHE", 100)
    np.testing.assert_array_equal(machine_code_of(lambda x: fnp.max(x + 1.0, axis=0), x), small)

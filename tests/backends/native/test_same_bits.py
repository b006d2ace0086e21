"""Machine code that solvers run outside of ``jit`` has the bits of NumPy's backend."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._backends import choice
from funcgrad._backends.choice import machine_code_of
from funcgrad._backends.improving_runs import ImprovingRun
from funcgrad._backends.numpy.backend import compile_program
from funcgrad._backends.numpy.prepare import prepared_exactly
from funcgrad._core import pytrees
from funcgrad._passes.pipeline import simplified
from funcgrad.errors import TracerError
from funcgrad.testing.backend_programs import every_program
from tests.together import together

pytest.importorskip("llvmlite")


@pytest.fixture(autouse=True)
def _by_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Solvers take the default backend, which an option of pytest may change."""
    monkeypatch.setattr(choice, "DEFAULT", "native")


def has_numpys_bits(f: Callable[..., Any], *args: Any) -> bool:
    """Whether there is machine code; its results have to have NumPy's bits."""
    program = prepared_exactly(simplified(fg.program(f)(*args)))
    values = [np.asarray(leaf)[()] for leaf in pytrees.leaves(args)]
    values = [x.item() if spec.weak else x for x, spec in zip(values, program.inputs, strict=True)]
    compiled = machine_code_of(program)
    if compiled is None:
        return False
    with np.errstate(all="ignore"):
        expected = [np.asarray(out) for out in compile_program(program)(*values)]
        actual = [np.asarray(out) for out in compiled.run(*values) or ()]
    assert [(x.dtype, x.tobytes()) for x in actual] == [(x.dtype, x.tobytes()) for x in expected]
    return True


def draws(*shape: int, dtype: Any = float) -> Any:
    return np.random.default_rng(shape).standard_normal(shape).astype(dtype)


@together("dtype", [float, np.float32])
def test_sums_add_in_numpys_order(dtype: Any) -> None:
    sizes = [1, 2, 3, 7, 8, 9, 15, 100, 128, 129, 1000]
    arrays = [draws(n, dtype=dtype) for n in sizes]
    assert has_numpys_bits(lambda xs: [fnp.sum(x * 3.0) for x in xs], arrays)
    assert has_numpys_bits(
        lambda x: [fnp.sum(x, axis) for axis in (0, 1, 2, (0, 2))], draws(5, 9, 17)
    )
    for shape in ((2, 3), (1, 17), (9, 1), (9, 17), (200, 3), (3, 200), (150, 130)):
        assert has_numpys_bits(
            lambda x: [
                fnp.sum(y, axis)
                for y in (x, fnp.sin(x.T), x[:, ::-2], fnp.abs(x)[::2])
                for axis in (0, 1)
            ],
            draws(*shape, dtype=dtype),
        )
    assert has_numpys_bits(lambda x: [fnp.sum(x[::-1]), fnp.sum(x[::3]), fnp.cumsum(x)], draws(50))


MATRIX = draws(50, 3)

PRODUCTS: dict[str, tuple[Callable[..., Any], Any]] = {
    "vectors": (lambda x, y: x @ y, (draws(37), draws(37))),
    "matrix and vector": (lambda x, y: [x @ y, y @ x.T, x.T @ (x @ y)], (MATRIX, draws(3))),
    "with itself": (lambda x: [x.T @ x, x @ x.T], (MATRIX,)),
    "a result in Fortran's order": (lambda x: fnp.exp(x.T) @ x, (MATRIX,)),
    "results in two orders": (lambda x: (x + x.T) @ x, (draws(9, 9),)),
    "one column, one row": (lambda x, y: [x @ y, y @ x], (draws(9, 1), draws(1, 9))),
    "stacks": (lambda x, y: x @ y, (draws(4, 5, 6), draws(6, 7))),
    "einsum": (
        lambda x, y: [
            fnp.einsum(text, x, y) for text in ("ba,ba->b", "ba,bc->ac", "ba,cb->ac", "ab,cb->ca")
        ],
        (draws(21, 21), draws(21, 21)),
    ),
    "sums of products": (lambda x, y: [fnp.sum(x * y), x @ y], (draws(37), draws(37))),
    "of a constant": (lambda x: np.asfortranarray(MATRIX).T @ x, (draws(50),)),
    "transposed steps": (
        lambda x: fg.while_loop(
            lambda c: fnp.sum(c[1]) < 20.0,
            lambda c: (fnp.tanh(c[0] * 1.1), c[1] + fnp.abs((c[0] @ c[0].T)[0] + c[0].sum(1))),
            (fnp.sin(x).T, fnp.zeros(3)),
        ),
        (MATRIX,),
    ),
    "linear algebra": (
        lambda x, s: [
            fnp.linalg.cholesky(s),
            fnp.linalg.solve(x, x.T),
            fnp.linalg.inv(x.T),
            fnp.linalg.slogdet(x),
            fnp.linalg.qr(x),
        ],
        (draws(9, 9), draws(40, 9).T @ draws(40, 9)),
    ),
    "triangles": (
        lambda x, y: [
            fg.scipy.linalg.solve_triangular(fnp.sin(x).T, y, lower=lower, unit_diagonal=unit)
            for x, y in ((x, y), (x[:9, :9], y[:9]), (x[:9, :9], y[:9, 0]))
            for lower in (False, True)
            for unit in (False, True)
        ],
        (draws(25, 25), draws(25, 4)),
    ),
    "matrices without factors": (
        lambda x: [
            fnp.linalg.cholesky(-x @ x.T, failed="nan"),
            fnp.linalg.inv(0.0 * x, failed="nan"),
            fg.scipy.linalg.solve_triangular(0.0 * x, x, failed="nan"),
        ],
        (draws(4, 4),),
    ),
    "single precision": (
        lambda x: [fnp.linalg.cholesky(x @ x.T), fnp.linalg.inv(x)],
        (draws(4, 4, dtype=np.float32),),
    ),
    "a gradient": (
        fg.grad(lambda w: fnp.sum(fnp.tanh(fnp.tanh(MATRIX @ w) @ w.T) ** 2)),
        (draws(3, 4),),
    ),
}


@together("name", PRODUCTS)
def test_products_add_in_numpys_order(name: str) -> None:
    f, args = PRODUCTS[name]
    assert has_numpys_bits(f, *args)


def test_orders_that_nobody_knows_are_refused() -> None:
    def mixed(x: Any) -> Any:
        return fg.fori_loop(0, 3, lambda _, c: c.T, x) @ x

    assert has_numpys_bits(
        lambda x: fg.fori_loop(0, 3, lambda _, c: fnp.sin(c).T @ fnp.cos(c.T).T, x), draws(4, 4)
    )
    refused: list[Callable[..., Any]] = [
        mixed,
        lambda x: (fnp.exp(x.T) + x) @ x,  # the sum overwrites the exponential
        lambda x: x.T @ (1j * x),
        lambda x: fnp.zeros((2000, 2000)) @ fnp.resize(x, 2000),
    ]
    for f in refused:
        assert not has_numpys_bits(f, draws(4, 4))


@pytest.mark.slow
def test_every_kind_of_program() -> None:
    refused = 0
    programs = [*every_program()]
    for each in programs:
        with suppress(TracerError):
            refused += not has_numpys_bits(each.function, *each.args)
    assert refused < len(programs) / 5


def test_a_run_improves_and_keeps_its_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("funcgrad._backends.improving_runs._LONG", -1.0)
    x = draws(40, 3)

    def steps(x: Any) -> Any:
        return fg.fori_loop(0, 50, lambda _, c: fnp.tanh(c) + 0.1 * fnp.sum(c[:, 0]), x)

    run = ImprovingRun(prepared_exactly(simplified(fg.program(steps)(x))))
    outs = [np.asarray((run(x) or ())[0]) for _ in range(3)]
    assert run._fast is not None
    assert outs[0].tobytes() == outs[1].tobytes() == outs[2].tobytes()
    fortran = np.asfortranarray(x)
    assert np.asarray((run(fortran) or ())[0]).tobytes() == outs[0].tobytes()

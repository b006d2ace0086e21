"""The XLA backend, on host values and as devices; it needs JAX."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import errors
from funcgrad._backends.xla.xla_backend import XLA
from funcgrad._core import pytrees
from funcgrad._core.primitive import Primitive
from funcgrad._core.trace import concrete
from funcgrad.scipy import linalg
from funcgrad.tensor.tensor import wrap
from funcgrad.testing.backend_programs import every_program
from funcgrad.testing.operations.cases import Case
from tests.backends.xla_calls import on_xla
from tests.conformance import every_case, every_primitive
from tests.together import together

jax: Any = pytest.importorskip("jax")

X = np.array([[0.5, -1.25, 2.0], [0.75, 1.5, -0.25]])
LONG = np.linspace(0.5, 2.0, 10).reshape(5, 2)

EXCEPTIONS = {
    "arcsinh": "the branch of complex numbers whose real part is -0.0",
    "portable_log": "subnormal numbers are zero",
    "psi": "near its zeros the error is relative to 1",
    "ratio_to_square_of_hypot": "subnormal numbers are zero",
}
"""Operations with samples at which XLA's results differ by more than rounding, and why."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [*dict.fromkeys(program.kind for program in every_program()), "behaviour"]
)
def test_it_is_a_backend(kind: str) -> None:
    fg.testing.check_backend("xla", kinds=(kind,))


def test_some_kinds_of_programs() -> None:
    fg.testing.check_backend("xla", kinds=("choice", "guards"))


def assert_same(f: Callable[..., Any], *args: Any) -> None:
    _, result = on_xla(f, *args)
    expected = f(*map(fg.tensor, args))
    for one, other in zip(fg.tree.leaves(result), fg.tree.leaves(expected), strict=True):
        assert np.asarray(one).dtype == np.asarray(other).dtype
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "pads of strided slices": (
        fg.grad(lambda x: fnp.sum(x[:, ::2] ** 3) + fnp.sum(x[::-1, 1:] ** 2)),
        (X,),
    ),
    "rows that integers choose": (
        fg.grad(lambda x, i: fnp.sum(fnp.sin(x[i]) * x[i, 1][:, None])),
        (X, np.array([1, -1, 0])),
    ),
    "a loop back": (
        fg.grad(lambda x: fg.scan(lambda c, r: (fnp.tanh(c * r), c), x[0], x)[0].sum()),
        (X,),
    ),
    "a loop that counts, back": (
        fg.grad(lambda x: fg.while_loop(lambda c: c < 9.0, lambda c: c * 3.0, x)),
        (1.5,),
    ),
    "a loop over some rows": (lambda x: fg.scan(lambda c, r: (c * r, c), x[0], x[1:4])[1], (LONG,)),
    "a loop back over some rows": (
        lambda x, i: fg.scan(
            lambda c, r: (c - x[r[1][0], 0], r[0] * c), 1.0, (x[1:4, 0], i[2:5]), reverse=True
        ),
        (LONG, np.arange(10).reshape(5, 2) % 3),
    ),
    "products of transposed arrays": (
        fg.grad(lambda x: fnp.sum((fnp.transpose(x, (2, 0, 1)) @ fnp.cos(x[0])) ** 2)),
        (LONG[:4].reshape(2, 2, 2),),
    ),
    "boxes beside one another, and boxes that overlap": (
        fg.grad(lambda x: fnp.sum(fnp.concatenate([*fnp.split(x, 5)[::-1], x[1:3], x[2:4]]) ** 3)),
        (LONG,),
    ),
    "cuts of rows, at places of their own": (
        fg.grad(
            lambda x, k: fnp.sum(
                fg.vmap(lambda row, k: row[k : k + 2] * row[k], in_axes=(0, 0))(x, k) ** 2
            )
        ),
        (np.resize(LONG, 12).reshape(2, 6) + 1, np.array([3, 1])),
    ),
    "one cut of two axes, which replaces another": (
        fg.grad(lambda x, k: fnp.sum(x.at[k : k + 2, 1:3].set(x[1:3, k : k + 2]) ** 3)),
        (np.resize(LONG, 12).reshape(3, 4) + 1, np.array(1)),
    ),
    "a matrix of three diagonals": (
        fg.grad(lambda x: fnp.sum(linalg.solve_banded((1, 1), x + 1, x.T[:, :2]) ** 2)),
        (np.resize(LONG, 12).reshape(3, 4) / 10,),
    ),
    "hyperbolic cosines": (
        lambda x: (fnp.cosh(x), fnp.floor(fnp.cosh((x / 100).astype(np.float16)))),
        (np.array([0.0, -1.0, 20.0, 710.3, -np.inf, np.nan]),),
    ),
    "equations": (fg.grad(lambda a: fnp.linalg.solve(a @ a.T + np.eye(2), a).sum()), (X,)),
    "a convolution": (
        fg.grad(lambda x: fnp.sum(fg.nn.conv(x[None, None], X[None, None, :, :2]) ** 2)),
        (X,),
    ),
}


@together("name", PROGRAMS)
def test_programs_and_their_gradients(name: str) -> None:
    f, args = PROGRAMS[name]
    assert_same(f, *args)


def test_random_words_are_the_same() -> None:
    assert_same(lambda k: fg.random.bits(k, (7,)), fg.random.key(3))


def test_errors_are_the_operations_own() -> None:
    inverse, _ = on_xla(fnp.linalg.inv, np.eye(2))
    with pytest.raises(errors.FuncgradError, match="singular"):
        inverse(np.ones((2, 2)))
    rows, _ = on_xla(lambda x, i: x[i], X, np.array([0]))
    with pytest.raises(IndexError):
        rows(X, np.array([2]))
    assert np.array_equal(rows(X, np.array([1])), X[1:])


def test_an_index_out_of_bounds_in_a_loop_is_an_error() -> None:
    def f(x: Any, i: Any) -> Any:
        return fg.scan(lambda c, k: (c + x[k, 0], None), 0.0, i)[0]

    loop, total = on_xla(f, X, np.array([0, 1]))
    assert total == 1.25
    with pytest.raises(IndexError):
        loop(X, np.array([0, 5]))


def test_errors_of_called_functions_are_raised_unchanged() -> None:
    class MineError(Exception):
        pass

    def refuse(x: Any) -> Any:
        if x > 1:
            raise MineError("no")
        return x

    foreign = fg.extend.foreign(refuse, lambda x: x)
    f, _ = on_xla(lambda x: foreign(x) * 2, np.float64(0.5))
    with pytest.raises(MineError):
        f(np.float64(2.0))
    assert f(np.float64(1.0)) == 2.0


def test_64_bits_leave_the_users_configuration_alone() -> None:
    _, out = on_xla(lambda x: x * 2, X)
    assert out.dtype == np.float64
    assert jax.numpy.ones(1).dtype == np.float32


def test_results_without_axes_are_numbers_as_elsewhere() -> None:
    _, total = on_xla(fnp.sum, X)
    assert type(total._value) is np.float64
    f, again = fg.jit(lambda x: x * 2.0, backend="xla"), fg.jit(fnp.sin)
    again(f(np.float64(1.0)))
    again(np.float64(1.0))
    assert again.stagings == 1


def test_exact_is_refused() -> None:
    with pytest.raises(errors.ArgumentError, match="exact"):
        fg.jit(fnp.sin, backend="xla", exact=True)


# --------------------------------------------------------------------------------- every sample


def results_of(primitive: Primitive) -> Iterator[tuple[Case, Any]]:
    cases = [*every_case([primitive])]
    for case in cases[:: max(1, len(cases) // 4)]:
        try:
            with np.errstate(all="ignore"):
                out = primitive.evaluate(*case.sample.args, **case.sample.params)
        except (errors.FuncgradError, ArithmeticError, ValueError, IndexError):
            continue  # a sample that is refused
        yield case, out if isinstance(out, tuple) else (out,)


def is_near(one: Any, other: Any) -> bool:
    x, y = np.asarray(one), np.asarray(other)
    if x.dtype != y.dtype or x.shape != y.shape:
        return False
    if x.dtype.kind not in "fc":
        return np.array_equal(x, y)
    eps, tiny = np.finfo(x.dtype).eps, np.finfo(x.dtype).tiny
    wide: Any = np.complex128 if x.dtype.kind == "c" else np.float64
    x, y = x.astype(wide), y.astype(wide)
    size = np.max(abs(y), initial=0.0, where=np.isfinite(y))
    with np.errstate(all="ignore"):
        near = abs(x - y) <= 256 * eps * (abs(y) + size) + tiny
    return bool(np.all((x == y) | ((x != x) & (y != y)) | near))


@pytest.mark.slow
@pytest.mark.parametrize("quarter", range(4))
def test_operations_at_their_samples(quarter: int) -> None:
    different = set()
    primitives = [*every_primitive(), *every_primitive(several=True)]
    for primitive in primitives[quarter::4]:
        for case, expected in results_of(primitive):
            params = case.sample.params

            def function(*args: Any, params: Any = params, operation: Any = primitive) -> Any:
                out = operation(*[concrete(wrap(x)) for x in args], **params)
                return tuple(map(wrap, out)) if isinstance(out, tuple) else wrap(out)

            staged = fg.program(function)(*case.sample.args)
            run = XLA.compile(XLA.prepare(staged, False)).run
            with np.errstate(all="ignore"):
                outs = run(*pytrees.flatten((case.sample.args, {}))[0])
            if not all(map(is_near, outs or (), expected)):
                different.add(primitive.name)
    assert different <= {*EXCEPTIONS}


# ------------------------------------------------------------------------------------- devices

ON_DEVICES = """
import numpy as np
import funcgrad as fg
import funcgrad.numpy as fnp

devices = [d for d in fg.devices() if str(d).startswith("xla:cpu:")]
assert len(devices) == 8, devices
x = fg.put(np.arange(4.0), "xla:cpu:3")
y = fg.jit(fg.grad(lambda x: fnp.sum(fnp.sin(x) * x)))(x)
assert y.device == "xla:cpu:3", y.device
assert np.allclose(fg.get(y), np.cos(np.arange(4.0)) * np.arange(4.0) + np.sin(np.arange(4.0)))
assert (x * 2 + 1).device == x.device
kind, get = type(x.device.backend), type(x.device.backend).get
kind.get = None  # a copy to another device does not pass the host
z = fg.put(x, "xla:cpu:5")
kind.get = get
assert z.device == (z + z).device == "xla:cpu:5" and np.array_equal(fg.get(z), fg.get(x))
words = fg.random.bits(fg.put(fg.random.key(1), "xla:cpu:2"), (5,))
assert np.array_equal(fg.get(words), fg.random.bits(fg.random.key(1), (5,)))
last, rows = fg.jit(lambda xs: fg.scan(lambda c, x: (c + x, c * x), 0.0, xs))(x)
assert fg.get(last) == 6.0 and np.array_equal(fg.get(rows), [0, 0, 2, 9])
try:
    x + fg.put(np.ones(4), "xla:cpu:0")
except fg.errors.DeviceError:
    print("done")


@fg.jit
def branch(x):
    if x > 1.0:
        fg.debug.print("big")
        return x * 2.0
    fg.debug.print("small")
    return -x


for value in (0.5, 2.0, 0.5):
    branch(fg.put(np.float64(value), x.device))
"""


@pytest.mark.skipif(not hasattr(fg, "put"), reason="there are no devices yet")
def test_eight_devices() -> None:
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}
    root = Path(fg.__file__).parents[1]
    ran = subprocess.run(
        [sys.executable, "-c", ON_DEVICES],
        env={**os.environ, **flags},
        cwd=root,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert ran.stdout.split() == ["done", "small", "big", "small"], ran.stderr

"""Values on a device and values of elsewhere: which meet, and the errors of the others."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import DeviceError, TracerError
from tests.backends.fake_device import FakeDevice
from tests.together import together

X = np.array([0.5, 1.25, 2.0])


@pytest.fixture
def device(request: pytest.FixtureRequest) -> FakeDevice:
    return FakeDevice(f"fake:{request.node.name}")


def _refused(device: FakeDevice) -> Iterator[tuple[Callable[[], object], type[Exception], str]]:
    x: Any = fg.put(X, device)
    other = fg.put(X, FakeDevice("fake:other"))
    here = r"test_device_arguments\.py:\d+"
    yield lambda: x * other, DeviceError, f"{here}.*fake:other.*{here}.*fg.put"
    yield lambda: fg.jit(fnp.add)(x, other), DeviceError, "fake:other"
    yield lambda: x * X, DeviceError, f"multiply: an array of shape .*{here}.*fg.put"
    yield lambda: X * x, DeviceError, "multiply"
    yield lambda: x + fg.tensor(X), DeviceError, "add"
    yield lambda: fnp.dot(x, fnp.ones(3)), DeviceError, "host"
    yield lambda: fg.grad(lambda x: fnp.sum(x * X))(x), DeviceError, "multiply"
    yield lambda: fg.grad(lambda x, y: fnp.sum(x * y))(x, X), DeviceError, "multiply"
    yield lambda: fg.vmap(lambda x, y: x * y)(x, X), DeviceError, "multiply"
    yield lambda: fg.vjp(fnp.sin, x)[1](X), DeviceError, "host"
    yield lambda: fg.jit(fnp.multiply)(x, X), DeviceError, r"jit: x2 is an array.*device="
    yield lambda: fg.jit(lambda y: x * y)(X), DeviceError, "host"
    yield lambda: fg.jit(fnp.sin, backend="numpy")(x), DeviceError, "backend='numpy'"
    yield lambda: fg.jit(fnp.sin, exact=True)(x), DeviceError, "exact=True"
    yield lambda: fg.grad(lambda y: fg.put(y, device))(2.0), TracerError, "put"
    yield lambda: fg.put(X, "nowhere:0"), DeviceError, "there is no device 'nowhere:0'.*'cpu'"
    yield lambda: fg.put(X, 3), DeviceError, "is not a device"  # type: ignore[arg-type]
    yield lambda: fg.put(X, device, host="?"), DeviceError, "host has to be"  # type: ignore[arg-type]
    yield lambda: fg.random.permutation(fg.random.key(0), x), DeviceError, r"key, a key, .*put\(key"
    yield lambda: fnp.quantile(x, X / 4), DeviceError, r"quantile: q, an array .*put\(q"
    yield lambda: fnp.where(X > 1.0, x, 0.0), DeviceError, r"where: condition, .*put\(condition"
    yield lambda: np.where(X > 1.0, x, 0.0), DeviceError, r"where: condition, .*put\(condition"
    yield lambda: fnp.stack([x, X]), DeviceError, r"stack: arrays\[1\], .*put\(arrays\[1\]"
    yield lambda: fnp.interp(x, X, X), DeviceError, "interp: xp, an array"
    yield (
        lambda: fg.optimize.minimize(fnp.sum, x, bounds=(X, X + 1)),
        DeviceError,
        "bounds.0., an a",
    )
    yield lambda: fg.interpolate.CubicSpline(X, x), DeviceError, "CubicSpline: x, an array"
    yield lambda: x[np.array([0, 1])], DeviceError, "indexing: an array"
    yield lambda: x.at[np.array([0, 1])].set(0.0), DeviceError, "set: an array"
    yield lambda: fg.grad(lambda y: fnp.sum(fnp.asarray(y, device=device)))(X), TracerError, "asarr"
    yield lambda: fnp.zeros(3, device="nowhere"), DeviceError, "zeros: there is no device"
    yield lambda: fnp.eye(3, device=3), DeviceError, "eye: 3 is not a device"  # type: ignore[arg-type]
    yield lambda: fnp.ones(-1, device=device), ValueError, "ones"
    yield lambda: fg.scipy.sparse.linalg.splu(fg.sparse.diags(x)), DeviceError, "fg.get"
    yield lambda: fg.put("text", device), fg.errors.LeafError, "put"
    yield lambda: x.to_device("nowhere"), fg.errors.ArgumentError, "to_device"


def test_mistakes_are_refused(device: FakeDevice) -> None:
    for number, (call, kind, text) in enumerate(_refused(device)):
        with pytest.raises(kind) as raised:
            call()
        assert re.search(text, str(raised.value)), f"case {number}: {raised.value}"


SETTINGS: dict[str, Callable[[Any], Any]] = {
    "pad": lambda x: fnp.pad(x, np.array([1, 1]), mode="reflect"),
    "repeat": lambda x: fnp.repeat(x, np.array([2, 0, 1])),
    "roll": lambda x: fnp.roll(x, np.array([1])),
    "tile": lambda x: fnp.tile(x, np.array([2])),
    "gaussian_filter": lambda x: fg.scipy.ndimage.gaussian_filter(x, np.array([1.0])),
    "solve_ivp": lambda x: (
        fg.integrate.solve_ivp(
            lambda t, y: -y,
            (0.0, 1.0),
            x,
            "Tsit5",
            t_eval=np.linspace(0, 1, 3),
            atol=np.full(3, 1e-9),
        ).y
    ),
    "events": lambda x: (
        fg.integrate.solve_ivp(
            lambda t, y: -y, (0.0, 1.0), x, t_eval=X / 2, events=lambda t, y: y[0] - 0.4
        ).y
    ),
    "odeint": lambda x: fg.odeint(lambda y, t: -y, x, np.linspace(0, 1, 3)),
    "lists": lambda x: (fnp.quantile(x, [0.5]), fnp.interp(x, [0.0, 3.0], [1.0, 2.0]), x[[0, 1]]),
}


@together("f", SETTINGS.values(), ids=SETTINGS)
def test_settings_may_be_arrays_of_the_host(f: Callable[[Any], Any]) -> None:
    x = fg.put(X, FakeDevice("fake:settings"))
    for out, wanted in zip(fg.tree.leaves(f(x)), fg.tree.leaves(f(X)), strict=True):
        assert out.device == x.device
        np.testing.assert_allclose(out, wanted, 1e-12)


@together(
    "f", [lambda x: x[[0, 2]], lambda x: fnp.sort(x * x)[:2], lambda x: (2.0 * x)[:0], fnp.cumsum]
)
def test_pullbacks_may_hold_tables_of_the_host(f: Callable[[Any], Any]) -> None:
    x = fg.put(X, FakeDevice("fake:tables"))
    out, pull = fg.vjp(f, x)
    expected = fg.vjp(f, X)[1](fg.get(out))[0]
    np.testing.assert_allclose(pull(out)[0], expected, 1e-12)


def test_numbers_and_lists_are_taken_along(device: FakeDevice) -> None:
    x = fg.put(X, device)
    for number in (2.0, 2, np.float64(2.0), np.array(2.0), fg.tensor(2.0), [2.0, 2.0, 2.0]):
        np.testing.assert_array_equal(x * number, X * 2.0)
    assert (x.astype("float32") * 2.0).dtype == np.float32


# --------------------------------------------------------- functions that call the user's functions


class _Multiple:
    """A function that no solver can take apart."""

    def __init__(self, factor: Any) -> None:
        self.factor = factor

    def __call__(self, x: Any) -> Any:
        return self.factor * x


SOLVERS: dict[str, tuple[Callable[[Any, Any, Any], Any], Any]] = {
    "quad, a": (lambda start, s, w: fg.integrate.quad(_Multiple(s), start, 1.0)[0], 0.0),
    "fixed_quad, a": (
        lambda start, s, w: fg.integrate.fixed_quad(lambda x: s * x, start, 1.0)[0],
        0.0,
    ),
    "tanhsinh, a": (
        lambda start, s, w: fg.integrate.tanhsinh(lambda x: s * x, start, 1.0).integral,
        0.0,
    ),
    "solve_ivp, y0": (
        lambda start, s, w: fg.integrate.solve_ivp(lambda t, y: -w * y, (0, 1), start).y,
        X,
    ),
    "odeint, y0": (lambda start, s, w: fg.odeint(lambda y, t: -w * y, start, [0.0, 1.0]), X),
    "root, fnp.asarray(x0": (
        lambda start, s, w: fg.optimize.root(lambda x: x * w - 1.0, start).x,
        [1.0, 2.0, 3.0],
    ),
    "root, x0": (lambda start, s, w: fg.optimize.root(lambda x: x * w - 1.0, start).x, X),
    "minimize, x0": (
        lambda start, s, w: fg.optimize.minimize(lambda x: fnp.sum((x - w) ** 2), start).x,
        X,
    ),
    "least_squares, x0": (
        lambda start, s, w: fg.optimize.least_squares(lambda x: x - w, start).x,
        X,
    ),
    "curve_fit, xdata": (
        lambda start, s, w: fg.optimize.curve_fit(lambda x, a: a * x * s, start, start)[0],
        X,
    ),
    "fixed_point, init": (
        lambda start, s, w: fg.fixed_point(lambda x: fnp.cos(x * w) / 4, start),
        X,
    ),
    "while_loop, init_val": (
        lambda start, s, w: fg.while_loop(lambda x: fnp.sum(x) < 99.0, lambda x: x + w, start),
        X,
    ),
    "fori_loop, init_val": (lambda start, s, w: fg.fori_loop(0, 2, lambda i, x: x * w, start), X),
    "associative_scan, elems": (
        lambda start, s, w: fg.associative_scan(lambda a, b: a * b * s, start),
        X,
    ),
    "scan, xs": (lambda start, s, w: fg.scan(lambda c, x: (c + x * s, c), 0.0, start), X),
    "map, xs": (lambda start, s, w: fg.map(lambda x: x * s, start), X),
    "map, xs ": (lambda start, s, w: fg.map(lambda x: x * w, start), np.ones((2, 3))),
    "the transformed function, x": (lambda start, s, w: fg.vmap(lambda x: x * s)(start), X),
}


@together("name", SOLVERS)
def test_functions_that_close_over_values_on_a_device(name: str) -> None:
    solve, start = SOLVERS[name]
    device = FakeDevice("fake:closed")
    s, w = 2.0, X
    there = fg.put((s, w), device)
    function, _, argument = name.strip().partition(", ")
    with pytest.raises(DeviceError, match=rf"(?i){function}.*{re.escape(argument)}") as raised:
        solve(start, *there)
    assert "put(" in str(raised.value) or "asarray(" in str(raised.value)
    if type(start) is list:
        first = fnp.asarray(start, device=device)
    else:
        first = fg.put(start, device)
    expected = fg.tree.leaves(solve(np.asarray(start), s, w))
    for out, wanted in zip(fg.tree.leaves(solve(first, *there)), expected, strict=True):
        assert out.device == device.name
        np.testing.assert_allclose(out, wanted, 1e-7, 1e-9)


@together(
    "solve",
    [
        lambda s, w: fg.integrate.quad(lambda x: s * x * fnp.sum(w), 0.0, 1.0)[0],
        lambda s, w: fg.integrate.solve_ivp(lambda t, y: -w * y, (0, 1), [1.0, 2.0, 3.0], "BDF").y,
        lambda s, w: fg.optimize.root_scalar(lambda x: s * x - 1.0, bracket=(0.0, 1.0)).x,
    ],
)
def test_solvers_take_numbers_and_lists_along(solve: Callable[[Any, Any], Any]) -> None:
    device = FakeDevice("fake:numbers")
    out = solve(*fg.put((2.0, X), device))
    assert out.device == device.name
    np.testing.assert_allclose(out, solve(2.0, X), 1e-9)


def test_arrays_of_the_host_in_a_solver_on_a_device_are_named_themselves(
    device: FakeDevice,
) -> None:
    with pytest.raises(DeviceError, match=r"^multiply: .*write fg.put\(x"):
        fg.while_loop(lambda x: x[0] < 1.0, lambda x: x * X, fg.put(X, device))


def test_scans_of_funcgrad_take_their_own_arrays_along(device: FakeDevice) -> None:
    w, start, key = fg.put((X, X, fg.random.key(0)), device)
    out = fg.integrate.solve_sde(
        lambda t, y: t * y, lambda t, y: y * w, (0.0, 1.0), start, key, steps=3
    )
    assert out.y.device == device.name


def test_gradients_in_loops_of_jitted_functions_close_over_arrays(device: FakeDevice) -> None:
    w, x = fg.put((np.ones((3, 2)), np.ones((8, 3))), device)
    slope = fg.grad(lambda w: fnp.sum(x @ w))
    for one in (fg.jit, lambda f: f):
        trained = one(lambda w: fg.scan(lambda w, _: (w - slope(w), 0.0), w, None, length=3)[0])
        out = trained(w)
        assert out.device == device.name
        np.testing.assert_array_equal(out, np.full((3, 2), -23.0))


def test_bounds_of_bins_are_where_the_elements_are(device: FakeDevice) -> None:
    x = fg.put(X, device)
    for call in (
        lambda x: fnp.histogram(x, bins=4, range=(0, 2)),
        lambda x: fnp.histogram(x, bins=[0.0, 1.0, 2.0]),
        lambda x: fnp.histogram_bin_edges(x, 3, (0.0, 3.0)),
        lambda x: fnp.histogram2d(x, x, bins=2, range=[(0, 2), (0, 2)]),
    ):
        for out, wanted in zip(fg.tree.leaves(call(x)), fg.tree.leaves(call(X)), strict=True):
            assert out.device == device.name
            np.testing.assert_array_equal(out, wanted)
    with pytest.raises(DeviceError, match="histogram: bins, an array"):
        fnp.histogram(x, X)

"""Values on a device: operations run there, and nothing reaches the host unless it is asked for."""

from __future__ import annotations

import gc
import pickle
import runpy
import sys
import threading
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import errors
from funcgrad._backends.interface import Compiled
from funcgrad._backends.xla.jax_library import jax_library, memory_errors
from funcgrad.errors import CheckError, DeviceError, DeviceWarning, NonFiniteError
from tests.backends.fake_device import Chip, FakeDevice
from tests.together import together

X = np.array([0.5, 1.25, 2.0])


@pytest.fixture
def device(request: pytest.FixtureRequest) -> FakeDevice:
    return FakeDevice(f"fake:{request.node.name}")


# ------------------------------------------------------------------------------ the same as on host


def squared(x: Any) -> Any:
    return x * x


def _with_rule() -> Callable[..., Any]:
    f = fg.custom_vjp(squared)
    f.defvjp(lambda x: (x * x, x), lambda x, ct: (2.0 * x * ct,))
    return f


def _with_pushforward() -> Callable[..., Any]:
    f = fg.custom_jvp(squared)
    f.defjvp(lambda primals, tangents: (squared(*primals), 2.0 * primals[0] * tangents[0]))
    return f


def _step(x: Any) -> Any:
    rule = fg.optim.adam(0.1)
    state = rule.init(x)
    for _ in range(3):
        gradient = fg.grad(lambda x: fnp.sum((x - 1.0) ** 2))(x)
        updates, state = rule.update(gradient, state, x)
        x = fg.optim.apply_updates(x, updates)
    return x


def _branching(x: Any) -> Any:
    return x * 2.0 if fnp.sum(x) > 3.0 else -x


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "operators": lambda x: (x + 1.0, 2 - x, x**2, x @ x, -x, x > 1.0, x[1], x[::-1], x[[2, 0]]),
    "functions of NumPy": lambda x: (np.sin(x), np.sum(x), np.multiply(2.0, x)),
    "masks": lambda x: (x[x > 1.0], fnp.where(x > 1.0, x, 0.0), x.at[0].set(5.0)),
    "matrices": lambda x: fnp.linalg.solve(fnp.outer(x, x) + fnp.diag(x), x),
    "grad": fg.grad(lambda x: fnp.sum(fnp.sin(x) ** 2)),
    "grad of an unused argument": fg.grad(lambda x: 2.0, argnums=0),
    "vmap": fg.vmap(lambda r: fnp.exp(r) * r),
    "vmap of a branch": fg.vmap(lambda r: r if r > 1.0 else -r),
    "jvp": lambda x: fg.jvp(fnp.sin, (x,), (x,)),
    "vjp": lambda x: fg.vjp(fnp.sin, x)[1](x),
    "linearize": lambda x: fg.linearize(fnp.sin, x)[1](x),
    "hessian": fg.hessian(lambda x: fnp.sum(x**3)),
    "jacobians": lambda x: (fg.jacfwd(fnp.sin)(x), fg.jacrev(fnp.sin)(x)),
    "cond": lambda x: fg.cond(x[0] > 0.0, lambda x: x * 2.0, lambda x: x, x),
    "scan": lambda x: fg.scan(lambda c, r: (c * r + fnp.sum(x), c), x[0], x),
    "grad of scan": fg.grad(lambda x: fg.scan(lambda c, r: (c * r, c), x[0], x)[0]),
    "fori_loop": lambda x: fg.fori_loop(0, 4, lambda i, c: c * 1.5 + i, x),
    "while_loop": lambda x: fg.while_loop(lambda c: fnp.sum(c) < 100.0, lambda c: c * 2.0, x),
    "map": lambda x: fg.map(lambda r: r * 2.0, x),
    "checkpoint": fg.grad(lambda x: fnp.sum(fg.checkpoint(fnp.sin)(x) ** 2)),
    "custom_vjp": fg.grad(lambda x: fnp.sum(_with_rule()(x))),
    "custom_vjp, jacrev": fg.jacrev(lambda x: _with_rule()(x)),
    "custom_jvp": fg.grad(lambda x: fnp.sum(_with_pushforward()(x))),
    "Adam": _step,
    "Python's branch": _branching,
    "root": lambda x: fg.optimize.root(lambda y: y**2 - x, x).x,
    "zeros_like": lambda x: (fnp.zeros_like(x), fnp.ones_like(x), fnp.full_like(x, 2.5)),
    "float32": lambda x: x.astype("float32") * 2.0,
    "program": lambda x: fg.program(squared)(x)(x),
    "several results": lambda x: fnp.linalg.eigh(fnp.outer(x, x)),
}


@together("f", FUNCTIONS.values(), ids=FUNCTIONS)
def test_functions_give_the_same_on_a_device(f: Callable[[Any], Any]) -> None:
    fake = FakeDevice("fake:functions")
    on_device = fg.put(X, fake)
    expected = fg.tree.leaves(f(fg.tensor(X)))
    leaves: list[Any] = []
    for g in (f, fg.jit(f)):
        if g is not f and f is FUNCTIONS["masks"]:
            continue  # the shape depends on the values
        for _ in range(3):
            leaves = fg.tree.leaves(g(on_device))
            for leaf, wanted in zip(leaves, expected, strict=True):
                assert (leaf.shape, leaf.dtype) == (wanted.shape, wanted.dtype)
                np.testing.assert_allclose(np.asarray(leaf), np.asarray(wanted), 1e-12, 1e-14)
    assert all(leaf.device == fake.name for leaf in leaves)


def test_transformations_of_jitted_functions() -> None:
    fake = FakeDevice("fake:jitted")
    x, f = fg.put(X, fake), fg.jit(lambda x: fnp.sum(fnp.sin(x) ** 2))
    for of in (fg.grad, fg.hessian, fg.jacfwd):
        np.testing.assert_allclose(of(f)(x), of(f)(X), 1e-12)
    np.testing.assert_allclose(fg.vmap(fg.grad(fg.jit(squared)))(x), 2.0 * X, 1e-12)
    assert f.stagings == 2  # on the host, and on the device


NEW: dict[str, Callable[[Any], Any]] = {
    "zeros": lambda d: (fnp.zeros(3, device=d), fnp.empty(0, device=d)),
    "ones": lambda d: fnp.ones((2, 2), "int32", device=d),
    "full": lambda d: fnp.full((2, 3), [1, 2, 3], "float32", device=d),
    "arange": lambda d: fnp.arange(1.0, 3.0, 0.5, device=d),
    "linspace": lambda d: fnp.linspace(0, 1, 3, retstep=True, device=d),
    "eye": lambda d: fnp.eye(2, 3, 1, device=d),
    "asarray": lambda d: (fnp.asarray([1, 2], device=d), fnp.asarray(2.0, "float32", device=d)),
    "array": lambda d: fnp.array([True], ndmin=2, device=d),
    "astype": lambda d: fnp.astype(X, "float32", device=d),
    "fftfreq": lambda d: (fnp.fft.fftfreq(4, device=d), fnp.fft.rfftfreq(4, 0.5, device=d)),
    "zeros_like": lambda d: (fnp.zeros_like(X, device=d), fnp.ones_like(X, "int8", device=d)),
    "full_like": lambda d: (fnp.full_like(X, 2, device=d), fnp.empty_like(X, device=d)),
    "from_dlpack": lambda d: fnp.from_dlpack(X, device=d),
}


@together("make", NEW.values(), ids=NEW)
def test_new_arrays_on_a_device(make: Callable[[Any], Any]) -> None:
    fake = FakeDevice("fake:new")
    expected = fg.tree.leaves(make(None))
    for place in (fake, "fake:new", fg.put(X, fake).device, "cpu"):
        for leaf, wanted in zip(fg.tree.leaves(make(place)), expected, strict=True):
            assert leaf.device == getattr(place, "name", place)
            assert (leaf.dtype, leaf.shape) == (wanted.dtype, wanted.shape)
            assert np.asarray(leaf).tobytes() == np.asarray(wanted).tobytes()


def test_new_arrays_beside_others(device: FakeDevice) -> None:
    x = fg.put(X, device)
    for f in (
        lambda x: x + fnp.zeros(3, device=device),
        lambda x: fnp.asarray(x, device=device) * 1.0,
        lambda x: x * fnp.full_like(x, 1.0, device=device),
        lambda x: fnp.linspace(x, 2 * x, 2, device=device)[0],
    ):
        for run in (f, fg.jit(f), fg.grad(lambda x, f=f: fnp.sum(f(x) ** 2) / 2), fg.vmap(f)):
            out = run(x if run is not fg.vmap else x[None])
            assert out.device == device.name
    other = fg.put(X, FakeDevice(device.name))
    assert x.device != other.device
    assert x.device == device.name == other.device


def test_arrays_of_other_libraries_that_are_elsewhere(device: FakeDevice) -> None:
    class Elsewhere:
        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, 0

        def __dlpack__(self, **options: object) -> object:
            raise BufferError("not here")

    class Reading(FakeDevice):
        def imported(self, array: Elsewhere) -> Any:
            assert isinstance(array, Elsewhere)
            return Chip(X, self.counts), X.shape, X.dtype

    reading = Reading(f"{device.name}, reading")
    made: Any
    for made in (fg.put(Elsewhere(), reading), fnp.from_dlpack(Elsewhere(), device=reading)):
        assert made.device == reading.name
        np.testing.assert_array_equal(made, X)
    assert reading.counts.puts == 0
    for place in (device, "cpu"):
        with pytest.raises(errors.DlpackError, match="from_dlpack"):
            fnp.from_dlpack(Elsewhere(), device=place)
    with pytest.raises(errors.DlpackError, match=r"put: .* reads main memory only"):
        fg.put(Elsewhere(), device)


def test_labels_are_not_checked_since_that_would_wait(device: FakeDevice) -> None:
    scores, labels = fg.put((np.eye(3), np.arange(3)), device)
    loss = lambda x: fnp.sum(fg.nn.cross_entropy(x, labels))  # noqa: E731
    for f in (loss, fg.jit(loss), fg.grad(loss), fg.jit(fg.grad(loss))):
        f(scores)
        gets, looks = device.counts.gets, device.counts.looks
        assert f(scores).device == device.name
        assert (device.counts.gets, device.counts.looks) == (gets, looks)


def test_programs_and_pullbacks_with_values_on_a_device_are_saved(
    device: FakeDevice, tmp_path: Path
) -> None:
    x = fg.put(X, device)

    program = fg.program(partial(fnp.multiply, x))(2.0)
    again = fg.Program.from_json(program.to_json())
    np.testing.assert_array_equal(again(3.0), 3.0 * X)
    program.to_module(tmp_path / "module.py")
    module = runpy.run_path(str(tmp_path / "module.py"))
    np.testing.assert_array_equal(module[program.name](3.0), 3.0 * X)
    pullback = pickle.loads(pickle.dumps(fg.vjp(fnp.sin, x)[1]))
    assert pullback(x)[0].device == device.name
    np.testing.assert_allclose(pullback(x)[0], np.cos(X) * X)


def test_random_words_are_the_same(device: FakeDevice) -> None:
    key = fg.random.key(7)
    drawn = fg.random.normal(fg.put(key, device), (5,))
    assert drawn.device == device.name
    assert fg.get(drawn).tobytes() == fg.random.normal(key, (5,)).tobytes()


# --------------------------------------------------------------------------------------- transfers


def test_a_training_step_transfers_nothing_and_keeps_nothing(device: FakeDevice) -> None:
    params = fg.put({"w": np.ones((3, 2)), "b": np.zeros(2)}, device)
    x, y = fg.put((np.ones((4, 3)), np.ones((4, 2))), device)
    rule = fg.optim.adam(0.01)

    def loss(params: Any) -> Any:
        return fnp.mean((fnp.tanh(x @ params["w"] + params["b"]) - y) ** 2)

    def step(params: Any, state: Any) -> Any:
        value, gradient = fg.value_and_grad(loss)(params)
        updates, state = rule.update(gradient, state, params)
        return fg.optim.apply_updates(params, updates), state, value

    for run in (step, fg.jit(step)):
        now: list[Any] = [params, rule.init(params)]
        for _ in range(3):
            *now, value = run(*now)
        gc.collect()
        counts = device.counts
        before = counts.puts, counts.gets, counts.looks, counts.compilations, counts.alive
        value = None
        for _ in range(20):
            *now, value = run(*now)
        after = counts.puts, counts.gets, counts.looks, counts.compilations, counts.alive
        assert before == after
        assert isinstance(value, fg.Tensor)
        assert value.device == device.name


def test_what_is_shown_without_a_copy(device: FakeDevice) -> None:
    x = fg.put(X, device)
    assert repr(x) == f"Tensor(float64[3] on {device.name})"
    assert (x.device, x.shape, x.dtype, x.nbytes, len(x)) == (device.name, (3,), X.dtype, 24, 3)
    fg.grad(lambda x: (repr(x), fnp.sum(x))[1])(x)
    assert device.counts.gets == 0
    assert str(x) == str(X)
    assert f"{x[1]:.2f}" == "1.25"
    assert device.counts.gets == 2


def test_conversions_copy(device: FakeDevice) -> None:
    x = fg.put(X, device)
    array = np.asarray(x)
    assert not array.flags.writeable
    assert (x.tolist(), float(x[0]), bool(x[0]), int(x[2])) == (X.tolist(), 0.5, True, 2)
    assert x.to_device("cpu").device == "cpu"
    np.testing.assert_array_equal(np.from_dlpack(x), X)
    assert [float(row) for row in x] == X.tolist()
    back = fg.get({"x": x, "n": fg.tensor(2.0)})
    assert type(back["x"]) is type(back["n"]) is fg.Tensor


def test_put_copies_arrays_and_keeps_bits(device: FakeDevice) -> None:
    array = np.array([1.0, -0.0, np.nan])
    x = fg.put(array, device)
    array[:] = 5.0
    assert np.asarray(x).tobytes() == np.array([1.0, -0.0, np.nan]).tobytes()
    assert fg.put(x, device) is x
    assert np.asarray(fg.put(2.0, device)).dtype == np.float64


def test_pickles_stay_on_their_device(device: FakeDevice) -> None:
    x = pickle.loads(pickle.dumps(fg.put(X, device)))
    assert x.device == device.name
    np.testing.assert_array_equal(x, X)


def test_a_pickle_of_a_missing_device_says_what_to_do() -> None:
    pickled = pickle.dumps(fg.put(X, FakeDevice("fake:gone"))).replace(b"fake:gone", b"fake:lost")
    with pytest.raises(errors.DeviceError, match=r"no device 'fake:lost'.*fg\.io\.load\(path, dev"):
        pickle.loads(pickled)


def test_files(device: FakeDevice, tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    fg.io.save(path, {"x": fg.put(X, device), "n": 3})
    loaded = fg.io.load(path, device=device)
    assert (loaded["x"].device, loaded["n"]) == (device.name, 3)
    host = fg.io.load(path, like={"x": loaded["x"], "n": 3})
    assert host["x"].device == "cpu"
    np.testing.assert_array_equal(host["x"], X)
    with fg.io.Checkpoints(tmp_path / "run") as checkpoints:
        checkpoints.save(1, {"x": loaded["x"]})
    assert (state := checkpoints.latest(device=device)) is not None
    assert state[1]["x"].device == device.name


def test_causes_of_nan_are_found(device: FakeDevice) -> None:
    x = fg.put(X, device)
    with pytest.raises(NonFiniteError, match="log"):
        fg.debug.nans(lambda x: fnp.sum(fnp.log(x - 1.0)))(x)


# ------------------------------------------------------------------------------------------ jit


def test_jit_runs_one_program(device: FakeDevice) -> None:
    x, f = fg.put(X, device), fg.jit(lambda x, k: fnp.sum(fnp.sin(x) * k) + 1.0)
    f(x, 2.0)
    launches = device.counts.launches
    for k in range(5):
        np.testing.assert_allclose(float(f(x, float(k))), np.sum(np.sin(X) * k) + 1.0)
    assert device.counts.launches == launches + 5
    assert f.stagings == 1


def test_jit_puts_arguments_on_its_device(device: FakeDevice) -> None:
    f = fg.jit(lambda x: x * 2.0, device=device)
    array = np.array(X)
    results = [f(array) for _ in range(3)]
    array[:] = 0.0
    for out in results:
        assert out.device == device.name
        np.testing.assert_array_equal(out, 2.0 * X)


def test_jit_takes_closed_over_values_along(device: FakeDevice) -> None:
    weights, table = fg.put(X, device), np.arange(3.0)
    x, f = fg.put(X, device), fg.jit(lambda x, k: fnp.sum(x * table + weights) * k)
    f(x, 1.0)
    before = device.counts.puts
    outs = [float(f(x, 2.0)) for _ in range(3)]
    assert device.counts.puts == before
    np.testing.assert_allclose(outs, 2.0 * np.sum(X * table + X))
    assert fg.jit(lambda k: weights * k)(2.0).device == device.name
    assert fg.jit(lambda: weights * 2.0)().device == device.name


def test_lower_shows_the_program_of_the_device(device: FakeDevice) -> None:
    x, f = fg.put(X, device), fg.jit(lambda k: x * k)
    for lowered in (f.lower(2.0), fg.jit(squared).lower(x)):
        assert lowered.backend is device
        assert "multiply" in str(lowered)


def test_guards_look_at_one_number(device: FakeDevice) -> None:
    f = fg.jit(_branching)
    large, small = fg.put(X, device), fg.put(0.1 * X, device)
    for x in (large, small, large, small):
        np.testing.assert_allclose(f(x), _branching(np.asarray(x)))
    assert f.stagings == 2
    gets = device.counts.gets
    f(large)
    assert device.counts.gets == gets


# ------------------------------------------------------------------- operations that it lacks


def test_lacking_operations_run_on_the_host_with_one_warning() -> None:
    fake = FakeDevice("fake:lacking", frozenset({"sort"}))
    x = fg.put(X[::-1], fake)
    with pytest.warns(DeviceWarning, match=r"fake:lacking cannot compute sort \(at test_devices"):
        np.testing.assert_array_equal(fnp.sort(x), X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for f in (fnp.sort, fg.jit(lambda x: fnp.sort(x) * 2.0), fg.jit(fnp.sort)):
            assert f(x).device == "fake:lacking"
        np.testing.assert_array_equal(fg.jit(lambda x: fnp.sort(x) * 2.0)(x), X * 2.0)
        np.testing.assert_array_equal(fg.grad(lambda x: fnp.sum(fnp.sort(x) * x))(x), [1, 2.5, 4])


def test_host_never_refuses_them() -> None:
    fake = FakeDevice("fake:never", frozenset({"sort"}))
    x = fg.put(X, fake, host="never")
    for f in (fnp.sort, fg.jit(fnp.sort), lambda x: fnp.sort(x * fg.put(X, fake))):
        with pytest.raises(DeviceError, match=r'cannot compute sort.*host="never"'):
            f(x)
    assert fake.counts.gets == 0
    np.testing.assert_array_equal(x * fg.put(X, fake), X * X)


def test_too_little_memory_is_explained() -> None:
    explained = pytest.raises(MemoryError, match=r"RESOURCE_EXHAUSTED: planted\. .*smaller batches")
    with explained, memory_errors():
        raise RuntimeError("RESOURCE_EXHAUSTED: planted.\nlong")
    with pytest.raises(RuntimeError, match="another"), memory_errors():
        raise RuntimeError("another")


# ------------------------------------------------------------------------------------- threads


def test_threads(device: FakeDevice) -> None:
    x, f, wrong = fg.put(X, device), fg.jit(lambda x, k: fnp.sin(x) * k), []

    def work(k: int) -> None:
        for _ in range(20):
            if not np.array_equal(np.asarray(f(x, float(k))), np.sin(X) * k):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# --------------------------------------------------------------------------------- check_backend


@pytest.mark.slow
def test_check_backend_accepts_the_fake_device() -> None:
    fg.testing.check_backend(FakeDevice("fake:checked"))


class _Sharing(FakeDevice):
    def compile(self, program: Any) -> Any:
        self.held = getattr(self, "held", [])
        compiled = super().compile(program)

        def run(*inputs: Any) -> Any:
            outs = compiled.run(*inputs)
            self.held += [out for out in outs or () if type(out) is Chip]
            return outs

        return Compiled(run)


class _Losing(FakeDevice):
    def get(self, handle: Chip) -> Any:
        return super().get(handle) + 0


@together(("kind", "text"), [(_Sharing, "is kept after"), (_Losing, r"get\(\)")])
def test_check_backend_finds_planted_mistakes(kind: type[FakeDevice], text: str) -> None:
    with pytest.raises(CheckError, match=text):
        fg.testing.check_backend(kind(f"fake:{kind.__name__}"), kinds=("behaviour",))


class _Linked(FakeDevice):
    def sent(self, handle: Chip, other: object) -> Chip | None:
        return Chip(self._read(handle), other.counts) if isinstance(other, _Linked) else None


def test_copies_between_linked_devices_do_not_pass_the_host() -> None:
    first, second, other = _Linked("fake:1"), _Linked("fake:2"), FakeDevice("fake:3")
    x = fg.put(X, first)
    y, z = fg.put(x, second), fg.put(x, other)
    assert first.counts.gets == other.counts.puts == 1
    assert second.counts.puts == 0
    assert (x.device, y.device, z.device) == ("fake:1", "fake:2", "fake:3")
    for moved in (y, z):
        np.testing.assert_array_equal(fg.get(moved * 2.0), X * 2.0)


def test_a_missing_jaxlib_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)  # as where jaxlib is missing
    with pytest.raises(errors.MissingPackageError, match=r"jaxlib is not installed.*pip install"):
        jax_library()


def test_devices_lists_the_host_first() -> None:
    assert fg.put(fg.tensor([1.0]), fg.devices()[0]).device == fg.devices()[0] == "cpu"

"""Chunks of all kinds: arrays, files, functions, rows of files; what a worker keeps of them."""

from __future__ import annotations

import gc
import pickle
import weakref
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
from funcgrad import io, parallel
from funcgrad.errors import ArgumentError, LeafError, ShapeError
from funcgrad.parallel.worker_store import ChunkStore
from tests.parallel.losses import bits, data, logged_rows, loss, params, plain, rows_of


@pytest.fixture(scope="module", params=["threads", "processes"])
def executor(request) -> Iterator[Executor]:
    if request.param == "threads":
        made: Executor = ThreadPoolExecutor(2)
    else:
        made = ProcessPoolExecutor(2, mp_context=get_context("forkserver"))
    with made:
        yield made


def expected(chunks: list[Any]) -> list[bytes]:
    return bits(plain(fg.value_and_grad(loss), chunks, params()))


def test_functions_load_in_the_worker_and_data_stay_there(executor, tmp_path):
    chunks = [partial(logged_rows, str(tmp_path), number) for number in range(6)]
    f = parallel.value_and_grad(loss, executor)
    for _ in range(4):
        assert bits(f(params(), chunks)) == expected([rows_of(number) for number in range(6)])
    loads = [path.name.partition("-")[0] for path in tmp_path.iterdir()]
    assert set(loads) == set("012345")
    assert len(loads) <= 12  # once a worker, of which each may get each chunk


def test_a_worker_that_may_keep_nothing_loads_again(tmp_path):
    chunks = [partial(logged_rows, str(tmp_path), number) for number in range(3)]
    with ThreadPoolExecutor(1) as executor:
        f = parallel.grad(loss, executor, keep=0)
        f(params(), chunks)
        f(params(), chunks)
    assert len(list(tmp_path.iterdir())) == 2 * 3 + 1  # once more to stage the function


def test_what_fits_is_kept_and_other_runs_make_room():
    store = ChunkStore()
    loads: list[str] = []

    def load(name: str, size: int = 10) -> Any:
        loads.append(name)
        return [np.zeros(size)]

    for _ in range(3):  # of three chunks of 80 bytes two fit: they stay, whatever the order
        for name in "abc":
            store.chunk(name, "first", 160, partial(load, name))
    assert loads == ["a", "b", "c", "c", "c"]
    store.chunk("d", "second", 160, lambda: load("d"))
    store.chunk("d", "second", 160, lambda: load("d"))
    store.chunk("b", "second", 160, lambda: load("b"))
    assert loads[5:] == ["d"]


def test_files(executor, tmp_path):
    chunks = [rows_of(number) for number in range(3)]
    np.savez(tmp_path / "0.npz", **chunks[0])
    io.save(tmp_path / "1.safetensors", chunks[1])
    np.savez(tmp_path / "2.npz", **chunks[2])
    paths = [tmp_path / "0.npz", str(tmp_path / "1.safetensors"), tmp_path / "2.npz"]
    f = parallel.value_and_grad(loss, executor)
    assert bits(f(params(), paths)) == expected(chunks)
    np.savez(tmp_path / "2.npz", x=chunks[2]["x"], y=chunks[2]["y"] + 1.0)
    changed = {"x": chunks[2]["x"], "y": chunks[2]["y"] + 1.0}
    assert bits(f(params(), paths)) == expected([*chunks[:2], changed])
    np.save(tmp_path / "x.npy", np.arange(3.0))
    total = parallel.reduce(lambda x: x.sum(), lambda a, b: a + b, executor)
    assert float(total([tmp_path / "x.npy"])) == 3.0


def test_tensors_and_mixed_chunks(executor):
    chunks = [rows_of(number) for number in range(3)]
    mixed = [fg.tree.map(fg.tensor, chunks[0]), partial(rows_of, 1), chunks[2]]
    f = parallel.value_and_grad(loss, executor)
    for _ in range(2):
        assert bits(f(params(), mixed)) == expected(chunks)


def test_columns_and_strides_have_the_bits_of_contiguous_arrays(executor):
    whole = np.random.default_rng(0).normal(size=(14, 80))
    strided = [{"x": whole.T[40:, ::2], "y": whole[3, 40:]} for _ in range(2)]
    contiguous = fg.tree.map(np.ascontiguousarray, strided)
    f = parallel.value_and_grad(loss, executor)
    assert bits(f(params(), strided)) == expected(contiguous)


def test_rows_of_hdf5_and_zarr(executor, tmp_path):
    whole = data()
    expected_bits = expected(parallel.slices(whole, 60))
    f = parallel.value_and_grad(loss, executor)
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "data.h5", "w") as file:
        for name, array in whole.items():
            file[f"group/{name}"] = array
    with h5py.File(tmp_path / "data.h5", "r") as file:
        chunks = parallel.slices({name: file["group"][name] for name in whole}, 60)
        assert all(map(callable, chunks))
        assert bits(f(params(), chunks)) == expected_bits
    zarr = pytest.importorskip("zarr")
    for name, array in whole.items():
        zarr.save_array(str(tmp_path / f"{name}.zarr"), array)
    arrays = {name: zarr.open_array(str(tmp_path / f"{name}.zarr"), mode="r") for name in whole}
    assert bits(f(params(), parallel.slices(arrays, 60))) == expected_bits


def test_dask_arrays_and_bags_on_any_executor(executor):
    dask_array, dask_bag = pytest.importorskip("dask.array"), pytest.importorskip("dask.bag")
    x = np.arange(24.0).reshape(8, 3)
    square = parallel.value_and_grad(lambda w, chunk: ((chunk @ w) ** 2).sum(), executor, "sum")
    array = dask_array.from_array(x, chunks=(3, 2))
    value, gradient = square(np.ones(3), array)
    assert float(value) == ((x @ np.ones(3)) ** 2).sum()
    assert gradient.shape == (3,)
    records = [{"x": row, "y": np.float64(k)} for k, row in enumerate(x)]
    bag = dask_bag.from_sequence(records, npartitions=3)
    error = parallel.grad(lambda w, c: ((c["x"] @ w - c["y"]) ** 2).sum(), executor, "sum")
    whole = {"x": x, "y": np.arange(8.0)}
    np.testing.assert_allclose(
        error(np.ones(3), bag),
        fg.grad(lambda w: ((whole["x"] @ w - whole["y"]) ** 2).sum())(np.ones(3)),
    )


def test_a_function_may_have_a_key_of_its_own(tmp_path):
    class Rows:
        key = "the rows of the first of May"

        def __call__(self) -> Any:
            return logged_rows(str(tmp_path), 1)

    with ThreadPoolExecutor(1) as executor:
        f = parallel.grad(loss, executor)
        f(params(), [Rows()])
        f(params(), [Rows()])
    assert len(list(tmp_path.iterdir())) == 1


def test_files_that_another_machine_cannot_read_are_sent(monkeypatch):
    from funcgrad.parallel import shared_files

    class Elsewhere(Executor):
        """Workers that see none of this machine's files."""

        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
            with ThreadPoolExecutor(1) as one, monkeypatch.context() as patched:
                patched.setattr(shared_files, "open", refuse, raising=False)
                future = one.submit(fn, *pickle.loads(pickle.dumps(args)), **kwargs)
                future.exception()
                return future

    def refuse(path: str, mode: str) -> Any:
        raise FileNotFoundError(path)

    chunks = [rows_of(number) for number in range(3)]
    f = parallel.value_and_grad(loss, Elsewhere())
    for _ in range(2):
        assert bits(f(params(), chunks)) == expected(chunks)
    squares = parallel.map(lambda x: x * x, Elsewhere())
    assert [float(square) for square in squares([1.0, 2.0])] == [1.0, 4.0]


# -------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize("chunks", [np.ones(3), {"x": np.ones(3)}, "data.npz", 3.0, None])
def test_what_is_no_list_of_chunks_is_refused(chunks, executor):
    with pytest.raises(ArgumentError, match=r"parallel\.grad: chunks has to be a list of chunks"):
        parallel.grad(loss, executor)(params(), chunks)


def test_no_chunks(executor):
    with pytest.raises(ArgumentError, match=r"chunks is empty"):
        parallel.grad(loss, executor)(params(), [])


def test_what_is_no_chunk_is_refused(executor):
    with pytest.raises(LeafError, match=r"parallel\.grad: chunks\[1\].*a function without"):
        parallel.grad(loss, executor)(params(), [rows_of(0), {"x": object()}])
    with pytest.raises(
        ArgumentError, match=r"chunks\[0\] is the file 'data.csv', but the known formats"
    ):
        parallel.grad(loss, executor)(params(), ["data.csv"])


@pytest.mark.parametrize("size", [0, -1, 2.0, None])
def test_slices_of_no_size(size):
    with pytest.raises(ArgumentError, match=r"slices: size has to be an integer >= 1"):
        parallel.slices(np.ones(3), size)


def test_slices_of_unequal_lengths():
    with pytest.raises(ShapeError, match=r"slices: .*equal numbers of rows.*\(3,\), \(4,\)"):
        parallel.slices((np.ones(3), np.ones(4)), 2)
    with pytest.raises(ShapeError, match=r"slices: "):
        parallel.slices(np.array(1.0), 2)
    with pytest.raises(LeafError, match=r"slices: expected arrays with rows, got float"):
        parallel.slices([1.0, 2.0], 2)


def test_shared_files_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    class AtOnce(Executor):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
            with ThreadPoolExecutor(1) as one:
                return one.submit(fn, *args, **kwargs)

    f = parallel.grad(loss, AtOnce())
    for _ in range(3):
        f(params(), [rows_of(0)])
        assert len(list(tmp_path.iterdir())) == 2  # the code and the chunk: not the parameters
    f(params(), [rows_of(1)])
    assert len(list(tmp_path.iterdir())) == 2
    del f
    assert list(tmp_path.iterdir()) == []


def test_processes_hold_no_former_parameters():
    maps = Path("/proc/self/maps")
    if not maps.exists():
        pytest.skip("only Linux lists what a process has mapped")
    with ProcessPoolExecutor(1, mp_context=get_context("forkserver")) as pool:
        f = parallel.reduce(lambda c, w: (w * c).sum(), lambda a, b: a + b, pool)
        for number in range(4):
            f([np.float64(1.0)], np.full(100_000, float(number)))
        assert "funcgrad-" not in pool.submit(maps.read_text).result()


def test_a_file_of_hdf5_that_changed_is_read_again(tmp_path):
    h5py = pytest.importorskip("h5py")
    path, held = tmp_path / "rows.h5", np.arange(60_000.0)

    def write(factor: float, rows: int) -> None:
        with h5py.File(path, "w") as file:
            file["x"] = np.full(rows, factor)

    write(1.0, len(held))
    with h5py.File(path, "r") as file:
        chunks = parallel.slices({"x": file["x"], "y": held}, 9_000)
    assert len(pickle.dumps(chunks[-1])) < 60_000  # its rows of the array in memory, not all
    total = parallel.reduce(lambda c: (c["x"] * c["y"]).sum(), lambda a, b: a + b, threads())
    first = float(total(chunks))
    write(2.0, len(held) + 1)  # another size: another time is not sure to be seen
    assert float(total(chunks)) == 2 * first == 2 * held.sum()


def threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(2)


def test_chunks_that_threads_keep_go_with_the_function():
    loaded: list[Any] = []

    def load() -> Any:
        rows = rows_of(0)
        loaded.append(weakref.ref(rows["x"]))
        return rows

    f = parallel.grad(loss, threads())
    f(params(), [load])
    f(params(), [load])
    assert len(loaded) == 1
    assert loaded[0]() is not None
    del f
    gc.collect()
    assert loaded[0]() is None

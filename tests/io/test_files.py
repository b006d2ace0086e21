"""Trees come back from files with their bits, their structures and their kinds of leaves."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import io, optim
from funcgrad._core.specs import DTYPES, Spec, dtype_of
from funcgrad._core.trace import concrete
from funcgrad.errors import ArgumentError, DtypeError, LeafError, RangeError, TracerError, TreeError
from tests.together import together

SUFFIXES = ("safetensors", "npz")


@pytest.fixture(params=SUFFIXES)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / f"tree.{request.param}"


@fg.pytree
class Affine:
    weight: Any
    bias: Any
    activation: Any = fg.static_field(default="relu")


class Moments(NamedTuple):
    mean: Any
    square: Any


def same(x: Any, y: Any) -> bool:
    """Whether two values have one type, dtype, shape and bits."""
    first, second = np.asarray(x), np.asarray(y)
    bits = first.tobytes() == second.tobytes()
    return bits and (first.dtype, first.shape) == (second.dtype, second.shape)


def samples(dtype: np.dtype[Any]) -> Any:
    """Arrays of all shapes, with all kinds of numbers, by their names."""
    numbers = np.random.default_rng(0).integers(0, 2, 24) if dtype.kind == "b" else np.arange(24)
    grid = numbers.astype(dtype).reshape(2, 3, 4)
    if dtype.kind in "fc":
        grid.reshape(-1)[:4] = [np.nan, -np.inf, -0.0, np.finfo(dtype).tiny]
    if dtype.kind == "c":
        grid = grid * np.asarray(1 - 2j, dtype)
    return {
        "grid": grid,
        "transposed": grid.T,
        "reversed": grid[::-1, :, ::2],
        "broadcast": np.broadcast_to(grid[0, 0], (3, 4)),
        "fortran": np.asfortranarray(grid),
        "zero": grid[1, 1, 1],
        "zero_d": np.array(grid[1, 1, 2]),
        "empty": grid[:0],
        "empty_within": grid[:, :0],
        "extremes": np.array([np.iinfo(dtype).min, np.iinfo(dtype).max], dtype)
        if dtype.kind in "iu"
        else grid[0],
    }


@pytest.mark.filterwarnings("ignore:invalid value")
@together("dtype", sorted(DTYPES, key=str), ids=lambda dtype: dtype.char)
def test_every_dtype_and_layout_comes_back_with_its_bits(path: Path, dtype: Any) -> None:
    tree = samples(dtype)
    io.save(path, tree)
    io.verify(path)
    for loaded in (io.load(path), io.load(path, like=tree)):
        assert all(isinstance(leaf, fg.Tensor) for leaf in loaded.values())
        for name in tree:
            assert same(loaded[name], tree[name].astype(loaded[name].dtype)), name
            assert dtype_of(concrete(loaded[name])) is np.dtype(dtype.type)  # which code knows
    assert io.describe(path).tensors["transposed"].shape == (4, 3, 2)
    assert io.describe(path).tensors["grid"].dtype == dtype.name


def test_big_endian_arrays_come_back_in_the_machine_s_order(path: Path) -> None:
    tree = {
        "x": np.array([1.0, 2.0], ">f8"),
        "y": np.array(3 + 4j, ">c16"),
        "z": np.array([5], ">i2"),
    }
    io.save(path, tree)
    loaded = io.load(path)
    assert all(leaf.dtype.isnative for leaf in loaded.values())
    assert [leaf.tolist() for leaf in loaded.values()] == [[1.0, 2.0], 3 + 4j, [5]]


def test_an_archive_with_other_layouts_is_read(tmp_path: Path) -> None:
    x = np.arange(6.0).reshape(2, 3)
    np.savez_compressed(tmp_path / "x.npz", a=x.astype(">f4"), b=np.asfortranarray(x), c=x[0, 1])
    loaded = io.load(tmp_path / "x.npz")
    assert loaded["a"].dtype == np.float32
    assert loaded["a"].tolist() == loaded["b"].tolist() == x.tolist()
    assert loaded["c"].shape == ()


def test_an_archive_may_have_a_comment(tmp_path: Path) -> None:
    path = tmp_path / "tree.npz"
    io.save(path, {"a": np.ones(3)})
    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = b"made on a Sunday"
    assert io.load(path)["a"].tolist() == [1.0, 1.0, 1.0]


def test_numpy_reads_our_archives(tmp_path: Path) -> None:
    io.save(tmp_path / "x.npz", {"a": [1.0, {"b": fnp.arange(3)}], "c": 1j})
    with np.load(tmp_path / "x.npz", allow_pickle=False) as archive:
        assert archive["a.1.b"].tolist() == [0, 1, 2]
        assert archive["c"].dtype == complex


def test_containers_and_numbers_come_back_as_they_were(path: Path) -> None:
    tree = {
        "list": [1, [2.5, (True, 1 - 2j)], [], ()],
        "none": None,
        "keys": {3: 1, 1: 2},
        "name": {"a.b": 1.0},
        "nan": float("nan"),
        "deep": {"x": ({"y": [np.float32(3.0)]},)},
        "big": 2**63,
    }
    io.save(path, tree)
    loaded = io.load(path)
    assert repr(loaded.pop("deep")) == "{'x': ({'y': [Tensor(3.0, dtype=float32)]},)}"
    assert repr(loaded.pop("nan")) == "nan"
    expected = {key: value for key, value in tree.items() if key not in ("deep", "nan")}
    assert loaded == expected
    assert repr(loaded) == repr(dict(sorted(expected.items()))).replace(
        "{3: 1, 1: 2}", "{1: 2, 3: 1}"
    )


@together("tree", [3.0, None, [], {}, fnp.ones((2, 2)), np.float16(2.0)])
def test_a_tree_may_be_one_leaf_or_none(path: Path, tree: Any) -> None:
    io.save(path, tree)
    assert repr(io.load(path)) == repr(fg.tensor(tree) if hasattr(tree, "dtype") else tree)
    assert repr(io.load(path, like=tree)) == repr(io.load(path))


def test_a_deep_tree_needs_no_recursion(path: Path) -> None:
    tree: Any = fg.tensor(1.0)
    for _ in range(3000):
        tree = [tree]
    io.save(path, tree)
    loaded = io.load(path)
    for _ in range(3000):
        (loaded,) = loaded
    assert float(loaded) == 1.0


def test_classes_come_back_by_like_only(path: Path) -> None:
    model = {
        "layers": [Affine(np.ones((2, 3)), np.zeros(2)), Affine(np.ones(1), 0.5, np.tanh)],
        "moments": Moments(np.ones(1), (np.zeros(2),)),
        "ordered": OrderedDict(z=1.0, a=2.0),
    }
    io.save(path, model)
    loaded: Any = io.load(path, like=model)
    assert type(loaded["layers"][1]) is Affine
    assert loaded["layers"][1].activation is np.tanh
    assert type(loaded["moments"]) is Moments
    assert type(loaded["ordered"]) is OrderedDict
    plain = io.load(path)
    assert plain["layers"][1]["bias"] == 0.5
    assert list(plain["layers"][0]) == ["weight", "bias"]
    assert list(plain["moments"]) == ["mean", "square"]
    assert list(plain["ordered"]) == ["z", "a"]
    assert io.describe(path).statics == {
        "layers.0.activation": "'relu'",
        "layers.1.activation": io.describe(path).statics["layers.1.activation"],
    }


def test_static_fields_are_compared(path: Path) -> None:
    model = [Affine(np.ones(1), 0.0, (max, frozenset("ab"), 1.5, None))]
    io.save(path, model)
    assert io.load(path, like=model)[0].activation == model[0].activation
    other = [Affine(np.ones(1), 0.0, (min, frozenset("ab"), 1.5, None))]
    with pytest.raises(
        TreeError, match=r"0\.activation: static \(builtins\.max, .*\(builtins\.min"
    ):
        io.load(path, like=other)
    assert io.load(path, like=other, strict=False)[0].activation[0] is min


STATIC = """
import sys, funcgrad as fg
from funcgrad import io
from dataclasses import dataclass
class Plain: pass
@fg.pytree
class Layer:
    x: object
    static: object = fg.static_field()
def f(x): return x
layer = Layer(1.0, (f, frozenset(map(str, range(9))), Plain()))
path = sys.argv[1]
if len(sys.argv) > 2: io.save(path, layer)
print(len(repr(io.load(path, like=layer))) > 0)
"""


def test_static_fields_have_one_text_in_every_process(tmp_path: Path) -> None:
    # Sets are in another order, and objects at other addresses.
    command = [sys.executable, "-c", STATIC, str(tmp_path / "x.safetensors")]
    for more in (["save"], []):
        subprocess.run([*command, *more], check=True)


def test_a_run_s_whole_state_comes_back(path: Path) -> None:
    params = {"w": fg.random.normal(fg.random.key(1), (3, 2)), "b": fnp.zeros(2)}
    optimizer = optim.adam(1e-2)
    state = optimizer.init(params)
    _, state = optimizer.update(params, state, params)
    whole = (params, state, fg.random.key(2**70), 17)
    io.save(path, whole)
    loaded = io.load(path, like=(params, optimizer.init(params), fg.random.key(0), 0))
    assert type(loaded[1]) is type(state)
    assert loaded[3] == 17
    pairs = zip(fg.tree.leaves(loaded), fg.tree.leaves(whole), strict=True)
    assert all(same(x, y) for x, y in pairs)
    fresh, ours = fg.random.normal(loaded[2], 3), fg.random.normal(whole[2], 3)
    assert same(fresh, ours)


def test_like_may_be_specs(path: Path) -> None:
    io.save(path, {"x": np.ones(3, np.float32)})
    like: Any = {"x": Spec((3,), np.dtype("float32"))}
    assert io.load(path, like=like)["x"].tolist() == [1, 1, 1]
    with pytest.raises(TreeError, match=r"float32\[3\] in the file, float32\[2\] in like"):
        io.load(path, like={"x": Spec((2,), np.dtype("float32"))})


# --------------------------------------------------------------------------------- differences


def test_one_error_lists_all_that_differs(path: Path) -> None:
    io.save(
        path, {"encoder": {"weight": np.ones(2), "bias": np.ones(1)}, "head": np.ones(3), "n": 1.5}
    )
    like = {
        "encoder": {"weights": np.ones(2), "bias": np.ones(1, "f4")},
        "head": np.ones(4),
        "n": 2,
    }
    with pytest.raises(TreeError) as caught:
        io.load(path, like)
    assert str(caught.value).splitlines() == [
        f"load: {str(path)!r} does not fit like=.",
        "missing in the file (1): encoder.weights (near it: encoder.weight)",
        "unexpected in the file (1): encoder.weight",
        "different (3): encoder.bias: float64[1] in the file, float32[1] in like;"
        " head: float64[3] in the file, float64[4] in like;"
        " n: float64[] in the file, a Python int in like",
        "Correct like=, or load the leaves that fit with strict=False.",
    ]
    unlike = io.differences(path, like)
    assert unlike.missing == ("encoder.weights",)
    assert unlike.unexpected == ("encoder.weight",)
    assert set(unlike.different) == {"encoder.bias", "head", "n"}
    assert not io.differences(path, io.load(path))
    assert str(io.differences(path, io.load(path))) == "no differences"


def test_what_fits_is_loaded_where_that_is_wanted(path: Path) -> None:
    io.save(path, {"a": np.full(2, 1.5), "b": np.ones(3), "c": np.ones(1), "z": 1 + 1j})
    like = {"a": np.zeros(2, "f4"), "b": np.zeros(4), "d": np.zeros(1), "z": np.zeros(())}
    loaded = io.load(path, like, strict=False)
    assert loaded["a"].dtype == np.float32
    assert loaded["a"].tolist() == [1.5, 1.5]
    assert loaded["b"] is like["b"]
    assert loaded["d"] is like["d"]
    assert loaded["z"] is like["z"]  # a complex number is not cut to its real part


def test_numbers_that_were_saved_are_loaded_like_themselves(path: Path) -> None:
    """Numbers at the ends of all dtypes, and Python's."""
    powers = [
        sign * 2**k + more for k in (31, 32, 53, 62, 63) for sign in (1, -1) for more in (-1, 0)
    ]
    numbers = {
        **{f"int {n}": n for n in (*powers, 2**64 - 1) if -(2**63) <= n < 2**64},
        **{f"float {x}": x for x in (1.7e308, -0.0, float("inf"), 5e-324)},
        "truth": True,
        "complex": 1e308 - 1j,
    }
    limits = {dtype.name: np.iinfo(dtype) for dtype in DTYPES if dtype.kind in "iu"}
    ends = {name: np.array([ii.min, ii.max], name) for name, ii in limits.items()}
    tree = {"numbers": numbers, "ends": ends, "end": {name: x[1] for name, x in ends.items()}}
    io.save(path, tree)
    for strict in (True, False):
        loaded = io.load(path, like=tree, strict=strict)
        assert loaded["numbers"] == numbers
        assert all(type(loaded["numbers"][name]) is type(x) for name, x in numbers.items())
        assert all(same(loaded["ends"][name], x) for name, x in ends.items())
        assert all(same(loaded["end"][name], x[1]) for name, x in ends.items())


@together(
    ("numbers", "like", "shown"),
    [
        ([1, 300], "i1", "300, which int8"),
        ([1, -129], "i1", "-129, which int8"),
        (np.array([2**63], "u8"), "i8", "9223372036854775808, which int64"),
        ([1.0, 1e300], "f4", r"1e\+300, which float32"),
        ([7e4], "f2", "70000.0, which float16"),
        ([2**40], "f2", "1099511627776, which float16"),
        ([1e300 + 1j], "c8", r"\(1e\+300\+1j\), which complex64"),
    ],
)
def test_no_number_wraps_or_becomes_infinite(
    path: Path, numbers: Any, like: str, shown: str
) -> None:
    io.save(path, {"x": {"y": np.array(numbers)}})
    template = {"x": {"y": np.zeros(len(numbers), like)}}
    with pytest.raises(RangeError, match=rf"load: 'x.y' holds {shown} cannot hold"):
        io.load(path, template, strict=False)
    io.save(path, {"x": {"y": np.array(numbers[:0])}})
    assert io.load(path, {"x": {"y": np.zeros(0, like)}}, strict=False)["x"]["y"].dtype == like


def test_numbers_that_are_infinite_in_the_file_stay_so(path: Path) -> None:
    io.save(path, {"x": np.array([np.inf, -np.inf, np.nan, 1e-300])})
    loaded = io.load(path, {"x": np.zeros(4, "f4")}, strict=False)["x"]
    np.testing.assert_array_equal(np.asarray(loaded), np.array([np.inf, -np.inf, np.nan, 0], "f4"))


def test_a_message_about_many_paths_stays_short(path: Path) -> None:
    io.save(path, {f"name{i}": 1.0 for i in range(1000)})
    with pytest.raises(TreeError, match=r"unexpected in the file \(1000\): .* and 970 more"):
        io.load(path, like={"x": 1.0})


# ------------------------------------------------------------------------------------ refusals


@together(
    ("tree", "reason"),
    [
        ({"a.b": 1.0, "a": {"b": 2.0}}, r"tree\['a'\]\['b'\] and tree\['a.b'\].*'a.b'"),
        ({1: 1.0, "1": 2.0}, r"would both be called '1'"),
        ({"__metadata__": 1.0}, "'__metadata__'"),
        ({"x": "text"}, r"tree\['x'\]"),
        ({"x": object()}, r"tree\['x'\]"),
        ({"x": {"half\ud800": 1.0}}, r"'x.half\\ud800' cannot be written .* lone surrogate"),
    ],
)
def test_trees_that_cannot_be_named_are_refused(path: Path, tree: Any, reason: str) -> None:
    with pytest.raises(LeafError, match=reason):
        io.save(path, tree)
    assert not path.exists()


@together("dtype", ["longdouble", "datetime64[s]", "U3", "O"])
def test_dtypes_that_no_tensor_has_are_refused(path: Path, dtype: str) -> None:
    with pytest.raises((DtypeError, LeafError)):
        io.save(path, {"x": np.zeros(2, dtype)})


def test_traced_leaves_are_refused(path: Path) -> None:
    def f(x):
        io.save(path, {"inner": x})
        return x

    for transform in (fg.grad, fg.vmap, fg.jit):
        with pytest.raises(TracerError, match="'inner' is traced"):
            transform(f)(fnp.ones(2) if transform is fg.vmap else 1.0)


def test_metadata_are_texts(path: Path) -> None:
    metadata: Any = {"format": "pt", "über": "ñ\n\"'"}
    io.save(path, {"x": 1.0}, metadata)
    assert io.describe(path).metadata == metadata
    with pytest.raises(DtypeError, match=r"json.dumps"):
        io.save(path, {"x": 1.0}, {"step": 3})  # type: ignore[dict-item]
    for wrong in ({"run": "\ud800"}, {"\ud800": "run"}):
        with pytest.raises(DtypeError, match="cannot be written to a file"):
            io.save(path, {"x": 1.0}, wrong)
    with pytest.raises(ArgumentError, match=r"rename 'funcgrad.tree'"):
        io.save(path, {"x": 1.0}, {"funcgrad.tree": "{}"})


def test_a_tuple_as_a_key_comes_back_as_a_text(path: Path) -> None:
    io.save(path, {(1, 2): 3.0})
    assert io.load(path) == {"(1, 2)": 3.0}
    assert io.load(path, like={(1, 2): 0.0}) == {(1, 2): 3.0}


def test_no_class_is_named_that_would_be_imported(tmp_path: Path) -> None:
    io.save(tmp_path / "x", [Affine(1.0, 2.0)])
    raw = (tmp_path / "x").read_bytes()
    length = int.from_bytes(raw[:8], "little")
    text = json.loads(raw[8 : 8 + length])["__metadata__"]["funcgrad.tree"]
    assert "tests" not in text

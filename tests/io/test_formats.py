"""Files of other libraries are read, others read ours, and damaged or forged ones are refused."""

from __future__ import annotations

import json
import os
import pickle
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import io
from funcgrad.errors import (
    ArgumentError,
    DtypeError,
    FileFormatError,
    MissingFileError,
    StorageError,
    TreeError,
)
from funcgrad.io.digests import Digests
from funcgrad.io.saving import digest_of_texts
from tests.together import together


def written(path: Path, header: Any, data: bytes = b"", length: int | None = None) -> Path:
    """Write a file by hand as the format is described, right or wrong."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)
    return path


def entry(dtype: str, shape: Any, begin: Any, end: Any) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tree.safetensors"


# ------------------------------------------------------------------------------ other libraries


def test_a_file_written_by_hand_is_read(path: Path) -> None:
    data = struct.pack("<3f", 1.0, -2.0, 0.5) + struct.pack("<2H", 0x3FC0, 0xC000) + b"\1\0"
    header = {
        "layers.0.weight": entry("F32", [3], 0, 12),
        "layers.0.bias": entry("BF16", [2, 1], 12, 16),
        "mask": entry("BOOL", [2], 16, 18),
        "empty": entry("I64", [0, 5], 18, 18),
    }
    written(path, header, data)
    loaded = io.load(path)
    assert loaded["layers.0.weight"].tolist() == [1.0, -2.0, 0.5]
    assert loaded["layers.0.bias"].tolist() == [[1.5], [-2.0]]
    assert loaded["layers.0.bias"].dtype == np.float32
    assert loaded["mask"].tolist() == [True, False]
    assert loaded["empty"].shape == (0, 5)
    assert io.describe(path).tensors["layers.0.bias"].dtype == "bfloat16"
    assert io.describe(path).nbytes == 18
    like = {"layers": [{"weight": fnp.zeros(3, "float32"), "bias": fnp.zeros((2, 1), "float32")}]}
    with pytest.raises(TreeError, match=r"unexpected in the file \(2\): mask, empty"):
        io.load(path, like)
    assert io.load(path, like, strict=False)["layers"][0]["bias"].tolist() == [[1.5], [-2.0]]


def test_every_bfloat16_is_read_exactly(path: Path) -> None:
    words = np.arange(2**16, dtype="<u2")
    written(path, {"x": entry("BF16", [2**16], 0, 2**17)}, words.tobytes())
    loaded = np.asarray(io.load(path)["x"])
    assert (loaded.view(np.uint32) >> 16 == words).all()
    assert not (loaded.view(np.uint32) & 0xFFFF).any()


def test_complex_numbers_may_be_pairs_in_others_files(path: Path) -> None:
    written(path, {"x": entry("F64", [1, 2], 0, 16)}, struct.pack("<2d", 3.0, 4.0))
    assert io.load(path)["x"].tolist() == [[3.0, 4.0]]
    assert io.load(path, like={"x": np.zeros(1, complex)})["x"].tolist() == [3 + 4j]


def test_our_files_are_what_the_format_describes(path: Path) -> None:
    io.save(path, {"half": np.ones(3, "f2"), "b": [np.zeros((2, 1)), True], "z": np.zeros(1, "F")})
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    assert length % 8 == 0
    header = json.loads(raw[8 : 8 + length])
    assert all(isinstance(text, str) for text in header.pop("__metadata__").values())
    assert {name: (each["dtype"], each["shape"]) for name, each in header.items()} == {
        "half": ("F16", [3]),
        "b.0": ("F64", [2, 1]),
        "b.1": ("BOOL", []),
        "z": ("C64", [1]),
    }
    ends = sorted(tuple(each["data_offsets"]) for each in header.values())
    assert [begin for begin, _ in ends] == [0, *(end for _, end in ends[:-1])]
    assert ends[-1][1] == len(raw) - 8 - length


def test_arrays_lie_at_multiples_of_their_size(path: Path) -> None:
    io.save(
        path, {"a": np.ones(3, bool), "b": np.ones(3, "f4"), "c": np.ones(1), "d": np.ones(2, "D")}
    )
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + length])
    sizes = {"BOOL": 1, "F32": 4, "F64": 8}
    del header["__metadata__"]
    assert [x["data_offsets"][0] % sizes[x["dtype"]] for x in header.values()] == [0] * 4


def test_safetensors_reads_our_files_and_we_read_its(path: Path) -> None:
    library = pytest.importorskip("safetensors.numpy")
    numbers = np.arange(6).reshape(2, 3)
    dtypes = "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64"
    arrays = {dtype: numbers.astype(dtype) for dtype in (*dtypes.split(), "complex64")}
    arrays |= {"zero": np.array(1.5), "empty": np.zeros((0, 3), "f4")}
    io.save(path, arrays | {"transposed": numbers.T})
    theirs = library.load_file(path)
    for name, array in arrays.items():
        assert theirs[name].dtype == array.dtype
        assert theirs[name].tolist() == array.tolist()
    assert theirs["transposed"].tolist() == numbers.T.tolist()
    library.save_file(arrays, path, {"by": "them"})
    ours = io.load(path)
    assert {name: ours[name].tolist() for name in ours} == {
        name: array.tolist() for name, array in arrays.items()
    }
    assert io.describe(path).metadata == {"by": "them"}


def test_torch_reads_our_files_and_we_read_its(path: Path) -> None:
    torch = pytest.importorskip("torch")
    library = pytest.importorskip("safetensors.torch")
    theirs = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU(), torch.nn.Linear(2, 1))
    library.save_file(theirs.state_dict(), path)

    def layer(inputs: int, outputs: int) -> dict[str, Any]:
        zeros = fnp.zeros((outputs, inputs), "float32")
        return {"weight": zeros, "bias": zeros[:, 0]}

    like = {0: layer(3, 2), 2: layer(2, 1)}
    ours = io.load(path, like)
    x = np.ones((4, 3), "f4")
    hidden = fnp.maximum(x @ ours[0]["weight"].T + ours[0]["bias"], 0)
    expected = theirs(torch.from_numpy(x)).detach().numpy()
    assert np.allclose(hidden @ ours[2]["weight"].T + ours[2]["bias"], expected, atol=1e-6)
    io.save(path, fg.tree.map(lambda leaf: leaf * 2, ours))
    theirs.load_state_dict(library.load_file(path))
    assert np.allclose(theirs[0].weight.detach().numpy(), np.asarray(ours[0]["weight"]) * 2)
    library.save_file({"x": torch.tensor([1.5, -2.0], dtype=torch.bfloat16)}, path)
    assert io.load(path)["x"].tolist() == [1.5, -2.0]


# ---------------------------------------------------------------------------------- wrong files

GOOD = {"x": entry("F64", [2], 0, 16)}
DATA = bytes(16)


@together(
    ("header", "data", "length", "reason"),
    [
        (GOOD, DATA[:-1], None, "should take 16 bytes, but there are 15"),
        (GOOD, DATA + b"x", None, "should take 16 bytes, but there are 17"),
        (GOOD, DATA, 2**63, "header should have 9223372036854775808 bytes"),
        (GOOD, DATA, 10**6, "header should have 1000000 bytes"),
        (GOOD, DATA, 9, "header is wrong"),
        (b"[1, 2]", b"", None, "header is wrong"),
        (b"{" * 10**5, b"", None, "header is wrong"),
        (b"[" * 10**5, b"", None, "header is wrong"),
        (b'{"x": 1' + b"0" * 5000 + b"}", b"", None, "header is wrong"),
        (b"\xff\xfe{}", b"", None, "header is wrong"),
        (b'{"x": {}, "x": {}}', b"", None, "a name twice"),
        ({"x": {"dtype": "F64"}}, DATA, None, "header is wrong"),
        ({"x": entry("F65", [2], 0, 16)}, DATA, None, "unknown dtype 'F65'"),
        ({"x": entry("object", [2], 0, 16)}, DATA, None, "unknown dtype 'object'"),
        ({"x": entry("I32", [2], 0, 16)}, DATA, None, "'x' of dtype I32 .* has 16 bytes"),
        ({"x": entry("F64", [2**62, 4], 0, 16)}, DATA, None, "'x' of dtype F64"),
        ({"x": entry("F64", [-2], 0, -16)}, DATA, None, "'x' has the shape"),
        ({"x": entry("F64", [0, 2**62], 0, 0)}, b"", None, "'x' of dtype F64"),
        ({"x": entry("F64", [2**31, 0, 2**31], 0, 0)}, b"", None, "'x' of dtype F64"),
        ({"x\ud800": entry("F64", [0], 0, 0)}, b"", None, "header is wrong.*surrogates"),
        ({"x": entry("F64", [True, 2], 0, 16)}, DATA, None, "'x' has the shape"),
        ({"x": entry("F64", [2.0], 0, 16)}, DATA, None, "'x' has the shape"),
        ({"x": entry("F64", [2], 16, 0)}, DATA, None, "'x' of dtype F64"),
        ({"x": entry("F64", [1] * 33, 0, 8)}, DATA[:8], None, "'x' has the shape"),
        (GOOD | {"y": entry("F64", [1], 8, 16)}, DATA, None, "data of 'y' begin at 8"),
        ({"x": entry("F64", [1], 8, 16)}, DATA, None, "data of 'x' begin at 8"),
        (GOOD | {"__metadata__": {"a": 1}}, DATA, None, "metadata are not texts"),
        (GOOD | {"__metadata__": [1]}, DATA, None, "header is wrong"),
        ({"x": entry("BOOL", [2], 0, 2)}, b"\1\2", None, "'x' has booleans other than 0"),
    ],
)
def test_wrong_files_are_refused(
    path: Path, header: Any, data: bytes, length: int | None, reason: str
) -> None:
    written(path, header, data, length)
    with pytest.raises(FileFormatError, match=f"(?s)tree.safetensors.*{reason}"):
        io.load(path)


def test_dtypes_that_cannot_be_read_do_not_hide_the_others(path: Path) -> None:
    written(path, {"x": entry("F8_E4M3", [2], 0, 2), "y": entry("U8", [1], 2, 3)}, b"\1\2\3")
    assert str(io.describe(path).tensors["x"]) == "F8_E4M3[2]"
    with pytest.raises(DtypeError, match=r"'x' .* F8_E4M3\[2\], which tensors do not support"):
        io.load(path)
    assert io.load(path, {"y": np.zeros(1, "u1")}, strict=False)["y"].tolist() == [3]


@pytest.mark.parametrize("suffix", ["safetensors", "npz"])
def test_a_file_that_is_cut_anywhere_is_refused(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x.{suffix}"
    io.save(path, {"x": np.arange(3.0), "y": [np.ones(2), 1]}, {"a": "b"})
    whole = path.read_bytes()
    for length in range(0, len(whole), 11):
        path.write_bytes(whole[:length])
        with pytest.raises(FileFormatError, match=f"x.{suffix}"):
            io.load(path)


@pytest.mark.parametrize("suffix", ["safetensors", "npz"])
def test_no_flipped_bit_changes_what_is_loaded(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x.{suffix}"
    tree = {"x": np.arange(3.0), "y": [np.array([True, False]), 1j], "z": np.arange(4, dtype="u1")}
    io.save(path, tree, {"a": "b"})
    whole, good = path.read_bytes(), repr(io.load(path))
    unseen = 0
    for place in range(0, len(whole), 3):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << place % 8
        path.write_bytes(flipped)
        try:
            loaded = io.load(path)
        except FileFormatError:
            continue
        unseen += 1
        assert repr(loaded) == good  # spaces in the header; dates and flags of an archive
        assert io.describe(path).metadata == {"a": "b"}
    assert unseen < len(whole) / 12


def test_the_damaged_tensors_are_named(path: Path) -> None:
    io.save(path, {"a": np.ones(2), "layers": [{"w": np.ones(2)}, {"w": np.ones(2**20)}], "z": 1.0})
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 64  # z, the last
    raw[-100] ^= 1  # layers.1.w
    path.write_bytes(raw)
    names = "layers.1.w, z"
    for read in (io.verify, io.load):
        with pytest.raises(FileFormatError, match=rf"{names} have changed \(BLAKE2 differs\)"):
            read(path)
    assert io.load(path, {"a": np.ones(2)}, strict=False)["a"].tolist() == [1, 1]


def forged(path: Path, change: Any) -> None:
    """Change the metadata of a file, and keep the length of its header."""
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    change(header["__metadata__"])
    text = json.dumps(header, separators=(",", ":")).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + raw[8 + length :])


@together(
    "tree",
    [
        '{"version":2,"nodes":[null],"leaves":[["value",""]],"statics":{}}',
        '{"version":1,"nodes":[["tuple",1000000000000]],"leaves":[["value",""]],"statics":{}}',
        '{"version":1,"nodes":[null,null],"leaves":[["value",""]],"statics":{}}',
        '{"version":1,"nodes":[["class","os.system"]],"leaves":[["value",""]],"statics":{}}',
        '{"version":1,"nodes":[["dict",[["x"]]],null],"leaves":[["value",""]],"statics":{}}',
        '{"version":1,"nodes":[null],"leaves":[["other",""]],"statics":{}}',
        '{"version":1,"nodes":[null],"leaves":[["value",""]],"statics":3}',
        "[]",
        "x",
    ],
)
def test_a_forged_description_of_a_tree_is_refused(path: Path, tree: str) -> None:
    io.save(path, np.ones(2))
    texts = {"funcgrad.tree": tree}
    texts["funcgrad.texts"] = digest_of_texts(texts)
    forged(path, lambda metadata: metadata.update(texts))
    with pytest.raises(FileFormatError, match="description of its tree is wrong"):
        io.load(path)


def test_a_changed_static_field_is_seen(path: Path) -> None:
    io.save(path, np.ones(2), {"run": "first"})
    forged(path, lambda texts: texts.update(run="other"))
    with pytest.raises(FileFormatError, match="BLAKE2 digest of its metadata has changed"):
        io.load(path)


def test_a_file_without_digests_cannot_be_verified(path: Path) -> None:
    written(path, GOOD, DATA)
    with pytest.raises(FileFormatError, match=r"no digests to compare.*fg.io.save"):
        io.verify(path)


def test_files_of_other_kinds_are_named(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data.pkl", b"x")
    with pytest.raises(FileFormatError, match=r"PyTorch's .pt, which may hold programs"):
        io.load(path)
    path.write_bytes(pickle.dumps([1] * 50))
    with pytest.raises(FileFormatError, match="a pickle, which may hold programs"):
        io.load(path)
    np.save(tmp_path / "x.npy", np.ones(3))
    with pytest.raises(FileFormatError, match=r"np.load"):
        io.load(tmp_path / "x.npy")
    path = tmp_path / "x.npz"
    path.write_bytes(b"\x93NUMPY" + bytes(50))
    with pytest.raises(FileFormatError, match=r"np.load"):
        io.load(path)


def test_archives_with_objects_are_never_unpickled(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", a=np.array([print], object))
    with pytest.raises(FileFormatError, match="dtype object, which tensors do not support"):
        io.load(tmp_path / "x.npz")


def test_an_archive_that_claims_a_huge_shape_takes_no_memory(tmp_path: Path) -> None:
    for shape in (b"(1099511627776,)", b"(0, 4611686018427387904)"):
        header = b"{'descr': '<f8', 'fortran_order': False, 'shape': " + shape + b", }"
        with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
            text = header.ljust(117) + b"\n"
            archive.writestr("a.npy", b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text)
        for read in (io.load, io.describe):
            with pytest.raises(FileFormatError, match=r"'a.npy' of dtype float64 and shape"):
                read(tmp_path / "x.npz")


def test_an_encrypted_archive_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", a=np.ones(3))
    content = bytearray((tmp_path / "x.npz").read_bytes())
    for magic, place in ((b"PK\3\4", 6), (b"PK\1\2", 8)):  # a flag in both headers of the member
        content[content.find(magic) + place] |= 1
    (tmp_path / "x.npz").write_bytes(content)
    for read in (io.load, io.describe):
        with pytest.raises(FileFormatError, match=r"'a.npy' is encrypted"):
            read(tmp_path / "x.npz")


# ------------------------------------------------------------------------------------ the disk


def test_a_missing_file_is_named_with_its_neighbours(path: Path) -> None:
    io.save(path, 1.0)
    with pytest.raises(MissingFileError, match="Similar names: tree"):
        io.load(path.with_suffix(".safetensor"))
    with pytest.raises(FileNotFoundError):
        io.describe(path.parent / "nowhere" / "x")
    with pytest.raises(StorageError, match="cannot read"):
        io.load(path.parent)


def test_a_place_that_cannot_be_written_is_named(path: Path) -> None:
    with pytest.raises(StorageError, match=r"nowhere/x'.*Make its folder first"):
        io.save(path.parent / "nowhere" / "x", 1.0)
    path.write_bytes(b"x")
    with pytest.raises(StorageError, match="is a file, not a folder"):
        io.save(path / "x", 1.0)
    with pytest.raises(StorageError, match="cannot write"):
        io.save(path.parent, 1.0)
    with pytest.raises(StorageError, match="Shorten its name"):
        io.save(path.parent / ("x" * 300), 1.0)
    with pytest.raises(ArgumentError, match=r"save: path '.*' has a NUL character"):
        io.save(str(path) + "\0", 1.0)
    with pytest.raises(ArgumentError, match="load: path"):
        io.load("\0")
    error = pickle.loads(pickle.dumps(StorageError("text", 28)))
    assert (str(error), error.errno) == ("text", 28)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes in folders")
def test_only_files_are_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(StorageError, match="not devices and pipes"):
        io.save(pipe, 1.0)
    assert pipe.is_fifo()


def test_digests_stay_what_older_files_have() -> None:
    with Digests() as digests:
        digests.add("short", np.arange(1000, dtype=np.uint8))
        digests.add("long", np.zeros(5 * 2**20, np.uint8))
        assert digests.all() == {
            "short": "19e2e5b2f14632aa8b71e0af4b9cd538",
            "long": "a0c5a12fdf8c3129e118d742c0eb9313",
        }

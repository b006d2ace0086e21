"""Weights of PyTorch's modules, as its documentation describes them, and models that get them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import funcgrad as fg
from funcgrad import io, nn, random
from funcgrad.errors import ArgumentError, TreeError
from tests.nn.parity import TABLE, numbers, projected
from tests.together import together

KEY = random.key(0)
RNG = np.random.default_rng(0)
Arrays = dict[str, np.ndarray[Any, Any]]


def drawn(**shapes: tuple[int, ...]) -> Arrays:
    return {name.replace("__", "."): RNG.normal(size=shape) for name, shape in shapes.items()}


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def below(above: str, arrays: Arrays) -> Arrays:
    return {f"{above}.{name}": array for name, array in arrays.items()}


# PyTorch's layers in NumPy, by the formulas of its documentation, of a state_dict.


def linear(p: Arrays, x: Any) -> Any:
    return x @ p["weight"].T + p["bias"]


def rnn_cell(p: Arrays, x: Any, h: Any) -> Any:
    return np.tanh(p["weight_ih"] @ x + p["bias_ih"] + p["weight_hh"] @ h + p["bias_hh"])


def lstm_cell(p: Arrays, x: Any, h: Any, c: Any) -> Any:
    gates = p["weight_ih"] @ x + p["bias_ih"] + p["weight_hh"] @ h + p["bias_hh"]
    i, f, g, o = np.split(gates, 4)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def gru_cell(p: Arrays, x: Any, h: Any) -> Any:
    i_r, i_z, i_n = np.split(p["weight_ih"] @ x + p["bias_ih"], 3)
    h_r, h_z, h_n = np.split(p["weight_hh"] @ h + p["bias_hh"], 3)
    r, z = sigmoid(i_r + h_r), sigmoid(i_z + h_z)
    return (1 - z) * np.tanh(i_n + r * h_n) + z * h


def heads(p: Arrays, x: Any, context: Any, count: int) -> Any:
    """``multi_head_attention_forward``, of one example."""
    if "in_proj_weight" in p:
        weights = np.split(p["in_proj_weight"], 3)
    else:
        weights = [p[f"{name}_proj_weight"] for name in "qkv"]
    biases = np.split(p["in_proj_bias"], 3) if "in_proj_bias" in p else [0.0] * 3
    inputs = (x, context, context)
    q, k, v = [y @ w.T + b for y, w, b in zip(inputs, weights, biases, strict=True)]
    size = q.shape[-1] // count
    mixed = []
    for head in range(count):
        part = slice(head * size, (head + 1) * size)
        scores = q[:, part] @ k[:, part].T / np.sqrt(size)
        shares = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
        mixed.append(shares @ v[:, part])
    y = np.concatenate(mixed, -1) @ p["out_proj.weight"].T
    return y + p["out_proj.bias"] if "out_proj.bias" in p else y


def conv1d(p: Arrays, x: Any) -> Any:
    """A cross-correlation, of (channels, length)."""
    filters, _, width = p["weight"].shape
    places = x.shape[-1] - width + 1
    return np.array(
        [
            [(p["weight"][f] * x[:, k : k + width]).sum() + p["bias"][f] for k in range(places)]
            for f in range(filters)
        ]
    )


def conv_transpose1d(p: Arrays, x: Any) -> Any:
    channels, filters, width = p["weight"].shape
    y = np.zeros((filters, x.shape[-1] + width - 1)) + p["bias"][:, None]
    for c in range(channels):
        for k in range(x.shape[-1]):
            y[:, k : k + width] += p["weight"][c] * x[c, k]
    return y


def layer_norm(p: Arrays, x: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * p["weight"] + p["bias"]


X, H, C = RNG.normal(size=3), RNG.normal(size=3), RNG.normal(size=3)
ROWS, CONTEXT = RNG.normal(size=(5, 4)), RNG.normal(size=(3, 6))
CELL = {"weight_ih": (3, 3), "weight_hh": (3, 3), "bias_ih": (3,), "bias_hh": (3,)}


def cell_of(gates: int) -> Arrays:
    return drawn(**{name: (gates * n, *more) for name, (n, *more) in CELL.items()})


CASES: dict[str, tuple[Arrays, Any, Callable[[Arrays], Any], Callable[[Any], Any]]] = {
    "linear": (
        drawn(weight=(3, 3), bias=(3,)),
        nn.Linear.init(KEY, 3, 3),
        lambda p: linear(p, X),
        lambda layer: layer(X),
    ),
    "embedding": (
        drawn(weight=(4, 4)),
        nn.Embedding.init(KEY, 4, 4),
        lambda p: p["weight"][[2, 0]],
        lambda layer: layer([2, 0]),
    ),
    "conv": (
        drawn(weight=(2, 2, 2), bias=(2,)),
        nn.Conv.init(KEY, 2, 2, (2,)),
        lambda p: conv1d(p, ROWS[:2]),
        lambda layer: layer(ROWS[:2]),
    ),
    "conv_transpose": (
        drawn(weight=(2, 2, 2), bias=(2,)),
        nn.ConvTranspose.init(KEY, 2, 2, (2,)),
        lambda p: conv_transpose1d(p, ROWS[:2]),
        lambda layer: layer(ROWS[:2]),
    ),
    "layer_norm": (
        drawn(weight=(4,), bias=(4,)),
        nn.LayerNorm.init(4),
        lambda p: layer_norm(p, ROWS),
        lambda layer: layer(ROWS),
    ),
    "rms_norm": (
        drawn(weight=(4,)),
        nn.RMSNorm.init(4, epsilon=1e-5),
        lambda p: ROWS / np.sqrt((ROWS**2).mean(-1, keepdims=True) + 1e-5) * p["weight"],
        lambda layer: layer(ROWS),
    ),
    "group_norm": (
        drawn(weight=(4,), bias=(4,)),
        nn.GroupNorm.init(4, 1),
        lambda p: (
            layer_norm({"weight": np.array(1.0), "bias": np.array(0.0)}, ROWS) * p["weight"]
            + p["bias"]
        ),
        lambda layer: layer(ROWS),
    ),
    "rnn": (
        cell_of(1),
        nn.RNNCell.init(KEY, 3, 3),
        lambda p: rnn_cell(p, X, H),
        lambda cell: cell(H, X)[1],
    ),
    "lstm": (
        cell_of(4),
        nn.LSTMCell.init(KEY, 3, 3),
        lambda p: np.stack(lstm_cell(p, X, H, C)),
        lambda cell: np.stack([np.asarray(x) for x in cell((H, C), X)[0]]),
    ),
    "gru": (
        cell_of(3),
        nn.GRUCell.init(KEY, 3, 3),
        lambda p: gru_cell(p, X, H),
        lambda cell: cell(H, X)[1],
    ),
    "attention": (
        drawn(
            in_proj_weight=(12, 4), in_proj_bias=(12,), out_proj__weight=(4, 4), out_proj__bias=(4,)
        ),
        nn.MultiHeadAttention.init(KEY, 4, 2),
        lambda p: heads(p, ROWS, ROWS, 2),
        lambda layer: layer(ROWS),
    ),
    "attention without biases": (
        drawn(in_proj_weight=(12, 4), out_proj__weight=(4, 4)),
        nn.MultiHeadAttention.init(KEY, 4, 2, bias=False),
        lambda p: heads(p, ROWS, ROWS, 2),
        lambda layer: layer(ROWS),
    ),
    "attention to a context": (
        drawn(
            q_proj_weight=(4, 4),
            k_proj_weight=(4, 6),
            v_proj_weight=(4, 6),
            in_proj_bias=(12,),
            out_proj__weight=(4, 4),
            out_proj__bias=(4,),
        ),
        nn.MultiHeadAttention.init(KEY, 4, 2, context_features=6),
        lambda p: heads(p, ROWS, CONTEXT, 2),
        lambda layer: layer(ROWS, CONTEXT),
    ),
}


@together("name", CASES)
def test_a_layer_computes_what_the_documentation_of_pytorch_says(name: str) -> None:
    weights, like, reference, call = CASES[name]
    layer = nn.from_torch(weights, like)
    assert_allclose(np.asarray(call(layer)), reference(weights), rtol=1e-12, atol=1e-13)
    back = nn.to_torch(layer)
    assert list(back) == list(weights)
    assert_allclose(reference(back), reference(weights), rtol=1e-12)
    assert nn.to_torch(layer, like=weights).keys() == weights.keys()


@together("name", CASES)
def test_names_follow_the_tree(name: str) -> None:
    weights, like, reference, call = CASES[name]
    model = nn.Sequential(nn.relu, nn.Residual(like), like)
    nested = {"body": nn.Sequential(nn.relu, like), "heads": [nn.Residual(like)]}
    for tree, places, layer_of in (
        (model, ("1.layer", "2"), lambda tree: tree[1].layer),
        (nested, ("body.1", "heads.0.layer"), lambda tree: tree["body"][1]),
    ):
        theirs = below(places[0], weights) | below(places[1], weights)
        loaded = nn.from_torch(theirs, tree)
        assert_allclose(np.asarray(call(layer_of(loaded))), reference(weights), rtol=1e-12)
        assert nn.to_torch(loaded).keys() == theirs.keys()


def test_numbers_of_pytorch_itself() -> None:
    """Arrays under PyTorch's names give the results that PyTorch gave (``parity.json``)."""
    known = json.loads(TABLE.read_text())
    for case, cell in (("rnn", nn.RNNCell), ("lstm", nn.LSTMCell), ("gru", nn.GRUCell)):
        arrays = numbers(case)
        x = arrays.pop("x")
        second = arrays.pop("state_bias", np.zeros_like(arrays["bias"]))
        weights = {
            "weight_ih_l0": arrays["weight"].T,
            "weight_hh_l0": arrays["state_weight"].T,
            "bias_ih_l0": arrays["bias"],
            "bias_hh_l0": second,
        }
        loaded = nn.from_torch(weights, like=cell.init(KEY, 3, 4))
        assert_allclose(projected(nn.run(loaded, x)[1]), known[case]["value"], rtol=1e-10)


@pytest.mark.parametrize("gates", [1, 3, 4])
def test_recurrent_networks_of_several_layers(gates: int) -> None:
    kind: Any = {1: nn.RNNCell, 3: nn.GRUCell, 4: nn.LSTMCell}[gates]
    cells = [kind.init(KEY, 3, 3) for _ in range(4)]
    one_way = {f"{name}_l{k}": x for k in range(4) for name, x in cell_of(gates).items()}
    ways = ("", "_reverse")
    both = {f"{n}_l{k}{way}": x for k in (0, 1) for way in ways for n, x in cell_of(gates).items()}
    for weights, names in (
        (one_way, [f"_l{k}" for k in range(4)]),
        (both, ["_l0", "_l0_reverse", "_l1", "_l1_reverse"]),
    ):
        model = {"rnn": cells}
        theirs = below("rnn", weights)
        loaded = nn.from_torch(theirs, model)
        for cell, ending in zip(loaded["rnn"], names, strict=True):
            assert_allclose(np.asarray(cell.weight), weights[f"weight_ih{ending}"].T)
        again = nn.to_torch(loaded, like=theirs)
        assert again.keys() == theirs.keys()
        assert_allclose(again["rnn.weight_hh_l1"], weights["weight_hh_l1"])
    alone = nn.from_torch(one_way_of(one_way), like=cells[0])
    assert not np.asarray(alone.bias).any()


def one_way_of(weights: Arrays) -> Arrays:
    """The first layer, without biases."""
    return {name: x for name, x in weights.items() if name.endswith("_l0") and "weight" in name}


@fg.pytree
class Normalized:
    """A model of the user's own, without ``init_state``."""

    inner: nn.Linear
    norm: nn.BatchNorm


def test_the_state_of_a_class_of_the_user_is_a_dict() -> None:
    model = Normalized(nn.Linear.init(KEY, 3, 3), nn.BatchNorm.init(3))
    norm = {"weight": (3,), "bias": (3,), "running_mean": (3,), "running_var": (3,)}
    weights = below("inner", drawn(weight=(3, 3), bias=(3,))) | below("norm", drawn(**norm))
    with pytest.raises(ArgumentError) as caught:
        nn.from_torch(weights, model)
    assert "state={'norm': model.norm.init_state()})" in str(caught.value)
    _, state = nn.from_torch(weights, like=model, state={"norm": model.norm.init_state()})
    assert_allclose(np.asarray(state["norm"].mean), weights["norm.running_mean"])


def test_running_statistics_are_the_state() -> None:
    model = nn.Sequential(
        nn.Linear.init(KEY, 3, 3),
        nn.Residual(nn.BatchNorm.init(3)),
        nn.Sequential(nn.BatchNorm.init(3)),
    )
    norm = {"weight": (3,), "bias": (3,), "running_mean": (3,), "running_var": (3,)}
    count = {"num_batches_tracked": np.array(7)}
    weights = below("0", drawn(weight=(3, 3), bias=(3,)))
    weights |= below("1.layer", drawn(**norm) | count) | below("2.0", drawn(**norm) | count)
    with pytest.raises(ArgumentError, match=r"'1.layer.running_mean' .* state=model.init_state"):
        nn.from_torch(weights, model)
    loaded, state = nn.from_torch(weights, like=model, state=model.init_state())
    assert_allclose(np.asarray(state[1].mean), weights["1.layer.running_mean"])
    assert_allclose(np.asarray(state[2][0].variance), weights["2.0.running_var"])
    back = nn.to_torch(loaded, state)
    assert back.keys() == weights.keys()
    for name in weights.keys() - {"1.layer.num_batches_tracked", "2.0.num_batches_tracked"}:
        assert_allclose(back[name], weights[name])
    with pytest.raises(ArgumentError, match="state has no statistics"):
        nn.from_torch(weights, like=model, state=(None, None, None))


def test_heads_that_are_four_linear_layers() -> None:
    layer = nn.MultiHeadAttention.init(KEY, 4, 2, key_heads=1)  # which no module of PyTorch has
    theirs = nn.to_torch(layer)
    assert theirs["key.weight"].shape == (2, 4)
    again = nn.from_torch(theirs, layer)
    assert all(fg.tree.leaves(fg.tree.map(np.array_equal, again, layer)))
    even = nn.MultiHeadAttention.init(KEY, 4, 2)
    apart = {name: RNG.normal(size=(4, 4)) for name in ("query.weight", "key.weight")}
    apart |= {name: RNG.normal(size=(4, 4)) for name in ("value.weight", "output.weight")}
    apart |= {name.replace("weight", "bias"): np.zeros(4) for name in apart}
    assert_allclose(np.asarray(nn.from_torch(apart, even).key.weight), apart["key.weight"].T)
    assert nn.to_torch(even, like=apart).keys() == apart.keys()


def test_one_error_names_all_that_differs() -> None:
    model = nn.Sequential(nn.Linear.init(KEY, 3, 2), nn.Linear.init(KEY, 2, 2, bias=False))
    weights = drawn(
        **{"0__weight": (3, 2), "0__biased": (2,), "1__weight": (2, 2), "1__bias": (2,)}
    )
    with pytest.raises(TreeError) as caught:
        nn.from_torch(weights, model)
    text = str(caught.value)
    assert "missing in the dict (1): 0.bias (near it: 0.biased)" in text
    assert "unexpected in the dict (2): 0.biased; 1.bias" in text
    assert "different (1): 0.weight: float64[3,2], expected float64[2,3]" in text
    loaded = nn.from_torch(weights, model, strict=False)
    assert np.array_equal(loaded[0].weight, model[0].weight)
    assert_allclose(np.asarray(loaded[1].weight), weights["1.weight"].T)
    single = {name: array.astype("f4") for name, array in nn.to_torch(model).items()}
    with pytest.raises(TreeError, match=r"float32\[2,3\], expected float64\[2,3\]"):
        nn.from_torch(single, model)
    assert nn.from_torch(single, model, strict=False)[0].weight.dtype == np.float64
    with pytest.raises(TreeError, match=r"to_torch: .*\n.*missing in the model \(1\): 2.weight"):
        nn.to_torch(model, like=nn.to_torch(model) | {"2.weight": np.ones(2)})
    with pytest.raises(ArgumentError, match="expected a dict of arrays"):
        nn.from_torch(model, model)  # type: ignore[arg-type]


def test_a_file_of_pytorch(tmp_path: Path) -> None:
    save_file = pytest.importorskip("safetensors.numpy").save_file
    model = nn.Sequential(nn.Linear.init(KEY, 3, 3), nn.tanh, nn.Linear.init(KEY, 3, 3))
    weights = below("0", drawn(weight=(3, 3), bias=(3,))) | below(
        "2", drawn(weight=(3, 3), bias=(3,))
    )
    save_file(weights, tmp_path / "module.safetensors")
    loaded = io.load(tmp_path / "module.safetensors", like=model, layout="torch")
    reference = linear({"weight": weights["0.weight"], "bias": weights["0.bias"]}, ROWS[:, :3])
    assert_allclose(np.asarray(loaded[0](ROWS[:, :3])), reference)
    io.save(tmp_path / "ours.safetensors", nn.to_torch(loaded), metadata={"format": "pt"})
    again = io.load(tmp_path / "ours.safetensors", like=model, layout="torch")
    assert np.array_equal(again[2].weight, loaded[2].weight)
    with pytest.raises(TreeError, match="layout='torch'"):
        io.load(tmp_path / "module.safetensors", like=model)
    for wrong in ("pytorch", "torch"):
        with pytest.raises(ArgumentError, match="layout is 'torch', with a model"):
            io.load(tmp_path / "module.safetensors", layout=wrong)  # type: ignore[call-overload]


@pytest.mark.parametrize("name", ["linear", "rnn"])
@pytest.mark.parametrize("suffix", ["safetensors", "npz"])
def test_square_matrices_of_another_library_are_warned_of(
    tmp_path: Path, name: str, suffix: str
) -> None:
    model = {"layer": CASES[name][1]}
    place = "layer.state_weight" if name == "rnn" else "layer.weight"
    leaves = {"layer.weight": np.asarray(model["layer"].weight), "layer.bias": np.ones(3)}
    if name == "rnn":
        leaves["layer.state_weight"] = np.eye(3)
    path = tmp_path / f"weights.{suffix}"
    if suffix == "npz":
        np.savez(path, **leaves)  # type: ignore[arg-type]
    else:
        pytest.importorskip("safetensors.numpy").save_file(leaves, path)
    with pytest.warns(UserWarning, match=rf"{place}.* square, .*layout='torch'"):
        io.load(path, like=model)
    io.load(path, like=model, layout="funcgrad")
    io.save(path, model)
    io.load(path, like=model)  # which is ours

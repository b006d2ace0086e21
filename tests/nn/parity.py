"""Values and gradients of PyTorch's layers, as numbers in ``parity.json``.

``python tests/nn/parity.py``, in an environment with torch, computes them anew;
``test_parity.py`` compares ours with them. Each array is stored as its product with cosines.
Equinox, where it is installed, has to agree with PyTorch.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

TABLE = Path(__file__).with_suffix(".json")
SHAPES: dict[str, dict[str, tuple[int, ...]]] = {
    "linear": {"x": (2, 3, 4), "weight": (4, 5), "bias": (5,)},
    "embedding": {"weight": (5, 3)},
    "conv": {"x": (2, 4, 7, 6), "weight": (6, 2, 3, 2), "bias": (6,)},
    **{
        f"conv, {mode}": {"x": (2, 2, 5, 4), "weight": (4, 2, 3, 2), "bias": (4,)}
        for mode in ("reflect", "replicate", "circular")
    },
    "conv, same": {"x": (2, 3, 7), "weight": (4, 3, 4), "bias": (4,)},
    "conv, depthwise": {"x": (1, 3, 3, 4, 5), "weight": (6, 1, 2, 2, 3), "bias": (6,)},
    "conv_transpose": {"x": (2, 4, 5), "weight": (4, 3, 3), "bias": (6,)},
    "conv_transpose, dilated": {"x": (2, 4, 3, 2), "weight": (4, 2, 2, 3), "bias": (2,)},
    "layer_norm": {"x": (2, 3, 4), "scale": (4,), "bias": (4,)},
    "rms_norm": {"x": (2, 3, 4), "scale": (4,)},
    "group_norm": {"x": (2, 6, 5), "scale": (6,), "bias": (6,)},
    "instance_norm": {"x": (2, 3, 4, 2)},
    "batch_norm": {"x": (4, 3, 5), "scale": (3,), "bias": (3,)},
    "batch_norm, used": {"x": (4, 3, 5), "scale": (3,), "bias": (3,)},
    "rnn": {"x": (2, 5, 3), "weight": (3, 4), "state_weight": (4, 4), "bias": (4,)},
    "lstm": {"x": (2, 5, 3), "weight": (3, 16), "state_weight": (4, 16), "bias": (16,)},
    "gru": {
        "x": (2, 5, 3),
        "weight": (3, 12),
        "state_weight": (4, 12),
        "bias": (12,),
        "state_bias": (12,),
    },
    **{
        f"{name}, both ways": {
            "x": (2, 5, 3),
            **{f"weight{back}": (3, 4 * gates) for back in ("", "_back")},
            **{f"state_weight{back}": (4, 4 * gates) for back in ("", "_back")},
            **{f"bias{back}": (4 * gates,) for back in ("", "_back")},
        }
        for name, gates in (("rnn", 1), ("lstm", 4))
    },
    **{
        name: {
            "x": (2, 5, 4),
            **{f"{part}.weight": (4, 4) for part in ("query", "key", "value", "output")},
            **{f"{part}.bias": (4,) for part in ("query", "key", "value", "output")},
        }
        for name in ("heads", "heads, causal", "heads, masked", "heads, biased")
    },
    "heads, across": {
        "x": (2, 5, 4),
        "context": (2, 3, 6),
        **{f"{part}.weight": (4, 4) for part in ("query", "output")},
        **{f"{part}.weight": (6, 4) for part in ("key", "value")},
        **{f"{part}.bias": (4,) for part in ("query", "key", "value", "output")},
    },
    "attention": {"query": (2, 3, 4, 5), "key": (2, 3, 6, 5), "value": (2, 3, 6, 2)},
    "attention, masked": {"query": (2, 3, 4, 5), "key": (2, 3, 6, 5), "value": (2, 3, 6, 2)},
    "attention, grouped": {"query": (2, 6, 4, 5), "key": (2, 3, 4, 5), "value": (2, 3, 4, 2)},
    "attention, windowed": {"query": (2, 3, 4, 5), "key": (2, 3, 6, 5), "value": (2, 3, 6, 2)},
    "attention, biased": {
        "query": (2, 3, 4, 5),
        "key": (2, 3, 6, 5),
        "value": (2, 3, 6, 2),
        "bias": (3, 4, 6),
    },
}
"""By case, the arrays that are differentiated in."""


def numbers(case: str) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of a case."""
    rng = np.random.default_rng(list(case.encode()))
    return {name: rng.normal(size=shape) for name, shape in SHAPES[case].items()}


def mask() -> np.ndarray[Any, Any]:
    """A mask of queries and keys in which each query sees a key."""
    return np.arange(24).reshape(4, 6) % 5 < 3


def padded() -> np.ndarray[Any, Any]:
    """Which keys of two sequences of three are there; the second one has two."""
    return np.array([[True, True, True], [True, True, False]])


def window() -> np.ndarray[Any, Any]:
    """The mask of four queries that see one key before, and two behind their position."""
    ahead = np.arange(6) - np.arange(4)[:, None]
    return (ahead >= -1) & (ahead <= 2)


def projected(x: Any) -> float:
    """An array's product with cosines: one number that changes with any element."""
    flat = np.asarray(x, np.float64).ravel()
    return float(flat @ np.cos(np.arange(flat.size)))


def torch_layers() -> dict[str, Callable[..., Any]]:
    """The same layers by PyTorch's functions and modules, of arrays by their names."""
    import torch
    from torch.nn import functional

    def recurrent(kind: Any, both: bool = False) -> Callable[..., Any]:
        def run(x: Any, weight: Any, state_weight: Any, bias: Any, **others: Any) -> Any:
            layer = kind(
                x.shape[-1], len(state_weight), batch_first=True, bidirectional=both
            ).double()
            second = others.get("state_bias", torch.zeros_like(bias))
            known = {
                "weight_ih_l0": weight.T,
                "weight_hh_l0": state_weight.T,
                "bias_ih_l0": bias,
                "bias_hh_l0": second,
            }
            if both:
                known |= {
                    "weight_ih_l0_reverse": others["weight_back"].T,
                    "weight_hh_l0_reverse": others["state_weight_back"].T,
                    "bias_ih_l0_reverse": others["bias_back"],
                    "bias_hh_l0_reverse": torch.zeros_like(bias),
                }
            return torch.func.functional_call(layer, known, (x,))[0]

        return run

    def heads(x: Any, attn_mask: Any = None, **parts: Any) -> Any:
        names = ("query", "key", "value")
        layer = torch.nn.MultiheadAttention(4, 2, batch_first=True).double()
        known = {
            "in_proj_weight": torch.cat([parts[f"{name}.weight"].T for name in names]),
            "in_proj_bias": torch.cat([parts[f"{name}.bias"] for name in names]),
            "out_proj.weight": parts["output.weight"].T,
            "out_proj.bias": parts["output.bias"],
        }
        options = {"attn_mask": attn_mask, "need_weights": False}
        return torch.func.functional_call(layer, known, (x, x, x), options)[0]

    def heads_across(x: Any, context: Any, **parts: Any) -> Any:
        layer = torch.nn.MultiheadAttention(4, 2, batch_first=True, kdim=6, vdim=6).double()
        names = {"query": "q", "key": "k", "value": "v"}
        known = {
            **{f"{short}_proj_weight": parts[f"{name}.weight"].T for name, short in names.items()},
            "in_proj_bias": torch.cat([parts[f"{name}.bias"] for name in names]),
            "out_proj.weight": parts["output.weight"].T,
            "out_proj.bias": parts["output.bias"],
        }
        options = {"key_padding_mask": torch.tensor(~padded()), "need_weights": False}
        return torch.func.functional_call(layer, known, (x, context, context), options)[0]

    def conv(mode: Any) -> Callable[..., Any]:
        layer = torch.nn.Conv2d(2, 4, (3, 2), stride=(1, 2), padding=1, padding_mode=mode).double()
        return lambda x, weight, bias: torch.func.functional_call(
            layer, {"weight": weight, "bias": bias}, (x,)
        )

    ahead = torch.triu(torch.ones(5, 5, dtype=torch.bool), 1)
    seen = torch.tensor(mask())
    batch: dict[str, Any] = {
        "running_mean": torch.full((3,), 0.5).double(),
        "running_var": torch.full((3,), 2.0).double(),
    }
    attend = functional.scaled_dot_product_attention
    return {
        "linear": lambda x, weight, bias: functional.linear(x, weight.T, bias),
        "embedding": lambda weight: functional.embedding(torch.tensor([[1, 4], [1, 0]]), weight),
        "conv": lambda x, weight, bias: functional.conv2d(
            x, weight, bias, stride=2, padding=1, dilation=(1, 2), groups=2
        ),
        **{f"conv, {mode}": conv(mode) for mode in ("reflect", "replicate", "circular")},
        "conv, same": lambda x, weight, bias: functional.conv1d(
            x, weight, bias, padding="same", dilation=2
        ),
        "conv, depthwise": lambda x, weight, bias: functional.conv3d(
            x, weight, bias, padding=(0, 1, 1), groups=3
        ),
        "conv_transpose": lambda x, weight, bias: functional.conv_transpose1d(
            x, weight, bias, stride=3, padding=1, output_padding=2, groups=2
        ),
        "conv_transpose, dilated": lambda x, weight, bias: functional.conv_transpose2d(
            x, weight, bias, stride=(1, 2), padding=(1, 0), dilation=(2, 3)
        ),
        "layer_norm": lambda x, scale, bias: functional.layer_norm(x, (4,), scale, bias),
        "rms_norm": lambda x, scale: functional.rms_norm(x, (4,), scale, 1e-6),
        "group_norm": lambda x, scale, bias: functional.group_norm(x, 3, scale, bias),
        "instance_norm": lambda x: functional.instance_norm(x),
        "batch_norm": lambda x, scale, bias: functional.batch_norm(
            x, None, None, scale, bias, training=True
        ),
        "batch_norm, used": lambda x, scale, bias: functional.batch_norm(
            x, weight=scale, bias=bias, **batch
        ),
        "rnn": recurrent(torch.nn.RNN),
        "lstm": recurrent(torch.nn.LSTM),
        "gru": recurrent(torch.nn.GRU),
        "rnn, both ways": recurrent(torch.nn.RNN, both=True),
        "lstm, both ways": recurrent(torch.nn.LSTM, both=True),
        "heads": heads,
        "heads, causal": lambda x, **parts: heads(x, ahead, **parts),
        "heads, masked": lambda x, **parts: heads(x, ~seen[:, :5][[0, 1, 2, 3, 0]], **parts),
        "heads, biased": lambda x, **parts: heads(
            x, torch.cos(torch.arange(25).double()).reshape(5, 5), **parts
        ),
        "heads, across": heads_across,
        "attention": attend,
        "attention, grouped": lambda query, key, value: attend(
            query, key, value, enable_gqa=True, is_causal=True, scale=0.3
        ),
        "attention, windowed": lambda query, key, value: attend(
            query, key, value, torch.tensor(window())
        ),
        "attention, masked": lambda query, key, value: attend(query, key, value, seen),
        "attention, biased": lambda query, key, value, bias: attend(query, key, value, bias),
    }


def computed(case: str, layer: Callable[..., Any]) -> dict[str, float]:
    """The value of PyTorch's layer, and the gradient of the sum of its sines in each array."""
    import torch

    arrays = {name: torch.tensor(x, requires_grad=True) for name, x in numbers(case).items()}
    y = layer(**arrays)
    slopes = torch.autograd.grad(torch.sin(y).sum(), list(arrays.values()))
    found = {name: projected(slope) for name, slope in zip(arrays, slopes, strict=True)}
    return {"value": projected(y.detach()), **found}


def equinox_layers() -> dict[str, Callable[..., Any]]:
    """Layers of Equinox, for one example, of arrays by their names."""
    import equinox as eqx
    import jax

    def made(layer: Any, **known: Any) -> Any:
        return eqx.tree_at(
            lambda layer: [getattr(layer, name) for name in known], layer, [*known.values()]
        )

    def linear(weight: Any, bias: Any) -> Any:
        return made(eqx.nn.Linear(*weight.shape, key=key), weight=weight.T, bias=bias)

    def lstm(x: Any, weight: Any, state_weight: Any, bias: Any) -> Any:
        cell = eqx.nn.LSTMCell(len(weight), len(state_weight), key=key)
        cell = made(cell, weight_ih=weight.T, weight_hh=state_weight.T, bias=bias)
        zeros = jax.numpy.zeros(len(state_weight))

        def step(carry: Any, x: Any) -> Any:
            after = cell(x, carry)
            return after, after[0]

        return jax.lax.scan(step, (zeros, zeros), x)[1]

    def heads(x: Any, mask: Any = None, **parts: Any) -> Any:
        options = {f"use_{name}_bias": True for name in ("query", "key", "value", "output")}
        layer = eqx.nn.MultiheadAttention(2, 4, **options, key=key)
        known = {
            f"{name}_proj": linear(parts[f"{name}.weight"], parts[f"{name}.bias"])
            for name in ("query", "key", "value", "output")
        }
        return made(layer, **known)(x, x, x, mask=mask)

    key = jax.random.PRNGKey(0)
    below = jax.numpy.tri(5, dtype=bool)
    return {
        "linear": lambda x, weight, bias: jax.vmap(linear(weight, bias))(x),
        "conv": lambda x, weight, bias: made(
            eqx.nn.Conv2d(4, 6, (3, 2), 2, 1, (1, 2), 2, key=key),
            weight=weight,
            bias=bias[:, None, None],
        )(x),
        "layer_norm": lambda x, scale, bias: jax.vmap(
            made(eqx.nn.LayerNorm(4), weight=scale, bias=bias)
        )(x),
        "group_norm": lambda x, scale, bias: made(eqx.nn.GroupNorm(3, 6), weight=scale, bias=bias)(
            x
        ),
        "lstm": lstm,
        "heads": heads,
        "heads, causal": lambda x, **parts: heads(x, below, **parts),
    }


def check_equinox(table: dict[str, dict[str, float]]) -> None:
    """Check that Equinox has the numbers of PyTorch."""
    import jax

    jax.config.update("jax_enable_x64", True)
    for case, layer in equinox_layers().items():
        arrays = {name: jax.numpy.asarray(x) for name, x in numbers(case).items()}

        def batched(x: Any, others: Any, layer: Any = layer) -> Any:
            return jax.vmap(lambda x: layer(x=x, **others))(x)

        others = {name: array for name, array in arrays.items() if name != "x"}
        slopes = jax.grad(lambda x, others: jax.numpy.sin(batched(x, others)).sum(), (0, 1))(
            arrays["x"], others
        )
        found = {"value": batched(arrays["x"], others), "x": slopes[0], **slopes[1]}
        for name, array in found.items():
            size = max(float(np.abs(array).sum()), 1.0)
            assert abs(projected(array) - table[case][name]) <= 1e-12 * size, (case, name)


def main() -> None:
    """Write the table."""
    table = {case: computed(case, layer) for case, layer in torch_layers().items()}
    if find_spec("equinox"):
        check_equinox(table)
    TABLE.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()

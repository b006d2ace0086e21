"""Steps of training, beside PyTorch and beside JAX with optax, where those are installed.

A transformer for text (2 layers, 64 wide, 4 heads, 16 texts of 64 symbols) and an LSTM (32
sequences of 100 steps, 64 units): the value, the gradient and a step of Adam, from the same
weights. PyTorch runs eagerly; the others compile the step. The losses of the first steps are
compared before.

Times are of the processor, on one core: the least of rounds that go through all ways in turn, and
ratios to it, below 1 where funcgrad is quicker. First the seconds on the clock that saving 100 MB
takes, to writing the bytes, see ``files.py``::

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python -m tests.tools.benchmarks.training
    OPENBLAS_NUM_THREADS=1 python -m tests.tools.benchmarks.training --backend numpy
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import numpy as np

import funcgrad as fg
from funcgrad import nn, optim, random
from tests.tools.benchmarks import files
from tests.tools.benchmarks.native import seconds, settled
from tests.tools.practice.libraries import has_jax, jax

RATE: Final = 1e-3
SYMBOLS, WIDTH, HEADS, LAYERS, BATCH, LENGTH = 96, 64, 4, 2, 16, 64
SEQUENCES, STEPS = 32, 100

Weights = Mapping[str, Any]
Step = Callable[[], Any]
"""A step from the weights and the state that the step before led to; returns its loss."""


@fg.pytree
class Block:
    """Attention, then a small network at each position."""

    attention_norm: nn.RMSNorm
    attention: nn.MultiHeadAttention
    mlp_norm: nn.RMSNorm
    mlp: nn.MLP

    @classmethod
    def init(cls, key: fg.Tensor, dtype: str) -> Block:
        first, second = random.split(key)
        return cls(
            nn.RMSNorm.init(WIDTH, dtype=dtype),
            nn.MultiHeadAttention.init(
                first, WIDTH, HEADS, bias=False, rotary_base=10000.0, dtype=dtype
            ),
            nn.RMSNorm.init(WIDTH, dtype=dtype),
            nn.MLP.init(second, (WIDTH, 4 * WIDTH, WIDTH), bias=False, dtype=dtype),
        )

    def __call__(self, x: fg.Tensor) -> fg.Tensor:
        x = x + self.attention(self.attention_norm(x), causal=True)
        return x + self.mlp(self.mlp_norm(x))


@fg.pytree
class Transformer:
    """From symbols to logits of the symbols that follow."""

    embedding: nn.Embedding
    blocks: tuple[Block, ...]
    norm: nn.RMSNorm

    @classmethod
    def init(cls, key: fg.Tensor, dtype: str) -> Transformer:
        first, *keys = random.split(key, LAYERS + 1)
        return cls(
            nn.Embedding.init(first, SYMBOLS, WIDTH, dtype=dtype),
            tuple(Block.init(one, dtype) for one in keys),
            nn.RMSNorm.init(WIDTH, dtype=dtype),
        )

    def __call__(self, symbols: fg.Tensor) -> fg.Tensor:
        x = self.embedding(symbols)
        for block in self.blocks:
            x = block(x)
        return self.embedding.attend(self.norm(x))


def transformer_loss(model: Transformer, symbols: fg.Tensor) -> fg.Tensor:
    return nn.cross_entropy(model(symbols[:, :-1]), symbols[:, 1:]).mean()


def transformer_by(lib: Any, weights: Weights, symbols: Any) -> Any:
    """The same loss, written for PyTorch and JAX."""
    x = weights["embedding.table"][symbols[:, :-1]]

    def linear(name: str, y: Any) -> Any:
        return y @ weights[f"{name}.weight"]

    def norm(name: str, y: Any) -> Any:
        return lib.rms_norm(y, weights[f"{name}.scale"])

    for block in [f"blocks.{number}" for number in range(LAYERS)]:
        y, attention = norm(f"{block}.attention_norm", x), f"{block}.attention"
        q, k, v = (
            lib.heads(linear(f"{attention}.{name}", y)) for name in ("query", "key", "value")
        )
        mixed = lib.attention(turned(lib, q), turned(lib, k), v)
        x = x + linear(f"{attention}.output", mixed)
        y = lib.relu(linear(f"{block}.mlp.layers.0", norm(f"{block}.mlp_norm", x)))
        x = x + linear(f"{block}.mlp.layers.1", y)
    return lib.cross_entropy(norm("norm", x) @ weights["embedding.table"].T, symbols[:, 1:])


def turned(lib: Any, x: Any) -> Any:
    """Rotary positions of an array of shape (batch, heads, length, features)."""
    size = x.shape[-1]
    angles = np.arange(float(LENGTH))[:, None] * 10000.0 ** -(np.arange(0.0, size, 2) / size)
    cosine, sine = lib.like(np.cos(angles), x), lib.like(np.sin(angles), x)
    first, second = x[..., : size // 2], x[..., size // 2 :]
    return lib.joined([first * cosine - second * sine, first * sine + second * cosine])


@fg.pytree
class Recurrent:
    """An LSTM, and a linear map of its outputs."""

    cell: nn.LSTMCell
    output: nn.Linear

    @classmethod
    def init(cls, key: fg.Tensor, dtype: str) -> Recurrent:
        first, second = random.split(key)
        return cls(
            nn.LSTMCell.init(first, WIDTH, WIDTH, dtype=dtype),
            nn.Linear.init(second, WIDTH, WIDTH, dtype=dtype),
        )

    def __call__(self, xs: fg.Tensor) -> fg.Tensor:
        return self.output(nn.run(self.cell, xs)[1])


def recurrent_loss(model: Recurrent, xs: fg.Tensor) -> fg.Tensor:
    return nn.squared_error(model(xs[:, :-1]), xs[:, 1:]).mean()


def recurrent_by(lib: Any, weights: Weights, xs: Any) -> Any:
    """The same loss, written for PyTorch and JAX."""
    ys = lib.lstm(weights, xs[:, :-1])
    off = ys @ weights["output.weight"] + weights["output.bias"] - xs[:, 1:]
    return (off**2).mean()


class Case(NamedTuple):
    """A model with its loss, the same loss for other libraries, and data.

    Attributes
    ----------
    kind : class
        Of the model.
    loss, others_loss : callable
    data : callable
        ``(generator, dtype)`` to an array.
    """

    kind: Any
    loss: Callable[..., Any]
    others_loss: Callable[..., Any]
    data: Callable[[np.random.Generator, str], np.ndarray[Any, Any]]


CASES: Final[Mapping[str, Case]] = {
    "transformer": Case(
        Transformer,
        transformer_loss,
        transformer_by,
        lambda rng, dtype: rng.integers(0, SYMBOLS, (BATCH, LENGTH + 1)),
    ),
    "lstm": Case(
        Recurrent,
        recurrent_loss,
        recurrent_by,
        lambda rng, dtype: rng.standard_normal((SEQUENCES, STEPS + 1, WIDTH)).astype(dtype),
    ),
}


def ours(case: Case, model: Any, data: Any, backend: str) -> Step:
    optimizer = optim.adam(RATE)
    array = fg.tensor(data)

    @partial(fg.jit, backend=backend)
    def step(model: Any, state: Any, array: fg.Tensor) -> Any:
        value, gradient = fg.value_and_grad(case.loss)(model, array)
        return value, *optimizer.step(gradient, state, model)

    carry = [model, optimizer.init(model)]

    def run() -> Any:
        value, *carry[:] = step(carry[0], carry[1], array)
        return value

    return run


def named_weights(model: Any) -> dict[str, np.ndarray[Any, Any]]:
    """The leaves under names such as ``blocks.0.mlp.layers.1.weight``."""
    return {
        "".join(path).strip(".").replace("[", ".").replace("]", ""): np.asarray(leaf)
        for path, leaf in fg.tree.leaves_with_path(model)
    }


def torchs(case: Case, model: Any, data: Any) -> Step:
    torch: Any = import_module("torch")
    torch.set_num_threads(1)
    functions = torch.nn.functional

    def lstm(weights: Weights, xs: Any) -> Any:
        start = xs.new_zeros(1, len(xs), WIDTH)
        bias = weights["cell.bias"]
        maps = [weights["cell.weight"].T, weights["cell.state_weight"].T]
        parts = [*maps, bias, torch.zeros_like(bias)]
        return torch.lstm(xs, (start, start), parts, True, 1, 0.0, True, False, True)[0]

    def attention(q: Any, k: Any, v: Any) -> Any:
        mixed = functions.scaled_dot_product_attention(q, k, v, is_causal=True)
        return mixed.transpose(1, 2).reshape(len(q), LENGTH, WIDTH)

    lib = SimpleNamespace(
        lstm=lstm,
        attention=attention,
        heads=lambda x: x.reshape(len(x), LENGTH, HEADS, -1).transpose(1, 2),
        like=lambda array, x: torch.from_numpy(array).to(x.dtype),
        joined=lambda parts: torch.cat(parts, -1),
        relu=functions.relu,
        rms_norm=lambda x, scale: functions.rms_norm(x, scale.shape, scale, 1e-6),
        cross_entropy=lambda x, y: functions.cross_entropy(x.flatten(0, 1), y.flatten()),
    )
    weights = {
        name: torch.tensor(array, requires_grad=True)
        for name, array in named_weights(model).items()
    }
    optimizer = torch.optim.Adam(weights.values(), RATE)
    array = torch.from_numpy(data)

    def run() -> Any:
        optimizer.zero_grad()
        value = case.others_loss(lib, weights, array)
        value.backward()
        optimizer.step()
        return value.detach()

    return run


def jaxs(case: Case, model: Any, data: Any) -> Step:
    functions, optax = jax(), import_module("optax")
    library: Any = import_module("jax")
    np_, nets = functions.np, library.nn

    def lstm(weights: Weights, xs: Any) -> Any:
        def step(carry: Any, x: Any) -> Any:
            h, c = carry
            gates = x @ weights["cell.weight"] + h @ weights["cell.state_weight"]
            i, f, g, o = np_.split(gates + weights["cell.bias"], 4, -1)
            c = nets.sigmoid(f) * c + nets.sigmoid(i) * np_.tanh(g)
            h = nets.sigmoid(o) * np_.tanh(c)
            return (h, c), h

        start = np_.zeros((len(xs), WIDTH), xs.dtype)
        return functions.scan(step, (start, start), xs.swapaxes(0, 1))[1].swapaxes(0, 1)

    def attention(q: Any, k: Any, v: Any) -> Any:
        logits = q @ k.mT * (WIDTH // HEADS) ** -0.5
        allowed = np.tri(LENGTH, dtype=np.bool_)
        mixed = nets.softmax(np_.where(allowed, logits, -np_.inf)) @ v
        return mixed.swapaxes(1, 2).reshape(len(q), LENGTH, WIDTH)

    lib = SimpleNamespace(
        lstm=lstm,
        attention=attention,
        heads=lambda x: x.reshape(len(x), LENGTH, HEADS, -1).swapaxes(1, 2),
        like=lambda array, x: array.astype(x.dtype),
        joined=lambda parts: np_.concatenate(parts, -1),
        relu=nets.relu,
        rms_norm=lambda x, scale: (
            x * library.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * scale
        ),
        cross_entropy=lambda x, y: optax.softmax_cross_entropy_with_integer_labels(x, y).mean(),
    )
    optimizer, array = optax.adam(RATE), np_.asarray(data)

    @library.jit
    def step(weights: Weights, state: Any, array: Any) -> Any:
        value, gradient = library.value_and_grad(partial(case.others_loss, lib))(weights, array)
        updates, state = optimizer.update(gradient, state, weights)
        return value, optax.apply_updates(weights, updates), state

    weights = {name: np_.asarray(leaf) for name, leaf in named_weights(model).items()}
    carry = [weights, optimizer.init(weights)]

    def run() -> Any:
        value, *carry[:] = step(*carry, array)
        return library.block_until_ready(value)

    return run


def ways(case: Case, dtype: str, backends: list[str]) -> Iterator[tuple[str, Step]]:
    """All ways to take a step, from equal weights."""
    model = case.kind.init(random.key(0), dtype)
    data = case.data(np.random.default_rng(0), dtype)
    for backend in backends:
        yield backend, ours(case, model, data, backend)
    if find_spec("torch") is not None:
        yield "torch", torchs(case, model, data)
    if has_jax() and find_spec("optax") is not None:
        yield "jax", jaxs(case, model, data)


def measured(runs: Mapping[str, Step], rounds: int) -> dict[str, float]:
    """The least seconds of a step, after the losses of the first have been compared."""
    for number in range(3):
        losses = {name: float(run()) for name, run in runs.items()}
        np.testing.assert_allclose(
            list(losses.values()), next(iter(losses.values())), rtol=1e-3, err_msg=f"{number}"
        )
    counts = {name: settled(run, 0.3) for name, run in runs.items()}
    least = dict.fromkeys(runs, float("inf"))
    for _ in range(rounds):
        for name, run in runs.items():
            least[name] = min(least[name], seconds(run, counts[name]))
    return least


def print_files() -> None:
    """Print how long saving takes, to writing the bytes."""
    with TemporaryDirectory() as folder:
        times = files.measured(Path(folder), megabytes=100, rounds=7)
    for name, time in times.items():
        if name.startswith("save"):
            print(
                f"{name + ', 100 MB':22}{1e3 * time:8.1f} ms{time / times['write']:8.2f} of writing"
            )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("words", nargs="*", help="words in the names of cases, or files")
    parser.add_argument("--backend", choices=["numpy", "native", "both"], default="both")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    backends = ["numpy", "native"] if options.backend == "both" else [options.backend]
    chosen = [
        name
        for name in ("files", *CASES)
        if not options.words or any(word in name for word in options.words)
    ]
    if "files" in chosen:
        print_files()  # before the rest is kept on one core: a thread computes digests
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    for name in chosen:
        if name == "files":
            continue
        for dtype in ("float32", "float64"):
            times = measured(dict(ways(CASES[name], dtype, backends)), options.rounds)
            line = "".join([f"{way:>9}{1e3 * time:7.2f} ms" for way, time in times.items()])
            print(f"{name + ' ' + dtype:22}{line}", flush=True)
            for peer in times.keys() - set(backends):
                ratios = [f"{backend} {times[backend] / times[peer]:.2f}" for backend in backends]
                print(f"{'':22}  to {peer}: {', '.join(ratios)}", flush=True)


if __name__ == "__main__":
    main()

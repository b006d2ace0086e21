"""Train a small transformer to write like a manual
================================================

It writes one character at a time.

The text is the manual that ``help()`` shows, which comes with Python: about half a million
characters. The last tenth of it is held out for the test. A run is a value: the model, the state of
the optimizer and the losses so far. Each step draws from a key that follows from its number, so a
run that is killed and started again with the same folder ends with the same bits.

Run it with ``python examples/text.py``. It prints how many bits the model needs for a character of
text that it has not seen, and some lines that it writes, and draws the losses to ``text-loss.png``.
With ``--checkpoints FOLDER`` it goes on where it was.
"""

# sphinx_gallery_thumbnail_number = 2

import argparse
import os
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any, NamedTuple

if __name__ == "__main__":
    # NumPy's OpenBLAS reads this once, when it is loaded; products as small as these wait for a
    # second thread longer than they compute.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from matplotlib.figure import Figure
from tqdm import tqdm

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import io, nn, optim, random

# %%
# The model
# ---------
#
# Blocks of attention, as frozen dataclasses.

LETTERS = "\n" + "".join(map(chr, range(32, 127)))
WIDTH, HEADS, LAYERS = 64, 4, 2
LENGTH, BATCH = 64, 16
LEARNING_RATE = 4e-3
SAVED_EVERY = 25
TEMPERATURE = 0.7


@fg.pytree
class Block:
    """Attention to the characters before, then a small network for each character."""

    attention_norm: nn.RMSNorm
    attention: nn.MultiHeadAttention
    mlp_norm: nn.RMSNorm
    mlp: nn.MLP

    @classmethod
    def init(cls, key: fg.Tensor) -> "Block":
        attention_key, mlp_key = random.split(key)
        return cls(
            nn.RMSNorm.init(WIDTH, dtype=np.float32),
            nn.MultiHeadAttention.init(
                attention_key, WIDTH, HEADS, rotary_base=1e4, dtype=np.float32
            ),
            nn.RMSNorm.init(WIDTH, dtype=np.float32),
            nn.MLP.init(mlp_key, (WIDTH, 4 * WIDTH, WIDTH), dtype=np.float32),
        )

    def __call__(
        self, x: fg.Tensor, cache: nn.KVCache | None = None
    ) -> tuple[fg.Tensor, nn.KVCache | None]:
        result = self.attention(
            self.attention_norm(x), causal=True, window=(LENGTH - 1, 0), cache=cache
        )
        seen, cache = (result, None) if cache is None else result
        x = x + seen
        return x + self.mlp(self.mlp_norm(x)), cache


@fg.pytree
class Transformer:
    """From characters, as their places in ``LETTERS``, to logits of the character after each."""

    embedding: nn.Embedding
    blocks: tuple[Block, ...]
    norm: nn.RMSNorm

    @classmethod
    def init(cls, key: fg.Tensor) -> "Transformer":
        embedding_key, *block_keys = random.split(key, LAYERS + 1)
        return cls(
            nn.Embedding.init(embedding_key, len(LETTERS), WIDTH, dtype=np.float32),
            tuple(map(Block.init, block_keys)),
            nn.RMSNorm.init(WIDTH, dtype=np.float32),
        )

    def __call__(
        self, letters: fg.Tensor, caches: Sequence[nn.KVCache | None] = (None,) * LAYERS
    ) -> tuple[fg.Tensor, Sequence[nn.KVCache | None]]:
        x, after = self.embedding(letters), []
        for block, cache in zip(self.blocks, caches, strict=True):
            x, cache = block(x, cache)
            after.append(cache)
        return self.embedding.attend(self.norm(x)), tuple(after)


def loss(model: Transformer, letters: fg.Tensor) -> fg.Tensor:
    """The mean number of bits that a character costs after those before it."""
    logits, _ = model(letters[:, :-1])
    bits: fg.Tensor = nn.cross_entropy(logits, letters[:, 1:]).mean() / np.log(2)
    return bits


# %%
# The data
# --------


def load() -> tuple[fg.Tensor, fg.Tensor]:
    """The text to learn from and the text for the test, as places in ``LETTERS``."""
    numbers = {letter: number for number, letter in enumerate(LETTERS)}
    pages = (topics[name] for name in sorted(topics))
    known = [numbers[letter] for page in pages for letter in page if letter in numbers]
    split = len(known) * 9 // 10
    return fg.tensor(known[:split]), fg.tensor(known[split:])


def windows(text: fg.Tensor, starts: fg.Tensor) -> fg.Tensor:
    """Pieces of a text, each with one character more than the model reads."""
    return text[starts[:, None] + fnp.arange(LENGTH + 1)]


# %%
# The training
# ------------
#
# A run is a value, so a checkpoint is that value in a file.


class Run(NamedTuple):
    """All that training goes on from."""

    model: Transformer
    state: Any
    losses: fg.Tensor


def train(text: fg.Tensor, seed: int, steps: int, checkpoints: io.Checkpoints | None) -> Run:
    """Minimize the loss on pieces of the text, from the newest checkpoint on."""
    model_key, data_key = random.split(random.key(seed))
    rate = optim.schedules.cosine(LEARNING_RATE, 0.0, steps, warmup=steps // 10)
    optimizer = optim.chain(clip=optim.clip_by_norm(1.0), adam=optim.adamw(rate))

    @fg.jit
    def step(run: Run, number: int, text: fg.Tensor) -> Run:
        key = random.fold_in(data_key, number)
        starts = random.randint(key, (BATCH,), 0, len(text) - LENGTH)
        value, gradient = fg.value_and_grad(loss)(run.model, windows(text, starts))
        model, state = optimizer.step(gradient, run.state, run.model)
        return Run(model, state, run.losses.at[number].set(value))

    model = Transformer.init(model_key)
    run, done = Run(model, optimizer.init(model), fnp.zeros(steps)), 0
    if checkpoints is not None:
        done, run = checkpoints.latest(run) or (done, run)
    progress = tqdm(range(done, steps), desc="training", initial=done, total=steps)
    for number in progress:
        run = step(run, number, text)
        if (number + 1) % SAVED_EVERY == 0:
            recent = run.losses[number + 1 - SAVED_EVERY : number + 1]
            progress.set_postfix(bits=f"{recent.mean():.3f}")
            if checkpoints is not None:
                checkpoints.save(number + 1, run)
    return run


# %%
# Writing
# -------
#
# A scan draws one letter after another.


@fg.jit
def written(model: Transformer, letters: fg.Tensor, keys: fg.Tensor) -> fg.Tensor:
    """Letters that the model writes after others, each drawn by its probability with a key."""
    capacity = len(letters) + len(keys)
    logits, caches = model(letters, [block.attention.cache(capacity) for block in model.blocks])

    def step(carry: Any, key: fg.Tensor) -> Any:
        logits, caches = carry
        letter = random.categorical(key, logits / TEMPERATURE)
        logits, caches = model(letter[None], caches)
        return (logits[-1], caches), letter

    after: fg.Tensor
    _, after = fg.scan(step, (logits[-1], caches), keys)
    return after


def spelled(letters: Iterable[fg.Tensor]) -> str:
    return "".join([LETTERS[int(letter)] for letter in letters])


# %%
# The result
# ----------


class Result(NamedTuple):
    """The result of training: bits per character of the test, and text of the model."""

    run: Run
    bits: float
    sample: str


def plot(result: Result, path: Path) -> None:
    losses = np.asarray(result.run.losses)
    window = min(50, len(losses))
    smooth = np.convolve(losses, np.full(window, 1 / window), mode="valid")
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    axes.plot(losses, color="0.8", label="batch")
    axes.plot(np.arange(window - 1, len(losses)), smooth, label=f"mean of {window}")
    axes.axhline(result.bits, color="C1", label="text held out")
    axes.set(xlabel="step", ylabel="bits per character", title="Training loss")
    axes.legend()
    figure.savefig(path)


def main(arguments: Sequence[str] | None = None) -> Result:
    parser = argparse.ArgumentParser(description="Train a transformer on Python's manual.")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checkpoints", type=Path, help="a folder, from which a run goes on")
    parser.add_argument("--out", type=Path, default=Path(), help="the folder for the picture")
    options = parser.parse_args(arguments)

    text, test = load()
    folder = options.checkpoints
    with nullcontext() if folder is None else io.Checkpoints(folder) as checkpoints:
        run = train(text, options.seed, options.steps, checkpoints)
    starts = fnp.arange(0, len(test) - LENGTH, LENGTH)
    bits = float(fg.jit(loss)(run.model, windows(test, starts)))
    keys = random.split(random.named(random.key(options.seed), "sample"), 300)
    sample = spelled(written(run.model, test[:LENGTH], keys))
    result = Result(run, bits, sample)
    options.out.mkdir(parents=True, exist_ok=True)
    plot(result, options.out / "text-loss.png")
    print(f"{bits:.3f} bits per character of {len(test)} that were held out\n\n{sample}")
    return result


if __name__ == "__main__":
    main()

"""Steps on an accelerator beside the same programs for ``jax.jit``, in float32.

A transformer of 10 million parameters with Adam, a convolutional net, the energy of 20,000 bodies
and its gradient, 10,000 Kalman filters, and one pass over 100 million numbers, whose bandwidth is
compared with a copy's. Results of both libraries are compared first. Times are on the clock: the
median of rounds in turns, after which the device has finished. On JAX's CPU, a scale makes the
programs small enough::

    python -m tests.tools.benchmarks.accelerators
    JAX_PLATFORMS=cpu python -m tests.tools.benchmarks.accelerators --scale 0.001
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from importlib import import_module
from statistics import median
from typing import Any, Final, NamedTuple

import numpy as np

import funcgrad as fg
from tests.tools.practice import libraries, nets
from tests.tools.practice.loops import kalman

ROUNDS: Final = 15


class Case(NamedTuple):
    """A program in any library, its arguments at a scale, and how far results may differ.

    Attributes
    ----------
    name : str
    function : callable
        From a library (``practice/libraries.py``) to the function that is jitted.
    arguments : callable
        ``(draws, scale) -> arguments``.
    tolerance : float
        Relative to the greatest number of a result.
    """

    name: str
    function: Callable[[Any], Callable[..., Any]]
    arguments: Callable[[np.random.Generator, float], tuple[Any, ...]]
    tolerance: float


def text(draws: np.random.Generator, scale: float) -> tuple[Any, ...]:
    """The transformer's parameters, Adam's state, and symbols; 10 million at scale 1."""
    width, kinds = 4 * max(2, round(224 * scale**0.5)), max(8, round(1000 * scale))
    batch, length = max(2, round(32 * scale)), max(4, round(256 * scale))
    return nets.text(draws, batch, length, width, kinds)


def images(draws: np.random.Generator, scale: float) -> tuple[Any, ...]:
    """The convolutional net's parameters, their speed, images and labels."""
    return nets.images(draws, max(2, round(256 * scale)), 32, max(2, round(64 * scale**0.5)))


def bodies(lib: Any) -> Callable[..., Any]:
    """The energy of bodies that attract one another, and its gradient."""
    xp = lib.np

    def energy(places: Any, masses: Any) -> Any:
        squares = sum([(x[:, None] - x) ** 2 for x in places])
        return -0.5 * xp.mean(masses * ((squares + 0.01) ** -0.5 @ masses))

    return lib.value_and_grad(energy)


def stars(draws: np.random.Generator, scale: float) -> tuple[Any, ...]:
    """The places and masses of bodies."""
    count = max(8, round(20_000 * scale))
    return draws.standard_normal((3, count)), draws.random(count) / count


def filters(lib: Any) -> Callable[..., Any]:
    """Kalman filters for many series, with the gradient of each likelihood."""
    return lib.vmap(lib.value_and_grad(kalman(lib)), (None, 0))


def series(draws: np.random.Generator, scale: float) -> tuple[Any, ...]:
    """The scale of the noise, and series of 100 measurements."""
    return np.float64(1.0), draws.standard_normal((max(2, round(10_000 * scale)), 100, 4))


def fused(lib: Any) -> Callable[..., Any]:
    """One pass that reads a number and writes one, as a copy does."""
    return lambda x: lib.np.sin(x) * lib.np.exp(-x * x) + 0.5 * x


def line(draws: np.random.Generator, scale: float) -> tuple[Any, ...]:
    """Many numbers."""
    return (draws.standard_normal(max(1000, round(1e8 * scale)), np.float32),)


CASES: Final = (
    Case("transformer, Adam", nets.transformer, text, 1e-3),
    Case("convolutional net", nets.convolutional, images, 1e-3),
    Case("bodies, gradient", bodies, stars, 1e-3),
    Case("Kalman filters, gradients", filters, series, 1e-2),
    Case("one pass", fused, line, 1e-5),
)


def narrow(array: Any) -> Any:
    """An argument in float32 if it is of floats."""
    array = np.asarray(array)
    return array.astype(np.float32) if array.dtype.kind == "f" else array


def seconds(step: Callable[[], Any], wait: Callable[[Any], Any]) -> float:
    """The time on the clock until the device has finished."""
    start = time.perf_counter()
    wait(step())
    return time.perf_counter() - start


def handles(tree: Any) -> list[Any]:
    """JAX's arrays in the tensors of a tree, to wait for them without a copy."""
    return [leaf._value.handle for leaf in fg.tree.leaves(tree)]


def compared(case: Case, jax: Any, scale: float) -> str:
    """Measure a program in both libraries: a line of the table."""
    raw = fg.tree.map(narrow, case.arguments(np.random.default_rng(7), scale))
    there, here = jax.device_put(fg.tree.map(np.asarray, raw)), fg.put(raw, "xla")
    theirs = jax.jit(case.function(libraries.jax()))
    ours = fg.jit(case.function(libraries.funcgrad()))

    def wait_here(tree: Any) -> None:
        jax.block_until_ready(handles(tree))

    firsts = (
        seconds(lambda: ours(*here), wait_here),
        seconds(lambda: theirs(*there), jax.block_until_ready),
    )
    pairs = zip(fg.tree.leaves(fg.get(ours(*here))), jax.tree.leaves(theirs(*there)), strict=True)
    off = max(
        float(np.max(np.abs(np.asarray(x) - np.asarray(y))) / (np.max(np.abs(y)) or 1.0))
        for x, y in pairs
    )
    assert off <= case.tolerance, f"{case.name}: results differ by {off:.1e}"
    times = [
        (
            seconds(lambda: ours(*here), wait_here),
            seconds(lambda: theirs(*there), jax.block_until_ready),
        )
        for _ in range(ROUNDS)
    ]
    mine, other = [median(column) for column in zip(*times, strict=True)]
    ratio, first = median([x / y for x, y in times]), firsts[0] / firsts[1]
    return (
        f"| {case.name} | {1e3 * mine:.3f} | {1e3 * other:.3f} | {ratio:.2f} | {first:.2f} |"
        f" {off:.0e} |"
    )


def bandwidth(jax: Any, scale: float) -> str:
    """The bandwidth of the fused pass, and of a copy."""
    (x,) = line(np.random.default_rng(7), scale)
    there, here = jax.device_put(x), fg.put(x, "xla")
    copy, one = jax.jit(jax.numpy.copy), fg.jit(fused(libraries.funcgrad()))
    jax.block_until_ready((copy(there), handles(one(here))))
    rates = []
    for step, wait in (
        (lambda: handles(one(here)), jax.block_until_ready),
        (lambda: copy(there), jax.block_until_ready),
    ):
        rates.append(2 * x.nbytes / median([seconds(step, wait) for _ in range(ROUNDS)]) / 1e9)
    return f"One pass moves {rates[0]:.1f} GB/s, a copy {rates[1]:.1f} GB/s."


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="sizes, relative to a GPU's")
    scale = parser.parse_args().scale
    libraries.jax()
    jax: Any = import_module("jax")
    print(f"{jax.devices()[0].device_kind}, JAX {jax.__version__}, scale {scale:g}, float32\n")
    print("| program | ms | JAX's ms | ratio | first call | differ by |\n|---|---|---|---|---|---|")
    for case in CASES:
        print(compared(case, jax, scale), flush=True)
    print(f"\n{bandwidth(jax, scale)}")


if __name__ == "__main__":
    main()

"""The times of convolutions and pooling with their gradients, over those of PyTorch.

Processor time on one core, the least of several runs taken in turns, as a ratio: below 1 is quicker
than PyTorch, run eagerly, too. It needs PyTorch, which nothing else here does::

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python -m tests.tools.benchmarks.convolutions
    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python -m tests.tools.benchmarks.convolutions pool
"""

import argparse
import importlib
from collections.abc import Callable
from math import prod
from time import process_time
from typing import Any, Final, NamedTuple

import numpy as np

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import nn

__all__ = ["CASES", "Case", "Form", "loss"]

ROUNDS: Final = 15

Shape = tuple[int, ...]


class Form(NamedTuple):
    """An operation, and the name that it has in PyTorch, to which the number of axes is added."""

    ours: Callable[..., Any]
    theirs: str


class Case(NamedTuple):
    """An operation on an array, and on a kernel if it takes one.

    Attributes
    ----------
    form : Form
    shape : tuple of int
    kernel : tuple of int, optional
    options : dict
        Those of the operation, which PyTorch knows by the same names.
    window : int or tuple of int, optional
    """

    form: Form
    shape: Shape
    kernel: Shape | None = None
    options: dict[str, Any] = {}  # noqa: RUF012  # nobody changes it
    window: Any = None


CONV: Final = Form(nn.conv, "conv")
TRANSPOSED: Final = Form(nn.conv_transpose, "conv_transpose")
MAX: Final = Form(nn.max_pool, "max_pool")
AVERAGE: Final = Form(nn.avg_pool, "avg_pool")
ADAPTIVE_MAX: Final = Form(nn.adaptive_max_pool, "adaptive_max_pool")
ADAPTIVE_AVERAGE: Final = Form(nn.adaptive_avg_pool, "adaptive_avg_pool")

CASES: Final = {
    "3 x 3": Case(CONV, (64, 16, 28, 28), (32, 16, 3, 3)),
    "3 x 3 same": Case(CONV, (64, 16, 28, 28), (32, 16, 3, 3), {"padding": 1}),
    "3 x 3 of 1 channel": Case(CONV, (64, 1, 28, 28), (16, 1, 3, 3)),
    "3 x 3 small images": Case(CONV, (64, 64, 8, 8), (64, 64, 3, 3), {"padding": 1}),
    "3 x 3 large images": Case(CONV, (2, 16, 160, 160), (32, 16, 3, 3), {"padding": 1}),
    "3 x 3 dilation 2": Case(CONV, (64, 16, 28, 28), (32, 16, 3, 3), {"dilation": 2}),
    "1 x 1": Case(CONV, (64, 32, 28, 28), (64, 32, 1, 1)),
    "5 x 5": Case(CONV, (64, 6, 28, 28), (16, 6, 5, 5)),
    "7 x 7 stride 2": Case(CONV, (4, 3, 112, 112), (64, 3, 7, 7), {"stride": 2, "padding": 3}),
    "3 x 3 stride 2": Case(CONV, (64, 16, 28, 28), (32, 16, 3, 3), {"stride": 2, "padding": 1}),
    "1 x 1 stride 2": Case(CONV, (64, 32, 28, 28), (64, 32, 1, 1), {"stride": 2}),
    "4 groups": Case(CONV, (64, 32, 28, 28), (32, 8, 3, 3), {"groups": 4}),
    "depthwise": Case(CONV, (64, 32, 28, 28), (32, 1, 3, 3), {"groups": 32, "padding": 1}),
    "1 axis": Case(CONV, (64, 16, 256), (32, 16, 5)),
    "1 axis, long": Case(CONV, (4, 2, 16384), (8, 2, 9)),
    "3 axes": Case(CONV, (4, 8, 16, 16, 16), (16, 8, 3, 3, 3)),
    "transposed": Case(TRANSPOSED, (64, 32, 14, 14), (32, 16, 3, 3)),
    "transposed stride 2": Case(TRANSPOSED, (64, 32, 14, 14), (32, 16, 2, 2), {"stride": 2}),
    "max pool": Case(MAX, (64, 32, 28, 28), window=2),
    "max pool overlapping": Case(
        MAX, (64, 32, 28, 28), options={"stride": 2, "padding": 1}, window=3
    ),
    "max pool 1 axis": Case(MAX, (64, 32, 784), window=(4,)),
    "mean pool": Case(AVERAGE, (64, 32, 28, 28), window=2),
    "mean pool overlapping": Case(
        AVERAGE, (64, 32, 28, 28), options={"stride": 1, "padding": 1}, window=3
    ),
    "adaptive mean pool": Case(ADAPTIVE_AVERAGE, (64, 32, 28, 28), window=(7, 7)),
    "uneven adaptive mean pool": Case(ADAPTIVE_AVERAGE, (64, 32, 28, 28), window=(5, 5)),
    "uneven adaptive max pool": Case(ADAPTIVE_MAX, (64, 32, 28, 28), window=(5, 5)),
}


def loss(case: Case) -> Callable[..., Any]:
    """Sum of squares of what the operation returns."""

    def f(x: Any, *parts: Any) -> Any:
        return fnp.sum(fnp.square(case.form.ours(x, *parts, **case.options)))

    return f


def arguments(case: Case, dtype: str) -> list[Any]:
    """Arrays of numbers between -1 and 1, all different."""
    rng = np.random.default_rng(7)
    shapes = [case.shape] if case.kernel is None else [case.shape, case.kernel]
    ranks = [rng.permutation(prod(shape)).reshape(shape) for shape in shapes]
    return [((each + 0.5) / each.size * 2 - 1).astype(dtype) for each in ranks]


def works(case: Case, dtype: str) -> list[Callable[[], Any]]:
    """The value and the gradients: here, here by jit, and in PyTorch."""
    torch = importlib.import_module("torch")
    torch.set_num_threads(1)
    given = arguments(case, dtype)
    places = tuple(range(len(given)))
    f = loss(case)

    def ours(*parts: Any) -> Any:
        return f(*parts) if case.window is None else f(*parts, case.window)

    tensors = [fg.tensor(x) for x in given]
    eager = fg.value_and_grad(ours, argnums=places)
    staged = fg.jit(fg.value_and_grad(ours, argnums=places))
    theirs = getattr(torch.nn.functional, f"{case.form.theirs}{len(case.shape) - 2}d")
    followed = [torch.from_numpy(x).requires_grad_() for x in given]
    last = [] if case.window is None else [case.window]

    def peer() -> Any:
        value = theirs(*followed, *last, **case.options).square().sum()
        return value, torch.autograd.grad(value, followed)

    calls: list[Callable[[], Any]] = [lambda: eager(*tensors), lambda: staged(*tensors), peer]
    expected = peer()[1]
    for call in calls[:2]:
        for found, grad in zip(call()[1], expected, strict=True):
            most = float(grad.abs().max())
            np.testing.assert_allclose(found, grad.numpy(), rtol=0, atol=1e-4 * most)
    return calls


def least(calls: list[Callable[[], Any]], rounds: int = ROUNDS) -> list[float]:
    """The least processor time of each, taken in turns."""
    found = [float("inf")] * len(calls)
    for _ in range(rounds):
        for place, call in enumerate(calls):
            start = process_time()
            call()
            found[place] = min(found[place], process_time() - start)
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="only cases whose names have one of these words")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    print(f"{'':28}{'float32':>24}{'float64':>26}")
    print(f"{'':28}" + f"{'eager':>8}{'jit':>8}{'ms':>8}  " * 2)
    for name, case in CASES.items():
        if options.names and not any(word in name for word in options.names):
            continue
        line = f"{name:28}"
        for dtype in ("f", "d"):
            eager, staged, peer = least(works(case, dtype), options.rounds)
            line += f"{eager / peer:8.2f}{staged / peer:8.2f}{1e3 * peer:8.2f}  "
        print(line, flush=True)


if __name__ == "__main__":
    main()

"""Random programs over rows, which run at any number of rows: for code that sizes share.

A long search: ``python -m tests.backends.native.sized_programs SEED MINUTES``.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final
from unittest.mock import patch

import numpy as np

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._backends.native import native_code
from funcgrad._backends.native.native_backend import NATIVE
from funcgrad._backends.native.native_code import BEST, FIRST
from funcgrad._backends.native.native_module import NativeModule
from funcgrad._backends.native.sized_texts import Family, SizedTexts

SIZES: Final = (100, 101, 107, 128, 250, 99, 131, 64)
Step = Callable[[Any, float], Any]


def _flag(x: Any) -> Any:
    return fnp.sum(x[: len(x) // 2]) > 0.1


def _until(x: Any, c: float) -> Any:
    def step(state: tuple[Any, Any]) -> Any:
        return state[0] * 0.7 + fnp.cos(state[0] * c) * 0.1, state[1] + 1

    return fg.while_loop(lambda s: (s[1] < 9) & (fnp.max(abs(s[0])) > 0.5), step, (x, 0))[0]


def _newton(x: Any, c: float) -> Any:
    a = abs(x[:, 0]) + c

    def root(a: Any) -> Any:
        def is_far(state: Any) -> Any:  # float32 does not come as near: some steps are enough
            return (abs(state[0] * state[0] - a) > 1e-9) & (state[1] < 12)

        return fg.while_loop(is_far, lambda s: ((s[0] + a / s[0]) / 2.0, s[1] + 1), (a + 1.0, 0))[0]

    return x - fg.vmap(root)(a)[:, None]


STEPS: Final[Mapping[str, Step]] = {
    "scaled": lambda x, c: x * c + fnp.tanh(x) / len(x),
    "functions": lambda x, c: fnp.exp(-x * x) * fnp.sin(x + c),
    "centred": lambda x, c: x - fnp.mean(x, axis=0),
    "greatest": lambda x, c: x / (c + fnp.max(abs(x), axis=0)),
    "rows": lambda x, c: x - c * fnp.sum(x, axis=1, keepdims=True),
    "softmax": lambda x, c: fg.scipy.special.softmax(x * c, axis=0) + x,
    "total": lambda x, c: x + c * fnp.sum(fnp.sqrt(1.0 + x * x)),
    "cumsum": lambda x, c: fnp.cumsum(x, axis=0) * (c / len(x)),
    "cumprod": lambda x, c: fnp.cumprod(1.0 + x * c / len(x), axis=0) + x,
    "flag": lambda x, c: fnp.where(_flag(x), fnp.exp(x * c), fnp.sin(x)),
    "flags": lambda x, c: fnp.where(x > c, x * 0.5, -x) + fnp.where(x[:, :1] > 0.0, c, x),
    "loop_flag": lambda x, c: fg.fori_loop(
        *(0, 7),
        lambda k, y: fnp.where(k % 3 == 0, fnp.tanh(y @ _mixing(y, c)), y * 0.9 + c).astype(
            x.dtype
        ),
        x,
    ),
    "scan": lambda x, c: fg.scan(lambda s, r: (0.9 * s + fnp.tanh(r), c * r + s), x[0], x)[1],
    "until": _until,
    "newton": _newton,
    "sorted": lambda x, c: fnp.sort(x, axis=0) + c,
    "lines": lambda x, c: fnp.sort(fnp.concatenate([x, x * c], axis=1), axis=1)[:, : x.shape[1]],
    "least": lambda x, c: x - fnp.sort(x, axis=0)[:3].sum(axis=0) * c,
    "median": lambda x, c: x - fnp.median(x, axis=0),
    "partition": lambda x, c: x + fnp.partition(x, 4, axis=0)[4] * c,
    "ordered": lambda x, c: x[fnp.argsort(x[:, 0])] * c,
    "argmax": lambda x, c: x + c * fnp.argmax(x, axis=0),
    "product": lambda x, c: fnp.tanh(x @ _mixing(x, c)),
    "gram": lambda x, c: x @ fnp.linalg.inv(x.T @ x / len(x) + (1.0 + c) * fnp.eye(x.shape[1])),
    "rolled": lambda x, c: x + c * fnp.roll(x, 1, axis=0) - fnp.flip(x, axis=0),
    "sliced": lambda x, c: fnp.concatenate([x[3:] * c, x[:3]], axis=0),
    "bordered": lambda x, c: fnp.pad(x, ((1, 1), (0, 0)))[2:] * c + x,
    "picked": lambda x, c: x[(fnp.arange(len(x)) * 7) % len(x)] * c,
    "added": lambda x, c: x.at[(fnp.arange(len(x)) * 3) % len(x)].add(x * c),
    "single": lambda x, c: (x.astype(np.float32) * c).astype(x.dtype) + x,
    "integers": lambda x, c: x + fnp.cumsum((x > c).astype(np.int64), axis=0) / len(x),
    "complex": lambda x, c: fnp.real(fnp.exp((x + 1j * c) / len(x)) * (x + 0.5j)),
    "fourier": lambda x, c: fnp.real(fnp.fft.ifft(fnp.fft.fft(x, axis=0) * c, axis=0)) + x,
    "pairs": lambda x, c: x + c * fnp.mean(fnp.cos(x[:, None, 0] - x[:, 0]), axis=1)[:, None],
    "gammaln": lambda x, c: x + fg.scipy.special.gammaln(abs(x) + c + 0.5) * 0.1,
    "differences": lambda x, c: fnp.concatenate([fnp.diff(x, axis=0), x[:1]], axis=0) * c,
    "batched": lambda x, c: fg.vmap(lambda r: r * c / (1.0 + fnp.sum(r * r)))(x),
    "derived": lambda x, c: fg.grad(lambda y: fnp.sum(fnp.cumsum(fnp.sin(y * c), axis=0)))(x),
}
ENDS: Final[Sequence[Callable[[Any], Any]]] = (
    lambda x: x,
    lambda x: (fnp.sum(x, axis=0), fnp.max(x, axis=1)),
    lambda x: fnp.mean(x * x),
    lambda x: (x[::-1], fnp.all(x > -2.0), fnp.argmin(x, axis=0)),
)


def _mixing(x: Any, c: float) -> Any:
    return np.eye(x.shape[1]) * 0.8 + 0.1 * c


def random_program(seed: int) -> tuple[str, Callable[[Any], Any], int, str]:
    """A program of a few steps: its words, its function, its columns and its dtype."""
    rng = np.random.default_rng(seed)
    names = [str(name) for name in rng.choice([*STEPS], int(rng.integers(1, 5)))]
    factors = [float(c) for c in rng.uniform(0.2, 1.2, len(names))]
    end, kind = int(rng.integers(len(ENDS))), str(rng.choice(["value", "value", "grad", "jvp"]))

    def f(x: Any) -> Any:
        for name, factor in zip(names, factors, strict=True):
            x = STEPS[name](x, factor)
        return ENDS[end](x)

    def total(x: Any) -> Any:
        leaves = [fnp.asarray(leaf) for leaf in fg.tree.leaves(f(x))]
        return sum([fnp.sum(leaf * leaf) for leaf in leaves if leaf.dtype.kind == "f"])

    columns = int(rng.choice([1, 2, 3, 4, 7, 8, 20, 33, 300]))
    dtype = str(rng.choice(["f8", "f8", "f8", "f4"]))
    function: Callable[[Any], Any] = {
        "value": f,
        "grad": fg.grad(total),
        "jvp": lambda x: fg.jvp(f, (x,), (x * 0.5 + 1.0,)),
    }[kind]
    if kind == "grad" and {"until", "newton", "loop_flag"} & {*names}:
        function, kind = f, "value"
    return f"{seed}: {kind} {names} end {end}, {columns} {dtype}", function, columns, dtype


@contextmanager
def first_level(level: int) -> Iterator[None]:
    """Compile first code at a level, which nothing improves, and keep none on disk."""
    short = NativeModule.short_text if level == FIRST else NativeModule.text
    with (
        patch.dict("os.environ", FUNCGRAD_CACHE="0"),
        patch.object(native_code, "FIRST", level),
        patch.object(native_code, "begin_thread", lambda *_, **__: None),
        patch.object(NativeModule, "short_text", short),
    ):
        yield


def own_code(_: SizedTexts, texts: Sequence[str]) -> tuple[Family, bytes]:
    """A family of one program."""
    return Family((), frozenset(), texts), b""


def run(function: Callable[[Any], Any], x: Any, threads: int) -> list[Any]:
    """The results by machine code."""
    jitted = fg.jit(function, backend=NATIVE, threads=threads)
    results = [np.asarray(leaf) for leaf in fg.tree.leaves(jitted(x))]
    assert not jitted.failures
    return results


def assert_sizes_agree(seed: int, count: int, level: int, threads: int = 1) -> bool:
    """Compare shared code with a program's own, bit by bit, and with evaluation.

    Returns whether code was shared.
    """
    words, function, columns, dtype = random_program(seed)
    rng, shared, of = np.random.default_rng(seed), list[bytes](), SizedTexts.of

    def noted(self: SizedTexts, texts: Sequence[str]) -> tuple[Family, bytes]:
        family, table = of(self, texts)
        shared.append(table)
        return family, table

    for n in rng.permutation(SIZES)[:count]:
        x = rng.standard_normal((int(n), columns)).astype(dtype)
        with first_level(level):
            with patch.object(SizedTexts, "of", own_code):
                expected = run(function, x, threads)
            with patch.object(SizedTexts, "of", noted):
                results = run(function, x, threads)
        for k, (one, two) in enumerate(zip(results, expected, strict=True)):
            np.testing.assert_array_equal(one, two, f"{words}, {n} rows, {k}: not its own bits")
        plain = fg.tree.leaves(function(fg.tensor(x)))
        tolerance = 1e-7 if dtype == "f8" else 2e-2
        for k, (one, leaf) in enumerate(zip(results, plain, strict=True)):
            two = np.asarray(leaf)
            assert (one.shape, one.dtype) == (two.shape, two.dtype), f"{words}, {n} rows, {k}"
            if one.dtype.kind != "f":
                continue  # integers may follow other roundings
            scale = float(np.max(np.abs(two), initial=1e-3, where=np.isfinite(two)))
            text = f"{words}, {n} rows, {k}: not what is evaluated"
            np.testing.assert_allclose(one, two, tolerance, tolerance * scale, err_msg=text)
    return any(shared)


def main(seed: int, minutes: float) -> None:
    """Search for some time; print what differs."""
    start, shared, count = time.monotonic(), 0, 0
    while time.monotonic() - start < 60 * minutes:
        seed, count = seed + 1, count + 1
        level, threads = (FIRST, BEST)[seed % 2], 1 + seed // 2 % 2
        try:
            shared += assert_sizes_agree(seed, 4, level, threads)
        except Exception as error:
            head = random_program(seed)[0]
            print(
                f"level {level}, {threads} threads, {head}\n{type(error).__name__}: {error}"[:900]
            )
            sys.stdout.flush()
    print(f"{count} programs, {shared} shared code")


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))

"""The page that compares the library with its peers: each row is an experiment, run in each.

Run ``python -m tests.tools.benchmarks.comparison`` where autograd, JAX and PyTorch are installed:
it writes ``examples/docs/comparison.md``. A library that is not installed is left out.
"""

from __future__ import annotations

import marshal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from datetime import date
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
from packaging.requirements import Requirement

PAGE: Final = Path(__file__).resolve().parents[3] / "examples" / "docs" / "comparison.md"
ROUNDS: Final = 5


# ------------------------------------------------------------------------------------ the libraries


def _first(pullback: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda cotangent: pullback(cotangent)[0]


def _funcgrad() -> SimpleNamespace:
    fg = import_module("funcgrad")
    return SimpleNamespace(
        name="funcgrad",
        np=import_module("funcgrad.numpy"),
        array=fg.tensor,
        grad=fg.grad,
        vmap=fg.vmap,
        jit=fg.jit,
        while_loop=fg.while_loop,
        pullback=lambda f, x: _first(fg.vjp(f, x)[1]),
    )


def _autograd() -> SimpleNamespace:
    autograd = import_module("autograd")
    return SimpleNamespace(
        name="autograd",
        np=import_module("autograd.numpy"),
        array=np.array,
        grad=autograd.grad,
        vmap=None,
        jit=None,
        while_loop=None,
        pullback=lambda f, x: autograd.make_vjp(f)(x)[0],
    )


def _jax() -> SimpleNamespace:
    jax = import_module("jax")
    return SimpleNamespace(
        name="jax",
        np=import_module("jax.numpy"),
        array=import_module("jax.numpy").asarray,
        grad=jax.grad,
        vmap=jax.vmap,
        jit=jax.jit,
        while_loop=jax.lax.while_loop,
        pullback=lambda f, x: _first(jax.vjp(f, x)[1]),
    )


def _torch() -> SimpleNamespace:
    torch = import_module("torch")
    return SimpleNamespace(
        name="torch",
        np=torch,
        array=torch.tensor,
        grad=torch.func.grad,
        vmap=torch.func.vmap,
        jit=lambda f: torch.compile(f, backend="eager"),
        while_loop=None,
    )


LIBRARIES: Final = {
    "funcgrad": _funcgrad,
    "autograd": _autograd,
    "JAX": _jax,
    "PyTorch": _torch,
}


# ---------------------------------------------------------------------------------- the experiments


def immutable(library: Any) -> str:
    x = library.array([1.0, 2.0])
    try:
        x[0] = 5.0
    except TypeError:
        return "yes"
    return "no"


def overwritten(library: Any) -> str:
    """The gradient of a product with an array that is overwritten before the way back."""
    x = library.array(np.ones(16))
    source = _aligned(16, np.asarray(x).dtype)
    if library.name == "torch":
        x.requires_grad_()
        out = (x * library.np.from_numpy(source)).sum()
        source[:] = 7.0
        out.backward()
        gradient = x.grad
    else:
        pull = library.pullback(lambda x: library.np.sum(x * source), x)
        source[:] = 7.0
        gradient = pull(library.array(1.0))
    return "for the old values" if float(gradient[0]) == 1.0 else "mixes in new values"


def _aligned(size: int, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Ones in memory that begins at a multiple of 64 bytes, as JAX needs to read it in place."""
    memory = np.empty(size * dtype.itemsize + 64, np.uint8)
    start = -memory.ctypes.data % 64
    ones = memory[start : start + size * dtype.itemsize].view(dtype)
    ones[:] = 1.0
    return ones


def guarded(library: Any) -> str:
    where, sqrt = library.np.where, library.np.sqrt
    return _number(library.grad(lambda x: where(x > 0, sqrt(x), 0.0 * x))(library.array(0.0)))


def zero_norm(library: Any) -> str:
    norm = library.np.linalg.norm
    return _number(library.grad(lambda x: norm(x))(library.array([0.0, 0.0]))[0])


def complex_square(library: Any) -> str:
    found = complex(library.grad(lambda z: abs(z) ** 2)(library.array(1 + 2j)))
    return f"{found.real:g} {'+' if found.imag > 0 else '−'} {abs(found.imag):g}i"


def default_dtype(library: Any) -> str:
    return str(library.array([1.0, 2.0]).dtype).removeprefix("torch.")


def branch_on_a_value(library: Any) -> str:
    if library.jit is None:
        return "no jit"

    def f(x: Any) -> Any:
        return x * 2.0 if x > 0 else -x

    try:
        library.jit(f)(library.array(1.0))
    except Exception as error:
        return type(error).__name__
    return "yes"


def branch_in_a_batch(library: Any) -> str:
    if library.vmap is None:
        return "no vmap"
    try:
        out = library.vmap(lambda x: x * 2.0 if x > 0 else -x)(library.array([1.0, -3.0]))
    except Exception as error:
        return type(error).__name__
    return "yes" if np.asarray(out).tolist() == [2.0, 3.0] else "wrong"


def back_through_while(library: Any) -> str:
    if library.while_loop is None:
        return "Python's loop only"

    def f(x: Any) -> Any:
        return library.while_loop(lambda c: c < 100.0, lambda c: c * x, x)

    try:
        library.grad(f)(library.array(3.0))
    except ValueError:
        return "no"
    return "yes"


def import_time(library: Any) -> str:
    """The least time that a new process takes to import the library, beyond that of NumPy."""

    def least(statement: str) -> float:
        times = []
        for _ in range(ROUNDS):
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", statement], check=True)
            times.append(time.perf_counter() - start)
        return min(times)

    return f"{least(f'import numpy, {library.name}') - least('import numpy'):.2f} s"


def size(library: Any) -> str:
    """The size of what is installed for the library alone, without NumPy and SciPy."""
    return f"{sum(_files(name) for name in _needs(library.name)) / 1e6:,.0f} MB"


def first_gradient(library: Any) -> str:
    """The least time of a first gradient, jitted where there is a jit, in a new process each."""
    times = [
        float(subprocess.check_output([sys.executable, "-m", __spec__.name, library.name]))
        for _ in range(ROUNDS)
    ]
    return f"{1e3 * min(times):,.0f} ms"


EXPERIMENTS: Final[dict[str, Callable[[Any], str]]] = {
    "arrays are immutable": immutable,
    "a NumPy array that the function uses is overwritten before the backward pass: gradient": (
        overwritten
    ),
    "gradient at 0 of `where(x > 0, sqrt(x), 0)`": guarded,
    "gradient of `linalg.norm` at 0": zero_norm,
    "gradient of abs(z)² at z = 1 + 2i": complex_square,
    "dtype of `[1.0, 2.0]`": default_dtype,
    "`if x > 0` under `jit`": branch_on_a_value,
    "`if x > 0` under `vmap`": branch_in_a_batch,
    "reverse mode through `while_loop`": back_through_while,
    "installed, without NumPy and SciPy": size,
    "import, after NumPy's": import_time,
    "first gradient of a small network, `jit` and all": first_gradient,
}

FACTS: Final = {
    "gradient of an intermediate value": ("`probe`", "no", "no", "`retain_grad`"),
    "`vmap`": ("yes", "no", "yes", "yes"),
    "compiled": ("to machine code, or NumPy source", "no", "to machine code", "to machine code"),
    "GPU": ("by XLA, not tried yet", "no", "yes", "yes"),
}
"""What the libraries' manuals say, in the order of `LIBRARIES`."""


def _number(value: Any) -> str:
    number = float(value)
    return "NaN" if np.isnan(number) else f"{number:g}"


def _needs(package: str) -> set[str]:
    """The distributions that a package needs, with itself, without NumPy and SciPy."""
    found: set[str] = set()
    waiting = [package]
    while waiting:
        name = waiting.pop().lower().replace("_", "-")
        if name in found or name in ("numpy", "scipy"):
            continue
        try:
            requires = distribution(name).requires or []
        except PackageNotFoundError:
            continue
        found.add(name)
        needed = [Requirement(text) for text in requires]
        waiting += [
            need.name for need in needed if not need.marker or need.marker.evaluate({"extra": ""})
        ]
    return found


def _files(name: str) -> int:
    if name == "funcgrad":  # installed in place: the files of the wheel, and pip's byte code
        folder = Path(import_module("funcgrad").__path__[0])
        files = [path for path in folder.rglob("*") if path.suffix in (".py", ".md")]
        codes = [
            compile(path.read_text("utf-8"), str(path), "exec") for path in folder.rglob("*.py")
        ]
        return sum(path.stat().st_size for path in files) + sum(map(len, map(marshal.dumps, codes)))
    return sum(
        path.stat().st_size
        for path in (Path(str(file.locate())) for file in distribution(name).files or ())
        if path.exists()
    )


# ----------------------------------------------------------------------------------------- the page


def time_of_a_first_gradient(name: str) -> float:
    """Seconds from the imported library to the first gradient of a small network's loss."""
    library = {"funcgrad": _funcgrad, "autograd": _autograd, "jax": _jax, "torch": _torch}[name]()
    inputs, weights = (library.array(array) for array in (np.ones((32, 8)), np.full((8, 8), 0.1)))

    def loss(w: Any, x: Any) -> Any:
        tanh, total = library.np.tanh, library.np.sum
        return total(tanh(tanh(x @ w) @ w) ** 2)

    start = time.perf_counter()
    gradient = library.grad(loss)
    if library.jit is not None and name != "torch":
        gradient = library.jit(gradient)
    np.asarray(gradient(weights, inputs))
    return time.perf_counter() - start


def main() -> None:
    warnings.simplefilter("ignore")
    libraries = {}
    for name, make in LIBRARIES.items():
        try:
            libraries[name] = make()
        except ImportError:
            print(f"{name} is not installed")
    versions = ", ".join(f"{name} {version(library.name)}" for name, library in libraries.items())
    lines = [
        "# Comparison",
        "",
        "Each row but the last four is an experiment.",
        "`python -m tests.tools.benchmarks.comparison`"
        f" ran it in each library on {date.today():%d %B %Y}, with {versions},",
        f"Python {sys.version.split()[0]}, on one processor. Times are the least of five.",
        "PyTorch's first gradient is by `torch.func.grad`, without `torch.compile`. The last four",
        "rows come from the manuals.",
        "",
        "| | " + " | ".join(libraries) + " |",
        "|---|" + "---|" * len(libraries),
    ]
    for title, experiment in EXPERIMENTS.items():
        cells = [experiment(library) for library in libraries.values()]
        print(title, *cells, sep=" | ")
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    for title, words in FACTS.items():
        shown = [word for name, word in zip(LIBRARIES, words, strict=True) if name in libraries]
        lines.append(f"| {title} | " + " | ".join(shown) + " |")
    PAGE.write_text("\n".join(lines) + "\n\n" + AFTER, "utf-8")


AFTER: Final = """\
Features of the others that funcgrad lacks: GPUs, distribution of one program over many devices, and
published models and tools. See [coming from JAX](coming_from/jax.md) and
[coming from PyTorch](coming_from/pytorch.md).
"""

if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(time_of_a_first_gradient(sys.argv[1]))
    else:
        main()

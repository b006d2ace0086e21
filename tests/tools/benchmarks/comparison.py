"""The page that compares the library with its peers: each row is an experiment, run in each.

Run ``python -m tests.tools.benchmarks.comparison`` where autograd, JAX and PyTorch are installed,
and asdex, diffrax, equinox, hypothesis, optimistix and safetensors: it writes
``examples/docs/comparison.md``. A library that is not installed is left out.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from datetime import date
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
from packaging.requirements import Requirement

from tests.tools.benchmarks import compared_solutions

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


LIBRARIES: Final = {"funcgrad": _funcgrad, "autograd": _autograd, "JAX": _jax, "PyTorch": _torch}


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
            start = os.times()
            subprocess.run([sys.executable, "-c", statement], check=True)
            end = os.times()
            times.append(sum(end[2:4]) - sum(start[2:4]))  # processor time of children
        return min(times)

    return f"{least(f'import numpy, {library.name}') - least('import numpy'):.2f} s"


def size(library: Any) -> str:
    """The size of what pip unpacks for the library, without byte code, NumPy and SciPy."""
    megabytes = sum(_files(name) for name in _needs(library.name)) / 1e6
    return f"{megabytes:,.{0 if megabytes > 9 else 1}f} MB"


def first_gradient(library: Any) -> str:
    """The least time of a first gradient, jitted where there is a jit, in a new process each."""
    return _first_gradient(library.name, {"FUNCGRAD_CACHE": "0"})


def later_gradient(library: Any) -> str:
    """The same where an earlier process has stored its compiled code."""
    if library.name not in ("funcgrad", "jax"):
        return "nothing stored"
    with TemporaryDirectory() as folder:
        stored = {
            "JAX_COMPILATION_CACHE_DIR": folder,
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        }
        return _first_gradient(library.name, stored)


def _first_gradient(name: str, environment: dict[str, str]) -> str:
    command = [sys.executable, "-m", __spec__.name, name]
    environment = os.environ | environment
    times = [float(subprocess.check_output(command, env=environment)) for _ in range(ROUNDS)]
    return f"{1e3 * min(times):,.0f} ms"


def _row(title: str, library: Any) -> str:
    """A cell of the module ``compared_solutions``, in a process of its own."""
    if library.name not in compared_solutions.ROWS[title]:
        return "no"
    done = subprocess.run(
        [sys.executable, "-m", compared_solutions.__name__, library.name, title],
        env=os.environ | {"JAX_ENABLE_X64": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout.strip()


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
    **{title: partial(_row, title) for title in compared_solutions.ROWS},
    "installed, without NumPy and SciPy": size,
    "import, after NumPy's": import_time,
    "first gradient of a small network, with `jit`": first_gradient,
    "the same in a later process": later_gradient,
}

PEERS: Final = ("asdex", "diffrax", "equinox", "lineax", "optimistix")
"""Libraries on top of JAX, which some rows of JAX use."""

FACTS: Final = {
    "gradient of an intermediate value": ("`probe`", "no", "no", "`retain_grad`"),
    "compiled": ("to machine code, or NumPy source", "no", "to machine code", "to machine code"),
    "GPU": ("by XLA, [not tried yet](guide/devices.md)", "no", "yes", "yes"),
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
    if name == "funcgrad":  # also if it is installed in place
        files = Path(import_module("funcgrad").__path__[0]).rglob("*.*")
    else:
        files = (Path(str(file.locate())) for file in distribution(name).files or ())
    return sum(path.stat().st_size for path in files if path.is_file() and path.suffix != ".pyc")


# ----------------------------------------------------------------------------------------- the page


def time_of_a_first_gradient(name: str) -> float:
    """Seconds from the imported library to the first gradient of a small network's loss."""
    library = {"funcgrad": _funcgrad, "autograd": _autograd, "jax": _jax, "torch": _torch}[name]()
    inputs, weights = (library.array(array) for array in (np.ones((32, 8)), np.full((8, 8), 0.1)))

    def loss(w: Any, x: Any) -> Any:
        tanh, total = library.np.tanh, library.np.sum
        return total(tanh(tanh(x @ w) @ w) ** 2)

    start = time.process_time()
    gradient = library.grad(loss)
    if library.jit is not None and name != "torch":
        gradient = library.jit(gradient)
    np.asarray(gradient(weights, inputs))
    return time.process_time() - start


def main() -> None:
    warnings.simplefilter("ignore")
    libraries = {}
    for name, make in LIBRARIES.items():
        try:
            libraries[name] = make()
        except ImportError:
            print(f"{name} is not installed")
    versions = ", ".join(f"{name} {version(library.name)}" for name, library in libraries.items())
    peers = ", ".join(f"{name} {version(name)}" for name in PEERS)
    lines = [
        "# Comparison",
        "",
        "Each row but the last three is an experiment.",
        "`python -m tests.tools.benchmarks.comparison`",
        f"ran it in each library on {date.today():%d %B %Y}, with {versions},",
        f"{peers}, Python {sys.version.split()[0]}.",
        "The last three rows come from the manuals.",
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
How to read it:

- Times are processor times, the least of five rounds, on a machine that also did other work; the
  test that fails was run once.
- The rows from the sparse Jacobian to the property test compute in float64. In JAX's column they
  use libraries on top of it, which the cells name.
- Sparse Jacobians: the first call finds the pattern and its colors. "No" means that the library has
  nothing of the kind; you would write it yourself.
- Root: JAX's own `lax.custom_root` with its own `gmres` raises the error that the cell names.
- Stiff equations: both solvers have the tolerances 1e-6 and 1e-10, and both agree with the known
  value and gradient to three digits; other options are the defaults.
- The test that fails: Hypothesis, in its default settings, until it reports the mistake.
- PyTorch's first gradient is `torch.func.grad`, without `torch.compile`. JAX stores compiled code
  only if `JAX_COMPILATION_CACHE_DIR` is set, as it was here.
- Sizes: the files that pip unpacks for the library and for the packages that it needs, without
  byte code. PyTorch is its build for processors; the build for GPUs is several times as large.

[GradBench](gradbench.md) compares the speed of funcgrad, JAX and C++ in the evaluations of
[the project of this name](https://github.com/gradbench/gradbench).

Features of the others that funcgrad lacks: years of use on GPUs, where nothing of funcgrad was
tried yet, distribution of one program over many devices, and published models and tools.
See [coming from JAX](coming_from/jax.md) and [coming from PyTorch](coming_from/pytorch.md).
"""

if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(time_of_a_first_gradient(sys.argv[1]))
    else:
        main()

"""The functions of NumPy and SciPy that funcgrad, JAX, PyTorch and autograd have.

``python -m tests.tools.benchmarks.coverage > funcgrad/COVERAGE.md`` writes the page anew, where all
of them are installed. A library has a function if it has one of that name; for autograd the
function must also have a derivative or be composed of functions that have one.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

import funcgrad.numpy as fnp
import funcgrad.scipy as fsp

# Functions of integers, truth values, text, types and files, and what writes into arrays.
NO_DERIVATIVE = frozenset(
    """
    array2string array_repr array_str asarray_chkfinite asmatrix base_repr binary_repr bmat
    broadcast_shapes busday_count busday_offset byte_bounds can_cast common_type copyto
    datetime_as_string datetime_data einsum_path fill_diagonal format_float_positional
    format_float_scientific frombuffer fromfile fromiter frompyfunc fromregex fromstring
    from_dlpack genfromtxt get_include get_printoptions getbufsize geterr geterrcall info is_busday
    isdtype isfortran isscalar issubdtype iterable load loadtxt mask_indices may_share_memory
    memmap min_scalar_type mintypecode nested_iters packbits place printoptions promote_types put
    putmask require result_type save savetxt savez savez_compressed set_printoptions setbufsize
    seterr seterrcall shares_memory show_config show_runtime test typename unpackbits
    """.split()
)

# Functions that some of the supported versions lack: the page is the same whatever is installed.
OF_SOME_VERSIONS = {
    "numpy": {
        "before 2.4": "in1d trapz",
        "before 2.5": "row_stack",
        "from 2.1 on": "cumulative_prod cumulative_sum unstack",
        "from 2.2 on": "matvec vecmat",
    },
    "scipy.linalg": {"before 1.17": "kron"},
    "scipy.special": {"before 1.17": "clpmn lpmn lpn sph_harm"},
}


def of_some_versions(title: str) -> list[str]:
    """The functions of a module that some of the supported versions lack."""
    return " ".join(OF_SOME_VERSIONS.get(title, {}).values()).split()


# What the same call means in some of the supported versions, and what it means here, by all.
DIFFERENCES = (
    "`numpy.linalg.eig`, `eigvals` of a real matrix | real before 2.5, if they can be | complex",
    "`numpy.interp([], [], [])` | an error before 2.5 | an empty tensor",
    "`numpy.inner([], True)`, `dot([], True)` | of booleans from 2.5 on | of float64",
)


class Family(NamedTuple):
    """Functions of one module, and where each library has them.

    Attributes
    ----------
    title : str
    names : tuple of str
    ours : object
    peers : dict
        By library the module's name.
    """

    title: str
    names: tuple[str, ...]
    ours: Any
    peers: dict[str, str]


def functions_of(module: Any) -> Iterator[str]:
    """The names of a module's public functions that may have a derivative."""
    for name in sorted(getattr(module, "__all__", dir(module))):
        value = getattr(module, name, None)
        if name.startswith("_") or name in NO_DERIVATIVE or not callable(value):
            continue
        if not inspect.isclass(value):
            yield name


def families() -> Iterator[Family]:
    """The functions that are compared."""
    import scipy.fft
    import scipy.linalg
    import scipy.special

    modules = (
        ("numpy", np, fnp, {"JAX": "jax.numpy", "PyTorch": "torch", "autograd": "autograd.numpy"}),
        (
            "numpy.linalg",
            np.linalg,
            fnp.linalg,
            {
                "JAX": "jax.numpy.linalg",
                "PyTorch": "torch.linalg",
                "autograd": "autograd.numpy.linalg",
            },
        ),
        (
            "numpy.fft",
            np.fft,
            fnp.fft,
            {"JAX": "jax.numpy.fft", "PyTorch": "torch.fft", "autograd": "autograd.numpy.fft"},
        ),
        (
            "scipy.special",
            scipy.special,
            fsp.special,
            {
                "JAX": "jax.scipy.special",
                "PyTorch": "torch.special",
                "autograd": "autograd.scipy.special",
            },
        ),
        (
            "scipy.linalg",
            scipy.linalg,
            getattr(fsp, "linalg", None),
            {"JAX": "jax.scipy.linalg", "autograd": "autograd.scipy.linalg"},
        ),
        ("scipy.fft", scipy.fft, getattr(fsp, "fft", None), {"JAX": "jax.scipy.fft"}),
    )
    for title, module, ours, peers in modules:
        names = {*functions_of(module), *of_some_versions(title)}
        yield Family(title, tuple(sorted(names)), ours, peers)


def members(names: tuple[str, ...], module: Any, library: str = "") -> set[str]:
    """Which of some names a module has, as functions that can be differentiated."""
    found = {name for name in names if callable(getattr(module, name, None))}
    if library != "autograd":
        return found
    from autograd.core import primitive_vjps

    return {name for name in found if _has_derivative(getattr(module, name), primitive_vjps)}


def _has_derivative(function: Any, rules: Any) -> bool:
    """A primitive of autograd's needs a rule; anything else is composed of primitives."""
    return function in rules or not hasattr(function, "fun")


def page() -> str:
    """The page, as Markdown."""
    lines = [
        "# Coverage of NumPy and SciPy",
        "",
        "Written by `python -m tests.tools.benchmarks.coverage`.",
        "For each module of NumPy and SciPy, the",
        "table counts its numerical functions that a library has under the same name, in all",
        "supported versions. Functions of integers, types, text and files are not counted.",
        "",
    ]
    libraries = ("JAX", "PyTorch", "autograd")
    lines += [
        f"| module | functions | funcgrad | {' | '.join(libraries)} |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    only: dict[str, list[str]] = {}
    missing: dict[str, list[str]] = {}
    for family in families():
        own = members(family.names, family.ours)
        others: dict[str, set[str]] = {}
        for library in libraries:
            home = family.peers.get(library)
            module = None if home is None else importlib.import_module(home)
            others[library] = set() if module is None else members(family.names, module, library)
        counts = " | ".join(str(len(others[library])) for library in libraries)
        lines.append(f"| `{family.title}` | {len(family.names)} | {len(own)} | {counts} |")
        known = set().union(*others.values())
        only[family.title] = sorted(own - known)
        missing[family.title] = sorted(known - own)
    lines += ["", "## Only in funcgrad", ""]
    lines += [_listed(title, names) for title, names in only.items() if names]
    lines += ["", "## Only in other libraries", ""]
    lines += [_listed(title, names) for title, names in missing.items() if names] or ["Nothing."]
    return "\n".join(lines) + "\n" + differences()


def differences() -> str:
    """The part of the page on versions, as Markdown."""
    lines = [
        "",
        "## Where versions differ",
        "",
        "The functions of funcgrad do not depend on the installed versions. Functions that some",
        "versions lack:",
        "",
        "| functions | versions | here |",
        "|---|---|---|",
    ]
    ours = {family.title: family.ours for family in families()}
    for title, versions in OF_SOME_VERSIONS.items():
        for when, names in versions.items():
            listed = ", ".join(f"`{title}.{name}`" for name in names.split())
            there = members(tuple(names.split()), ours[title]) == {*names.split()}
            lines.append(f"| {listed} | {when} | {'yes' if there else 'no'} |")
    lines += ["", "Calls that mean something else:", "", "| call | versions | here |"]
    lines += ["|---|---|---|", *[f"| {row} |" for row in DIFFERENCES]]
    return "\n".join(lines) + "\n"


def _listed(title: str, names: list[str]) -> str:
    return f"- `{title}`: {', '.join(f'`{name}`' for name in names)}."


if __name__ == "__main__":
    print(page(), end="")

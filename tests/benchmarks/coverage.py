"""The functions of NumPy and SciPy that funcgrad, JAX, PyTorch and autograd have.

``python -m tests.benchmarks.coverage > funcgrad/COVERAGE.md`` writes the page anew, where all of
them are installed. A library has a function if it has one of that name; for autograd the function
must also have a derivative or be composed of functions that have one.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

import funcgrad.numpy as fnp
import funcgrad.scipy as fsp

__all__ = ["Family", "families", "members", "page"]

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
        yield Family(title, tuple(functions_of(module)), ours, peers)


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
        "# Coverage: what of NumPy and SciPy is there",
        "",
        "Written by `python -m tests.benchmarks.coverage`. For each module of NumPy and SciPy: how",
        "many of its functions of numbers each library has under that name. Functions of integers,",
        "types, text and files are not counted.",
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
    lines += ["", "## Only here", ""]
    lines += [_listed(title, names) for title, names in only.items() if names]
    lines += ["", "## Elsewhere, and not here", ""]
    lines += [_listed(title, names) for title, names in missing.items() if names] or ["Nothing."]
    return "\n".join(lines) + "\n"


def _listed(title: str, names: list[str]) -> str:
    return f"- `{title}`: {', '.join(f'`{name}`' for name in names)}."


if __name__ == "__main__":
    print(page(), end="")

"""autograd's modules from one table: the names of each module, and where they are defined.

``install`` makes the modules and puts them into ``sys.modules``, where import statements find them:
``import funcgrad.compat.autograd.scipy.stats.norm`` needs no file of that name. A module looks a
name up on first use, and keeps it. The stubs beside this file tell type checkers about the modules
that users import most.

Modules that mirror a module of NumPy or SciPy have its other names, too. Without tensors among the
arguments such a function calls the other library, and returns writable arrays. With tensors, also
inside lists, it calls funcgrad.

>>> import funcgrad as fg
>>> mean = mirrored("numpy", "mean")
>>> mean([1.0, 2.0])
np.float64(1.5)
>>> fg.grad(lambda x: mean([x, x * x]))(3.0)
Tensor(3.5)
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial, wraps
from pkgutil import resolve_name
from types import MappingProxyType, ModuleType
from typing import Any, Final

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._hints.lazy_names import LateNames
from funcgrad.compat.autograd.arrays import holds_tensor, plain
from funcgrad.errors import UnknownFunctionError
from funcgrad.tensor.numpy_protocols import dispatch_function

WRITTEN: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "core": {
            "differential_operators": "make_jvp=pushforward_of make_vjp=pullback_of",
            "extend": "def_linear defjvp defjvp_argnum defjvp_argnums defvjp defvjp_argnum"
            " defvjp_argnums primitive",
            "spaces": "VSpace vspace",
        },
        "misc": {"optimization": "const_graph flatten"},
        "misc.fixed_points": {"optimization": "fixed_point"},
        "misc.flatten": {"optimization": "flatten flatten_func"},
        "misc.optimizers": {"optimization": "adam rmsprop sgd unflatten_optimizer"},
        "misc.tracers": {"optimization": "const_graph"},
        "numpy": {"numpy_functions": "c_ make_diagonal r_ where"},
        "numpy.linalg": {"numpy_functions": "eigh eigvalsh"},
        "numpy.numpy_boxes": {"extend": "ArrayBox=Box"},
        "numpy.numpy_vjps": {"numpy_functions": "unbroadcast unbroadcast_f"},
        "scipy": {},
        "scipy.integrate": {"scipy_functions": "odeint"},
        "scipy.signal": {"scipy_functions": "convolve"},
        "scipy.stats.multivariate_normal": {
            "scipy_functions": "entropy=normal_entropy logpdf=normal_logpdf pdf=normal_pdf"
        },
        "tracer": {"arrays": "getval isbox", "extend": "notrace_primitive primitive"},
        "util": {"arrays": "subval subvals"},
        "wrap_util": {"differential_operators": "unary_to_nary"},
    }
)
"""By module: names by the file of this package that defines them, some under another name."""

MIRRORS: Final = (
    *("numpy", "numpy.fft", "numpy.linalg", "numpy.random"),
    *("scipy.linalg", "scipy.special", "scipy.stats"),
    *("scipy.stats.beta", "scipy.stats.chi2", "scipy.stats.dirichlet", "scipy.stats.gamma"),
    *("scipy.stats.multivariate_normal", "scipy.stats.norm", "scipy.stats.poisson"),
    "scipy.stats.t",
)
"""Modules that also have all names of a module, or distribution, of NumPy or SciPy."""


def install(package: str) -> None:
    """Make the modules of the table, as modules of a package.

    Parameters
    ----------
    package : str
        The name of the package, which is being imported.
    """
    tables: dict[str, LateNames] = {}
    for path in sorted({*WRITTEN, *MIRRORS}):
        name = f"{package}.{path}"
        names = tables[name] = LateNames(name, WRITTEN.get(path, {}), home=package)
        module = sys.modules[name] = ModuleType(name, f"autograd's ``{path}``: see ``{package}``.")
        look_up, listed = (partial(f, module, names, path) for f in (_look_up, _listed))
        vars(module).update(__getattr__=look_up, __dir__=listed)
        parent, _, last = name.rpartition(".")
        if last not in tables.get(parent, ()):  # misc.flatten is the function
            setattr(sys.modules[parent], last, module)


def _look_up(module: ModuleType, names: LateNames, path: str, name: str) -> Any:
    """Find a name and keep it: a module's ``__getattr__``."""
    if name in names or path not in MIRRORS:
        return names.load(name)
    value = mirrored(path, name)
    setattr(module, name, value)
    return value


def _listed(module: ModuleType, names: LateNames, path: str) -> list[str]:
    """List the names: a module's ``__dir__``."""
    theirs = resolve_name(path) if path in MIRRORS else None
    public = getattr(theirs, "__all__", dir(theirs) if theirs else ())
    return sorted({*names, *vars(module), *(name for name in public if name[0] != "_")})


def mirrored(path: str, name: str) -> Any:
    """Look up a name of a module or distribution of NumPy or SciPy.

    NumPy's ufuncs, types and constants are returned unchanged: ufuncs dispatch to tensors.

    Raises
    ------
    AttributeError
        The library has no such public name.
    """
    if name[0] == "_" and name != "__version__":  # as imports and inspection ask a module
        raise AttributeError(f"module {path!r} has no attribute {name!r}", name=name)
    value = getattr(resolve_name(path), name)
    if path == "scipy.stats":
        is_distribution = hasattr(value, "logpdf") or hasattr(value, "logpmf")
        return Distribution(f"{path}.{name}") if is_distribution else value
    if not callable(value) or isinstance(value, type):
        return value
    if path.startswith("scipy"):
        return _paired(value, path, name)
    if isinstance(value, np.ufunc) or not hasattr(value, "__name__"):
        return value
    return _with_tensors(value, lambda *args, **kwargs: dispatch_function(value, args, kwargs))


@dataclass(frozen=True, slots=True)
class Distribution:
    """A distribution of ``scipy.stats``, with its methods.

    >>> Distribution("scipy.stats.norm").cdf(0.0)
    np.float64(0.5)
    """

    _path: str

    def __getattr__(self, method: str) -> Any:
        return mirrored(self._path, method)

    def __call__(self, *args: object, **kwargs: object) -> Any:
        path, _, name = self._path.rpartition(".")
        return _paired(resolve_name(self._path), path, name)(*args, **kwargs)


def _paired(theirs: Callable[..., Any], path: str, name: str) -> Any:
    """A SciPy function that calls funcgrad's of the same name if an argument is a tensor."""
    try:
        ours = getattr(resolve_name(f"funcgrad.{path}"), name)
    except AttributeError:
        ours = partial(_refused, f"{path}.{name}")
    return _with_tensors(theirs, ours)


def _refused(name: str, *args: object, **kwargs: object) -> Any:
    raise UnknownFunctionError(
        f"funcgrad has no derivative of {name}. Compose it from functions that have one, or"
        " give it a rule: f = primitive(function), then defvjp(f, rule); both are in"
        " funcgrad.compat.autograd.extend."
    )


def _with_tensors(theirs: Callable[..., Any], ours: Callable[..., Any]) -> Any:
    @wraps(theirs)
    def called(*args: object, **kwargs: object) -> Any:
        if holds_tensor([*args, *kwargs.values()]):
            return plain(ours(*args, **kwargs))
        return theirs(*args, **kwargs)

    return called

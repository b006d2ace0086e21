"""nutpie's sampler for log densities of pytrees.

>>> import pytest
>>> nutpie = pytest.importorskip("nutpie")
>>> import funcgrad.numpy as fnp
>>> model = compiled(lambda p: -0.5 * fnp.sum((p["w"] - 1.0) ** 2), {"w": np.zeros(3)})
>>> model.n_dim
3
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from funcgrad._core import pytrees
from funcgrad._hints.lookup import answering
from funcgrad._hints.optional_packages import optional_package
from funcgrad._staging.jit import jit
from funcgrad._transforms.arguments import check_function
from funcgrad.errors import ArgumentError
from funcgrad.interop.flat_function import Flat, Vector, flat
from funcgrad.tree.path_texts import path_text

__all__ = ["compiled"]


@answering
def compiled(
    log_density: Callable[..., Any],
    like: Any,
    *,
    data: Mapping[str, Any] | None = None,
    expand: Callable[..., Mapping[str, Any]] | None = None,
    dims: Mapping[str, Sequence[str]] | None = None,
    coords: Mapping[str, Any] | None = None,
) -> Any:
    """Make nutpie's model of a log density: ``nutpie.sample(model)`` draws from it.

    The log density and its gradient are one jitted function of a vector, which nutpie calls from
    its threads.

    Parameters
    ----------
    log_density : callable
        ``log_density(params, **data)`` returns the logarithm of the density, up to a constant, for
        all real values of the parameters: transform bounded ones, and add the logarithm of the
        Jacobian.
    like : pytree of real floating arrays
        An example of ``params``.
    data : dict of str to arrays, optional
        Arrays that ``model.with_data(name=...)`` replaces, without another compilation if shapes
        and dtypes stay.
    expand : callable, optional
        ``expand(params, **data)`` returns a dict of arrays for each draw, by default the leaves of
        ``params`` by their paths.
    dims, coords : dict, optional
        The names of axes of the variables, and labels along them, as for ArviZ.

    Returns
    -------
    nutpie.compiled_pyfunc.PyFuncModel

    Raises
    ------
    MissingPackageError
        nutpie is not installed.
    FunctionError, DtypeError, ShapeError, ArgumentError
        ``log_density`` is not a function, does not return a number, a leaf of ``like`` is not real,
        or ``expand`` does not return a dict with strings as keys.

    See Also
    --------
    funcgrad.interop.flat : The function of a vector, for other samplers.

    Examples
    --------
    >>> import pytest
    >>> nutpie = pytest.importorskip("nutpie")
    >>> import funcgrad.numpy as fnp
    >>> def log_density(p, y):  # the mean and the logarithm of the scale of normal data
    ...     scaled = (y - p["mean"]) * fnp.exp(-p["scale"])
    ...     return -0.5 * fnp.sum(scaled**2) - y.size * p["scale"] - 0.5 * p["scale"] ** 2
    >>> y = 2.0 + 0.1 * np.cos(np.arange(50.0))
    >>> model = compiled(log_density, {"mean": 0.0, "scale": 0.0}, data={"y": y})
    >>> trace = nutpie.sample(model, draws=300, tune=300, chains=2, seed=1, progress_bar=False)
    >>> bool(abs(trace.posterior["mean"].mean() - 2.0) < 0.02)
    True
    """
    pyfunc = optional_package(
        "nutpie.compiled_pyfunc", "interop.nutpie.compiled: nutpie is not installed"
    )
    check_function("interop.nutpie.compiled", log_density)
    named = {} if data is None else {name: np.asarray(value) for name, value in data.items()}
    problem = flat(lambda params, data: log_density(params, **data), like)
    expanded = _draw(problem, like, expand)
    example = expanded(np.zeros(problem.size), named)

    def make_density() -> Callable[..., tuple[float, Vector]]:
        return lambda x, **data: problem.value_and_grad(x, data)

    def make_draw(seed1: object, seed2: object, chain: object) -> Callable[..., dict[str, Any]]:
        return lambda x, **data: expanded(x, data)

    return pyfunc.from_pyfunc(
        problem.size,
        make_density,
        make_draw,
        [value.dtype for value in example.values()],
        [value.shape for value in example.values()],
        list(example),
        coords=None if coords is None else dict(coords),
        dims=None if dims is None else {name: tuple(axes) for name, axes in dims.items()},
        shared_data=named,
    )


def _draw(
    problem: Flat, like: Any, expand: Callable[..., Mapping[str, Any]] | None
) -> Callable[[Vector, dict[str, Any]], dict[str, np.ndarray[Any, Any]]]:
    """The variables of a draw, as NumPy arrays by name."""
    names = [path_text(path) or "x" for path in pytrees.structure(like).key_paths()]
    by_user = None if expand is None else jit(expand)

    def draw(x: Vector, data: dict[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
        params = problem.unravel(x)
        variables = by_user(params, **data) if by_user else None
        if variables is None:
            variables = dict(zip(names, pytrees.leaves(params), strict=True))
        if not isinstance(variables, dict) or not all(isinstance(name, str) for name in variables):
            raise ArgumentError(
                "interop.nutpie.compiled: expand has to return a dict of arrays by name, got"
                f" {type(variables).__name__}."
            )
        return {name: np.array(value) for name, value in variables.items()}

    return draw


__dir__ = __all__.copy  # completion shows the public names, without the modules

"""A call that works for every function of ``optimize``, ``integrate`` and ``interpolate``.

>>> sample = optimizations()["fg.optimize.root_scalar"]
>>> sample.function(*sample.args, **sample.kwargs).x
Tensor(1.)
"""

from __future__ import annotations

from typing import Any

import numpy as np

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import integrate, interpolate, optimize
from tests.differential.working_sample import Sample

X = fg.tensor([0.5, 2.0])


def _shifted(x: Any) -> Any:
    return x - 1.0


def _bowl(x: Any) -> Any:
    return fnp.sum((x - 1.0) ** 2)


def _line(x: Any, slope: Any) -> Any:
    return slope * x


def _decay(t: Any, y: Any, *args: Any) -> Any:
    return -y


def _flat(t: Any, y: Any, *args: Any) -> Any:
    return 0.5 * y


def optimizations() -> dict[str, Sample]:
    """Fits, roots and minima."""
    made = {
        "curve_fit": Sample(optimize.curve_fit, (_line, np.ones(2), np.ones(2), [0.5])),
        "fixed_point": Sample(optimize.fixed_point, (fnp.cos, X)),
        "least_squares": Sample(optimize.least_squares, (_shifted, X)),
        "minimize": Sample(optimize.minimize, (_bowl, X)),
        "minimize_scalar": Sample(optimize.minimize_scalar, (_bowl, (0.0, 3.0))),
        "root": Sample(optimize.root, (_shifted, X)),
        "root_scalar": Sample(optimize.root_scalar, (_shifted,), {"bracket": (0.0, 3.0)}),
    }
    return {f"fg.optimize.{name}": sample for name, sample in made.items()}


def integrals() -> dict[str, Sample]:
    """Integrals of functions and of samples."""
    made = {
        "cumulative_simpson": Sample(integrate.cumulative_simpson, (np.ones(3),)),
        "cumulative_trapezoid": Sample(integrate.cumulative_trapezoid, (np.ones(3),)),
        "dblquad": Sample(integrate.dblquad, (_line, 0.0, 1.0, 0.0, 2.0)),
        "fixed_quad": Sample(integrate.fixed_quad, (fnp.exp, 0.0, 1.0)),
        "nquad": Sample(integrate.nquad, (_line, [(0.0, 1.0), (0.0, 2.0)])),
        "odeint": Sample(integrate.odeint, (_line, 1.0, X)),
        "quad": Sample(integrate.quad, (fnp.exp, 0.0, 1.0)),
        "romb": Sample(integrate.romb, (np.ones(3),)),
        "Event": Sample(integrate.Event, (_line,)),
        "simpson": Sample(integrate.simpson, (np.ones(3),)),
        "solve_ivp": Sample(integrate.solve_ivp, (_decay, (0.0, 1.0), X), {"t_eval": [1.0]}),
        "solve_sde": Sample(
            integrate.solve_sde,
            (_flat, _flat, (0.0, 1.0), X, np.array([1, 2], np.uint64)),
            {"steps": 2},
        ),
        "tanhsinh": Sample(integrate.tanhsinh, (fnp.exp, 0.0, 1.0)),
        "trapezoid": Sample(integrate.trapezoid, (np.ones(3),)),
    }
    return {f"fg.integrate.{name}": sample for name, sample in made.items()}


def _evaluated(curve: Any) -> Any:
    return curve([0.5, 2.0])


def _evaluated_in_rows(curve: Any) -> Any:
    return curve([[0.5], [2.0]])


def interpolations() -> dict[str, Sample]:
    """Curves through samples, and values on grids."""
    points, heights = np.arange(5.0), np.array([0.0, 1.0, 0.5, 2.0, 1.0])
    curves = """Akima1DInterpolator CubicSpline PchipInterpolator interp1d
    make_interp_spline""".split()
    made = {
        name: Sample(getattr(interpolate, name), (points, heights), {}, _evaluated)
        for name in curves
    }
    rows, grid = points[:, None], (points,)
    made |= {
        "BSpline": Sample(interpolate.BSpline, (points, heights[:3], 1), {}, _evaluated),
        "CubicHermiteSpline": Sample(
            interpolate.CubicHermiteSpline, (points, heights, heights), {}, _evaluated
        ),
        "PPoly": Sample(interpolate.PPoly, (np.ones((2, 4)), points), {}, _evaluated),
        "RBFInterpolator": Sample(
            interpolate.RBFInterpolator, (rows, heights), {}, _evaluated_in_rows
        ),
        "RegularGridInterpolator": Sample(
            interpolate.RegularGridInterpolator, (grid, heights), {}, _evaluated_in_rows
        ),
        "interpn": Sample(interpolate.interpn, (grid, heights, [[0.5], [2.0]])),
    }
    return {f"fg.interpolate.{name}": sample for name, sample in made.items()}

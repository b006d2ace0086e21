"""Interpolation under SciPy's names: splines, grids, scattered data.

>>> import funcgrad as fg
>>> x, y = fg.tensor([0.0, 1.0, 2.0, 3.0]), fg.tensor([0.0, 1.0, 8.0, 27.0])
>>> fg.vmap(fg.grad(CubicSpline(x, y)))(fg.tensor([0.5, 2.0]))
Tensor([ 0.75, 12.  ])

An interpolator is a frozen pytree; its values have derivatives with respect to the points of
evaluation, the data and the points of the data. The README explains how.
"""

from typing import TYPE_CHECKING

from funcgrad._hints.lazy_names import LateNames as _LateNames

if TYPE_CHECKING:
    from funcgrad.interpolate.b_splines import BSpline
    from funcgrad.interpolate.cubic_splines import CubicHermiteSpline, CubicSpline
    from funcgrad.interpolate.interpolating_splines import make_interp_spline
    from funcgrad.interpolate.interpolation_by_kind import interp1d
    from funcgrad.interpolate.local_cubics import Akima1DInterpolator, PchipInterpolator
    from funcgrad.interpolate.piecewise_polynomials import PPoly
    from funcgrad.interpolate.radial_functions import RBFInterpolator
    from funcgrad.interpolate.regular_grids import RegularGridInterpolator, interpn

__all__ = [
    "Akima1DInterpolator",
    "BSpline",
    "CubicHermiteSpline",
    "CubicSpline",
    "PPoly",
    "PchipInterpolator",
    "RBFInterpolator",
    "RegularGridInterpolator",
    "interp1d",
    "interpn",
    "make_interp_spline",
]

_LATE = _LateNames(
    __name__,
    {
        "b_splines": "BSpline",
        "cubic_splines": "CubicHermiteSpline CubicSpline",
        "interpolating_splines": "make_interp_spline",
        "interpolation_by_kind": "interp1d",
        "local_cubics": "Akima1DInterpolator PchipInterpolator",
        "piecewise_polynomials": "PPoly",
        "radial_functions": "RBFInterpolator",
        "regular_grids": "RegularGridInterpolator interpn",
    },
)

if not TYPE_CHECKING:  # which see the names above, and report others
    __getattr__ = _LATE.load
__dir__ = __all__.copy  # completion shows the public names, without the modules

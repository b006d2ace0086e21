"""Filters and transformations of images under SciPy's names.

>>> import funcgrad as fg
>>> image = fg.tensor([[0.0, 1.0], [2.0, 3.0]])
>>> fg.grad(lambda at: map_coordinates(image, at, order=1))(fg.tensor([0.5, 0.5]))
Tensor([2., 1.])

Everything is differentiable in the image, and in coordinates, distances, angles and weights.
"""

from typing import TYPE_CHECKING

from funcgrad._hints.lazy_names import LateNames as _LateNames

if TYPE_CHECKING:
    from funcgrad.scipy.ndimage.array_filters import convolve, convolve1d, correlate, correlate1d
    from funcgrad.scipy.ndimage.image_filters import (
        gaussian_filter,
        gaussian_filter1d,
        gaussian_gradient_magnitude,
        gaussian_laplace,
        laplace,
        prewitt,
        sobel,
        uniform_filter,
        uniform_filter1d,
    )
    from funcgrad.scipy.ndimage.image_transforms import affine_transform, rotate, shift, zoom
    from funcgrad.scipy.ndimage.resampling import map_coordinates
    from funcgrad.scipy.ndimage.spline_filters import spline_filter, spline_filter1d

__all__ = [
    "affine_transform",
    "convolve",
    "convolve1d",
    "correlate",
    "correlate1d",
    "gaussian_filter",
    "gaussian_filter1d",
    "gaussian_gradient_magnitude",
    "gaussian_laplace",
    "laplace",
    "map_coordinates",
    "prewitt",
    "rotate",
    "shift",
    "sobel",
    "spline_filter",
    "spline_filter1d",
    "uniform_filter",
    "uniform_filter1d",
    "zoom",
]

_LATE = _LateNames(
    __name__,
    {
        "array_filters": "convolve convolve1d correlate correlate1d",
        "image_transforms": "affine_transform rotate shift zoom",
        "resampling": "map_coordinates",
        "image_filters": "gaussian_filter gaussian_filter1d gaussian_gradient_magnitude"
        " gaussian_laplace laplace prewitt sobel uniform_filter uniform_filter1d",
        "spline_filters": "spline_filter spline_filter1d",
    },
)

if not TYPE_CHECKING:  # which see the names above, and report others
    __getattr__ = _LATE.load
__dir__ = __all__.copy  # completion shows the public names, without the modules

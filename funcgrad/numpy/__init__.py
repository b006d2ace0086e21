"""The array functions, with the names and signatures of NumPy and of the array API.

Every function takes tensors, NumPy arrays, scalars and nested lists, and returns tensors; it works
under every transformation. Results have NumPy's dtypes: float64 by default, promotion by NEP 50.

>>> import funcgrad.numpy as fnp
>>> fnp.sum(fnp.sqrt([1.0, 4.0, 9.0]))
Tensor(6.0)
"""

# Packed lines: one name a line would make this file too long to read.
# fmt: off
# isort: off
from sys import modules as _modules
from types import ModuleType as _ModuleType
from typing import TYPE_CHECKING
from typing import Any as _Any

from funcgrad.errors import MissingAttributeError as _MissingAttributeError
from funcgrad._hints.lazy_names import LateNames as _LateNames
from funcgrad.numpy.excluded import reason_for as _reason_for
from funcgrad.numpy.namespace_info import (
    ARRAY_API_VERSION as _ARRAY_API_VERSION, array_namespace_info as _array_namespace_info,
    check_version as _check_version,
)

if TYPE_CHECKING:
    from funcgrad.numpy import fft, lib, linalg, polynomial
    from funcgrad.numpy.arithmetic import (
        abs, absolute, add, divide, divmod, fabs, float_power, floor_divide, fmod, gcd, lcm, mod,
        multiply, negative, positive, pow, power, reciprocal, remainder, sign, square, subtract,
        true_divide,
    )
    from funcgrad.numpy.blocks import dynamic_slice, dynamic_update_slice
    from funcgrad.numpy.bracket_joins import c_, r_
    from funcgrad.numpy.complexes import (
        angle, conj, conjugate, imag, iscomplex, iscomplexobj, isreal, isrealobj, real,
        real_if_close,
    )
    from funcgrad.numpy.contraction import (
        cross, dot, inner, kron, matmul, matvec, outer, tensordot, vdot, vecdot, vecmat,
    )
    from funcgrad.numpy.creation import (
        array, asanyarray, asarray, asarray_chkfinite, ascontiguousarray, asfortranarray, astype,
        copy, empty, empty_like, eye, full, full_like, identity, ones, ones_like, tri, zeros,
        zeros_like,
    )
    from funcgrad.numpy.diagonals import (
        diag, diag_indices, diag_indices_from, diagflat, diagonal, mask_indices, trace, tril,
        tril_indices, tril_indices_from, triu, triu_indices, triu_indices_from, vander,
    )
    from funcgrad.numpy.dtypes import (
        bool, bool_, byte, can_cast, cdouble, common_type, complex128, complex64, complexfloating,
        csingle, double, dtype, e, euler_gamma, finfo, float16, float32, float64, floating, generic,
        half, iinfo, inexact, inf, int16, int32, int64, int8, int_, intc, integer, intp, isdtype,
        issubdtype, long, longlong, min_scalar_type, nan, newaxis, number, pi, promote_types,
        result_type, short, signedinteger, single, ubyte, uint, uint16, uint32, uint64, uint8,
        uintc, uintp, ulong, ulonglong, unsignedinteger, ushort,
    )
    from funcgrad.numpy.exponential import (
        cbrt, exp, exp2, expm1, log, log10, log1p, log2, logaddexp, logaddexp2, sqrt,
    )
    from funcgrad.numpy.functional import apply_along_axis, apply_over_axes, vectorize
    from funcgrad.numpy.histograms import (
        bincount, histogram, histogram2d, histogram_bin_edges, histogramdd,
    )
    from funcgrad.numpy.indexing import (
        argwhere, choose, compress, extract, flatnonzero, ix_, nonzero, put_along_axis,
        ravel_multi_index, take, take_along_axis, unravel_index,
    )
    from funcgrad.numpy.interchange import from_dlpack
    from funcgrad.numpy.joining import (
        append, array_split, block, column_stack, concat, concatenate, dsplit, dstack, hsplit,
        hstack, row_stack, split, stack, unstack, vsplit, vstack,
    )
    from funcgrad.numpy.lib import scimath as emath
    from funcgrad.numpy.logic import (
        allclose, array_equal, array_equiv, bitwise_and, bitwise_count, bitwise_invert,
        bitwise_left_shift, bitwise_not, bitwise_or, bitwise_right_shift, bitwise_xor, equal,
        greater, greater_equal, invert, isclose, isfinite, isinf, isnan, isneginf, isposinf,
        left_shift, less, less_equal, logical_and, logical_not, logical_or, logical_xor, not_equal,
        right_shift,
    )
    from funcgrad.numpy.manipulation import (
        atleast_1d, atleast_2d, atleast_3d, broadcast_arrays, broadcast_to, expand_dims, flip,
        fliplr, flipud, matrix_transpose, moveaxis, permute_dims, ravel, reshape, roll, rollaxis,
        rot90, squeeze, swapaxes, transpose,
    )
    from funcgrad.numpy.moments import average, corrcoef, cov, mean, std, var
    from funcgrad.numpy.nanfunctions import (
        nanargmax, nanargmin, nanmax, nanmean, nanmin, nanprod, nanstd, nansum, nanvar,
    )
    from funcgrad.numpy.polynomial_fits import polyfit, roots
    from funcgrad.numpy.polynomials import (
        poly, polyadd, polyder, polydiv, polyint, polymul, polysub, polyval,
    )
    from funcgrad.numpy.quantiles import (
        median, nanmedian, nanpercentile, nanquantile, percentile, quantile,
    )
    from funcgrad.numpy.ranges import (
        arange, fromfunction, geomspace, indices, linspace, logspace, meshgrid,
    )
    from funcgrad.numpy.reductions import (
        all, amax, amin, any, argmax, argmin, count_nonzero, logsumexp, max, min, prod, ptp, sum,
    )
    from funcgrad.numpy.repeating import delete, insert, pad, repeat, resize, tile, trim_zeros
    from funcgrad.numpy.rounding import (
        around, ceil, copysign, fix, floor, frexp, heaviside, ldexp, modf, nextafter, rint, round,
        signbit, spacing, trunc,
    )
    from funcgrad.numpy.running import (
        cumprod, cumsum, cumulative_prod, cumulative_sum, diff, ediff1d, nancumprod, nancumsum,
        trapezoid, trapz,
    )
    from funcgrad.numpy.samples import gradient, interp, unwrap
    from funcgrad.numpy.selection import (
        clip, fmax, fmin, maximum, minimum, nan_to_num, piecewise, select, where,
    )
    from funcgrad.numpy.sequences import convolve, correlate
    from funcgrad.numpy.sets import in1d, intersect1d, isin, setdiff1d, setxor1d, union1d
    from funcgrad.numpy.shapes import broadcast_shapes, isscalar, iterable, ndim, shape, size
    from funcgrad.numpy.sorting import (
        UniqueAllResult, UniqueCountsResult, UniqueInverseResult, argpartition, argsort, digitize,
        lexsort, partition, searchsorted, sort, sort_complex, unique, unique_all, unique_counts,
        unique_inverse, unique_values,
    )
    from funcgrad.numpy.subscripts import einsum, einsum_path
    from funcgrad.numpy.window_functions import bartlett, blackman, hamming, hanning, i0, kaiser
    from funcgrad.numpy.trigonometry import (
        acos, acosh, arccos, arccosh, arcsin, arcsinh, arctan, arctan2, arctanh, asin, asinh, atan,
        atan2, atanh, cos, cosh, deg2rad, degrees, hypot, rad2deg, radians, sin, sinc, sinh, tan,
        tanh,
    )
    from funcgrad.numpy.updates import at

__all__ = [  # noqa: RUF022  # module by module, as _LATE reads it
    "fft", "lib", "linalg", "polynomial",
    "abs", "absolute", "add", "divide", "divmod", "fabs", "float_power", "floor_divide", "fmod",
    "gcd", "lcm", "mod", "multiply", "negative", "positive", "pow", "power", "reciprocal",
    "remainder", "sign", "square", "subtract", "true_divide",
    "dynamic_slice", "dynamic_update_slice",
    "c_", "r_",
    "angle", "conj", "conjugate", "imag", "iscomplex", "iscomplexobj", "isreal", "isrealobj",
    "real", "real_if_close",
    "cross", "dot", "inner", "kron", "matmul", "matvec", "outer", "tensordot", "vdot", "vecdot",
    "vecmat",
    "array", "asanyarray", "asarray", "asarray_chkfinite", "ascontiguousarray", "asfortranarray",
    "astype", "copy", "empty", "empty_like", "eye", "full", "full_like", "identity", "ones",
    "ones_like", "tri", "zeros", "zeros_like",
    "diag", "diag_indices", "diag_indices_from", "diagflat", "diagonal", "mask_indices", "trace",
    "tril", "tril_indices", "tril_indices_from", "triu", "triu_indices", "triu_indices_from",
    "vander",
    "bool", "bool_", "byte", "can_cast", "cdouble", "common_type", "complex128", "complex64",
    "complexfloating", "csingle", "double", "dtype", "e", "euler_gamma", "finfo", "float16",
    "float32", "float64", "floating", "generic", "half", "iinfo", "inexact", "inf", "int16",
    "int32", "int64", "int8", "int_", "intc", "integer", "intp", "isdtype", "issubdtype", "long",
    "longlong", "min_scalar_type", "nan", "newaxis", "number", "pi", "promote_types", "result_type",
    "short", "signedinteger", "single", "ubyte", "uint", "uint16", "uint32", "uint64", "uint8",
    "uintc", "uintp", "ulong", "ulonglong", "unsignedinteger", "ushort",
    "cbrt", "exp", "exp2", "expm1", "log", "log10", "log1p", "log2", "logaddexp", "logaddexp2",
    "sqrt",
    "apply_along_axis", "apply_over_axes", "vectorize",
    "bincount", "histogram", "histogram2d", "histogram_bin_edges", "histogramdd",
    "argwhere", "choose", "compress", "extract", "flatnonzero", "ix_", "nonzero", "put_along_axis",
    "ravel_multi_index", "take", "take_along_axis", "unravel_index",
    "from_dlpack",
    "append", "array_split", "block", "column_stack", "concat", "concatenate", "dsplit", "dstack",
    "hsplit", "hstack", "row_stack", "split", "stack", "unstack", "vsplit", "vstack",
    "emath",
    "allclose", "array_equal", "array_equiv", "bitwise_and", "bitwise_count", "bitwise_invert",
    "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor",
    "equal", "greater", "greater_equal", "invert", "isclose", "isfinite", "isinf", "isnan",
    "isneginf", "isposinf", "left_shift", "less", "less_equal", "logical_and", "logical_not",
    "logical_or", "logical_xor", "not_equal", "right_shift",
    "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays", "broadcast_to", "expand_dims",
    "flip", "fliplr", "flipud", "matrix_transpose", "moveaxis", "permute_dims", "ravel", "reshape",
    "roll", "rollaxis", "rot90", "squeeze", "swapaxes", "transpose",
    "average", "corrcoef", "cov", "mean", "std", "var",
    "nanargmax", "nanargmin", "nanmax", "nanmean", "nanmin", "nanprod", "nanstd", "nansum",
    "nanvar",
    "polyfit", "roots",
    "poly", "polyadd", "polyder", "polydiv", "polyint", "polymul", "polysub", "polyval",
    "median", "nanmedian", "nanpercentile", "nanquantile", "percentile", "quantile",
    "arange", "fromfunction", "geomspace", "indices", "linspace", "logspace", "meshgrid",
    "all", "amax", "amin", "any", "argmax", "argmin", "count_nonzero", "logsumexp", "max", "min",
    "prod", "ptp", "sum",
    "delete", "insert", "pad", "repeat", "resize", "tile", "trim_zeros",
    "around", "ceil", "copysign", "fix", "floor", "frexp", "heaviside", "ldexp", "modf",
    "nextafter", "rint", "round", "signbit", "spacing", "trunc",
    "cumprod", "cumsum", "cumulative_prod", "cumulative_sum", "diff", "ediff1d", "nancumprod",
    "nancumsum", "trapezoid", "trapz",
    "gradient", "interp", "unwrap",
    "clip", "fmax", "fmin", "maximum", "minimum", "nan_to_num", "piecewise", "select", "where",
    "convolve", "correlate",
    "in1d", "intersect1d", "isin", "setdiff1d", "setxor1d", "union1d",
    "broadcast_shapes", "isscalar", "iterable", "ndim", "shape", "size",
    "UniqueAllResult", "UniqueCountsResult", "UniqueInverseResult", "argpartition", "argsort",
    "digitize", "lexsort", "partition", "searchsorted", "sort", "sort_complex", "unique",
    "unique_all", "unique_counts", "unique_inverse", "unique_values",
    "einsum", "einsum_path",
    "bartlett", "blackman", "hamming", "hanning", "i0", "kaiser",
    "acos", "acosh", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh",
    "asin", "asinh", "atan", "atan2", "atanh", "cos", "cosh", "deg2rad", "degrees", "hypot",
    "rad2deg", "radians", "sin", "sinc", "sinh", "tan", "tanh",
    "at",
]

_LATE = _LateNames(__name__, {  # the first name of each module in the list
    "": "fft", "arithmetic": "abs", "blocks": "dynamic_slice", "bracket_joins": "c_",
    "complexes": "angle", "contraction": "cross", "creation":
    "array", "diagonals": "diag", "dtypes": "bool", "exponential": "cbrt", "functional":
    "apply_along_axis", "histograms": "bincount", "indexing": "argwhere", "interchange":
    "from_dlpack", "joining": "append", "lib": "emath=scimath", "logic": "allclose", "manipulation":
    "atleast_1d", "moments": "average", "nanfunctions": "nanargmax", "polynomial_fits": "polyfit",
    "polynomials": "poly", "quantiles": "median", "ranges": "arange", "reductions": "all",
    "repeating": "delete", "rounding": "around", "running": "cumprod", "samples": "gradient",
    "selection": "clip", "sequences": "convolve", "sets": "in1d", "shapes": "broadcast_shapes",
    "sorting": "UniqueAllResult", "subscripts": "einsum", "window_functions": "bartlett",
    "trigonometry": "acos", "updates": "at",
}, __all__)

__array_api_version__ = _ARRAY_API_VERSION
__array_namespace_info__ = _array_namespace_info


def _in_version(version: str) -> _ModuleType:
    """Return this namespace if it conforms to a version of the array API."""
    _check_version(version)
    return _modules[__name__]


if not TYPE_CHECKING:  # type checkers see the imports above

    def __getattr__(name: str) -> _Any:
        """Load a name on first use, or say why a name of NumPy is missing here."""
        if name not in _LATE and (reason := _reason_for(name)):
            raise _MissingAttributeError(f"funcgrad.numpy has no {name}: {reason}.")
        return _LATE.load(name)


__dir__ = __all__.copy  # completion shows the public names, without the modules

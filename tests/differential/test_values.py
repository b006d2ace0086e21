"""Every function of ``funcgrad.numpy`` computes what NumPy's function of the same name does.

Functions are found by discovery, and one for which no arguments can be drawn fails. For each, many
calls are drawn: values, dtype and shape have to be NumPy's, or both have to raise, so that who
catches NumPy's error catches ours. Where ours is meant to differ, the table below says why.
"""

from __future__ import annotations

import inspect
import zlib
from operator import attrgetter
from typing import Any

import numpy as np
import pytest

import funcgrad.numpy as fnp
from tests.differential.calls import GENERATORS, generator_of
from tests.differential.compare import as_arrays, as_tensors, called, described, difference
from tests.differential.draw import Draw
from tests.together import together
from tests.tools.benchmarks.coverage import of_some_versions

CALLS = 64

WITHOUT_PEER = {
    "at": "NumPy writes in place instead",
    **dict.fromkeys(("dynamic_slice", "dynamic_update_slice"), "JAX's; NumPy has none"),
    "logsumexp": "SciPy's; NumPy has none",
    "put_along_axis": "NumPy writes into its argument and returns None",
    **{name: "this NumPy has none" for name in of_some_versions("numpy") if not hasattr(np, name)},
}

# The first NumPy whose function does what its own page says, for all that is drawn here.
SINCE = {
    **dict.fromkeys("astype clip full setxor1d".split(), "2.1.0"),
    **dict.fromkeys("__bool__ cov insert trim_zeros".split(), "2.2.0"),
    **dict.fromkeys("__pow__ linalg.cond linalg.matrix_norm sinc unique".split(), "2.3.0"),
    **dict.fromkeys("linalg.matrix_rank promote_types".split(), "2.4.0"),
}


def skip_if_numpy_is_too_old(name: str) -> None:
    if name in SINCE and np.lib.NumpyVersion(np.__version__) < SINCE[name]:
        pytest.skip(f"{name} of NumPy before {SINCE[name]} errs here, or takes other arguments")


# The order of sums, and of equal numbers among which one is chosen, is nobody's promise: which of
# -0.0 and 0.0 an unstable sort leaves first depends on the processor.
LOOSE_ZEROS = frozenset(
    """
    amax amin clip corrcoef cov cross dot einsum gradient inner interp intersect1d kron
    linalg.cross linalg.matmul linalg.outer linalg.tensordot linalg.vecdot matmul matvec max mean
    median min nanmax nanmedian nanmin nanpercentile nanquantile outer percentile ptp quantile
    roots setdiff1d setxor1d tensordot trapezoid union1d unique unique_values vander vdot vecdot
    vecmat
    """.split()
)
# Ours are as fine as the result, NumPy's as coarse as the arguments.
COARSE = frozenset(
    ["nanpercentile", "nanquantile", "geomspace", "linspace", "logspace", "percentile", "quantile"]
)


def _in_one_dtype(ar1: Any, ar2: Any, *args: Any, **kwargs: Any) -> Any:
    """``intersect1d``, of which NumPy's finds elements of one array that are equal in float64."""
    both = [np.asarray(x) for x in (ar1, ar2)]
    dtype = np.result_type(*both)
    one, other = [x.astype(dtype) for x in both]
    return np.intersect1d(one, other, *args, **kwargs)


def _complex(decomposition: Any) -> Any:
    """A decomposition that is complex always, as NumPy's are from 2.5 on."""

    def decompose(a: Any) -> Any:
        found = decomposition(a)
        parts = found if isinstance(found, tuple) else (found,)
        parts = tuple([x.astype(np.result_type(x, np.complex64)) for x in parts])
        return type(found)(*parts) if isinstance(found, tuple) else parts[0]

    return decompose


def _interp(x: Any, xp: Any, fp: Any, *args: Any, **kwargs: Any) -> Any:
    """``interp``, which is an error of no points and no samples before NumPy 2.5."""
    if np.size(x) == np.size(xp) == np.size(fp) == 0:
        return np.zeros(np.shape(x), np.result_type(fp, np.float64))
    return np.interp(x, xp, fp, *args, **kwargs)


# What NumPy means, where its own function of the name leaves something open, or versions differ.
PEERS: dict[str, Any] = {
    "empty": np.zeros,  # whatever was in memory
    "empty_like": np.zeros_like,
    "intersect1d": _in_one_dtype,
    "linalg.eig": _complex(np.linalg.eig),
    "linalg.eigvals": _complex(np.linalg.eigvals),
    "interp": _interp,
    "imag": lambda val: np.imag(np.asarray(val)),  # an int of Python's bool
    "real": lambda val: np.real(np.asarray(val)),
    "unique_values": np.unique,  # in any order
}


def functions() -> list[str]:
    """The names of the public functions; those of ``fnp.fft`` with that before them, and so on."""
    names = sorted(fnp.__all__)
    for module in ("fft", "lib.scimath", "lib.stride_tricks", "linalg"):
        names += [f"{module}.{name}" for name in attrgetter(module)(fnp).__all__]
    found = {name: attrgetter(name)(fnp) for name in names}
    return [name for name in names if callable(found[name]) and not inspect.isclass(found[name])]


def pair_of(name: str) -> tuple[Any, Any]:
    """Our function of a name, and NumPy's."""
    return attrgetter(name)(fnp), PEERS.get(name) or attrgetter(name)(np)


def precision_of(name: str, args: Any) -> float:
    """How many units in the last place may be off."""
    if name not in COARSE:
        return 64.0
    dtypes = [np.asarray(as_arrays(arg)).dtype for arg in args]
    eps = max([float(np.finfo(dtype).eps) for dtype in dtypes if dtype.kind in "fc"], default=0.0)
    return 64.0 * max(1.0, eps / float(np.finfo(float).eps))


def compared(name: str, own: Any, peer: Any, number: int, method: bool = False) -> str | None:
    """What is wrong with one drawn call, in words; None where nothing is."""
    generator = generator_of(name)
    assert generator is not None
    args, kwargs = generator(Draw(zlib.crc32(name.encode()), number))
    expected = called(
        peer, [as_arrays(arg) for arg in args], {k: as_arrays(v) for k, v in kwargs.items()}
    )
    if number % 2 or method:  # tensors and whatever else users pass take turns
        given = [as_tensors(arg) for arg in args], {k: as_tensors(v) for k, v in kwargs.items()}
    else:
        given = list(args), kwargs
    found = difference(
        called(own, *given), expected, precision_of(name, args), name not in LOOSE_ZEROS
    )
    return found and f"{described(name, args, kwargs)}:\n    {found}"


def test_every_function_has_a_generator():
    found = functions()
    assert len(found) > 280
    assert [n for n in found if n not in WITHOUT_PEER and generator_of(n) is None] == []
    assert [n for n in [*WITHOUT_PEER, *GENERATORS] if n not in found] == []


@pytest.mark.slow
@together("name", [name for name in functions() if name not in WITHOUT_PEER], pieces=2)
def test_values_are_numpys(name):
    skip_if_numpy_is_too_old(name)
    found = [compared(name, *pair_of(name), n) for n in range(CALLS)]
    wrong = sorted(filter(None, found), key=len)
    assert not wrong, f"{len(wrong)} of {CALLS} calls differ, for example\n" + "\n".join(wrong[:3])


def test_elements_that_become_equal_in_the_common_dtype_are_common_once() -> None:
    near = np.array([2**62, 2**62 + 1])
    for other in (np.array([2.0**62]), np.array([2.0**62 + 0j])):
        assert fnp.intersect1d(near, other, assume_unique=True).shape == (1,)

"""Every function of ``funcgrad.numpy``, at drawn arguments on a device: its results are there.

Calls are those of ``test_derivatives``. So are the derivatives in both modes, those that are zero,
too. The device refuses to be copied from for an operation that it lacks.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from tests.backends.fake_device import FakeDevice
from tests.differential.calls import generator_of
from tests.differential.compare import called
from tests.differential.draw import Nested
from tests.differential.test_derivatives import Apart, Case, is_array, is_smooth, works
from tests.differential.test_values import WITHOUT_PEER, functions, pair_of
from tests.together import together

pytestmark = pytest.mark.slow

CALLS = 4
ON_THE_HOST = {
    **dict.fromkeys(
        ("diag_indices_from", "tril_indices_from", "triu_indices_from"), "of the shape alone"
    ),
    **dict.fromkeys(("array_equal", "array_equiv"), "False if the shapes differ"),
    **dict.fromkeys(("amax", "amin", "max", "min"), "the number `initial`, if there is nothing"),
    "empty": "its argument is a shape",
    "poly": "the number 1, if there are no zeros",
    "linalg.lstsq": "the residuals that there are not",
}


def _has_lists(x: Any) -> bool:
    if isinstance(x, Nested):
        return True
    return isinstance(x, list | tuple) and any(map(_has_lists, x))


def _put(x: Any, place: Callable[[Any], Any]) -> Any:
    """Arguments, with all arrays on the device."""
    if isinstance(x, list | tuple):
        return type(x)([_put(part, place) for part in x])
    if isinstance(x, dict):
        return {key: _put(value, place) for key, value in x.items()}
    return place(x) if isinstance(x, np.ndarray) else x


def _pulled(case: Case, leaves: list[Any]) -> Any:
    outs, back = fg.vjp(case, *leaves)
    return outs, back([fnp.ones_like(out) for out in outs])


WAYS: dict[str, Callable[[Case, list[Any]], Any]] = {
    "forward": lambda case, leaves: fg.jvp(case, leaves, leaves),
    "reverse": _pulled,
}


def _check(expected: Any, results: Any, device: FakeDevice) -> None:
    arrays = [x for x in fg.tree.leaves(expected) if is_array(x)]
    found = [x for x in fg.tree.leaves(results) if is_array(x)]
    for wanted, result in zip(arrays, found, strict=True):
        assert result.device == device.name
        assert (result.dtype, result.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(result, wanted, 1e-9, 1e-12)


@together("name", [x for x in functions() if x not in WITHOUT_PEER], pieces=4)
@pytest.mark.usefixtures("quiet")
def test_results_are_where_the_arguments_are(name: str) -> None:
    generator, (own, peer) = generator_of(name), pair_of(name)
    device, draw = FakeDevice(f"fake:{name}"), Apart(zlib.crc32(name.encode()))
    assert generator is not None
    for _ in range(CALLS):
        args, kwargs = generator(draw)
        arrays: list[Any] = []
        _put([*args, *kwargs.values()], arrays.append)
        expected = called(own, args, kwargs)
        if expected.error is not None or not arrays or any(map(_has_lists, args)):
            continue
        there = [_put(x, lambda array: fg.put(array, device, "never")) for x in (args, kwargs)]
        results = own(*there[0], **there[1])
        if name in ON_THE_HOST:
            continue
        _check(expected.value, results, device)
        case = Case(own, args, kwargs)
        if not (works(case, peer) and is_smooth(case)):
            continue
        on_device = Case(
            own, *[_put(x, lambda array: _whole(array, device)) for x in (args, kwargs)]
        )
        leaves = [fg.put(x, device, "never") for x in case.leaves]
        for way in WAYS.values():
            wanted = called(way, (case, case.leaves), {})
            if wanted.error is None:
                _check(wanted.value, way(on_device, leaves), device)


def _whole(array: Any, device: FakeDevice) -> Any:
    """Arrays that have no derivatives on the device; the others are the leaves of the case."""
    return array if array.dtype.kind in "fc" else fg.put(array, device, "never")

"""The base class of devices that compute one operation after another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
from funcgrad._backends.stepwise_device import StepwiseDevice
from funcgrad._core.specs import Spec
from funcgrad._core.trace import bind
from funcgrad._programs.equation import Equation
from funcgrad.errors import DeviceWarning


@dataclass(frozen=True, eq=False)
class Box:
    """The handle of an array."""

    array: Any


class Boxes(StepwiseDevice):
    """Arrays of NumPy in boxes. It lacks operations of several results, and the sine."""

    name = "boxes:0"

    def put(self, array: Any) -> Box:
        return Box(np.array(array))

    def get(self, handle: Box) -> Any:
        return handle.array

    @np.errstate(all="ignore")
    def result(self, equation: Equation, specs: Sequence[Spec], values: Sequence[Any]) -> Box:
        assert equation.name != "sin"
        assert len(equation.results) == 1
        raw = [x.array[()] if type(x) is Box else x for x in values]
        raw = [np.asarray(x).item() if s.weak else x for x, s in zip(raw, specs, strict=True)]
        out = bind(equation.operation, tuple(raw), dict(equation.params))
        return self.put(out[0] if isinstance(out, tuple) else out)


def test_it_is_a_device() -> None:
    with pytest.warns(DeviceWarning, match="boxes:0 cannot compute"):
        fg.testing.check_backend(Boxes())


def test_the_host_computes_what_fails() -> None:
    x = fg.put(np.array([0.5, 1.5]), Boxes())
    with pytest.warns(DeviceWarning, match="boxes:0 cannot compute sin .*: the values are copied"):
        y = fg.jit(lambda x: np.sin(x) * 2 + x)(x)
    assert y.device == "boxes:0"
    np.testing.assert_allclose(y, 2 * np.sin([0.5, 1.5]) + [0.5, 1.5], 1e-15)

"""The device of the guide, which keeps tensors of PyTorch, is a device."""

from __future__ import annotations

import re
import runpy
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import DeviceWarning

PAGE = Path(__file__).parents[2] / "examples" / "docs" / "guide" / "devices.md"


@pytest.fixture
def device(tmp_path: Path) -> Any:
    pytest.importorskip("torch")
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (code,) = [block for block in blocks if "class TorchDevice" in block]
    module = tmp_path / "torch_device.py"
    module.write_text(code)
    return runpy.run_path(str(module))["TorchDevice"]()


def test_a_net_trains_there_without_the_host(device: Any) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(8, 3)), rng.normal(size=8)

    def loss(w: Any, x: Any, y: Any) -> Any:
        return fnp.mean((fnp.exp(-((x @ w["w"]) ** 2)) - y) ** 2) + fnp.sum(w["w"] ** 2)

    w = {"w": np.ones(3)}
    expected = fg.value_and_grad(loss)(w, x, y)
    there = fg.put((w, x, y), device)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeviceWarning)
        for f in (fg.value_and_grad(loss), fg.jit(fg.value_and_grad(loss))):
            value, gradient = f(*there)
            assert value.device == gradient["w"].device == device.name
            np.testing.assert_allclose(value, expected[0], 1e-12)
            np.testing.assert_allclose(gradient["w"], expected[1]["w"], 1e-12)


@pytest.mark.slow
def test_it_is_a_device(device: Any) -> None:
    with pytest.warns(DeviceWarning, match="torch:cpu cannot compute"):
        fg.testing.check_backend(device)

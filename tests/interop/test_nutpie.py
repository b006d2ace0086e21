"""nutpie draws from log densities of pytrees, where it is installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcgrad.numpy as fnp
from funcgrad.errors import ArgumentError, DtypeError, FunctionError, MissingPackageError
from funcgrad.interop.nutpie import compiled

START = {"w": np.zeros(2), "layers": [{"scale": 0.0}]}


def log_density(p: Any, center: Any = 0.0) -> Any:
    w, scale = p["w"] - center, p["layers"][0]["scale"]
    return -0.5 * (fnp.sum(w**2) - w[0] * w[1]) - 2.0 * scale**2


def test_without_nutpie_the_error_names_it() -> None:
    try:
        import nutpie  # noqa: F401  # whether it is installed
    except ImportError:
        with pytest.raises(MissingPackageError, match=r"nutpie is not installed\. .*pip install"):
            compiled(log_density, START)


def test_draws_have_the_moments_of_the_density() -> None:
    nutpie = pytest.importorskip("nutpie")
    model = compiled(log_density, START, data={"center": 0.0})
    assert model.n_dim == 3

    def moments(model: Any) -> Any:
        options = {"draws": 1000, "tune": 400, "chains": 2, "seed": 3, "progress_bar": False}
        posterior = nutpie.sample(model, **options).posterior
        w = np.asarray(posterior["w"]).reshape(-1, 2)
        return w.mean(0), np.cov(w.T), float(posterior["layers.0.scale"].std())

    mean, covariance, deviation = moments(model)
    np.testing.assert_allclose(mean, 0.0, atol=0.15)
    np.testing.assert_allclose(covariance, np.array([[4.0, 2.0], [2.0, 4.0]]) / 3.0, atol=0.3)
    np.testing.assert_allclose(deviation, 0.5, atol=0.05)
    moved = moments(model.with_data(center=np.asarray(5.0)))
    np.testing.assert_allclose(moved[0], 5.0, atol=0.15)


def test_variables_axes_and_labels() -> None:
    nutpie = pytest.importorskip("nutpie")
    model = compiled(
        log_density,
        START,
        expand=lambda p: {"angle": fnp.arctan2(p["w"][1], p["w"][0]), "w": p["w"]},
        dims={"w": ["axis"]},
        coords={"axis": ["x", "y"]},
    )
    posterior = nutpie.sample(
        model, draws=20, tune=20, chains=1, seed=0, progress_bar=False
    ).posterior
    assert set(posterior.data_vars) == {"angle", "w"}
    assert posterior["w"].dims == ("chain", "draw", "axis")
    angle = np.arctan2(posterior["w"].sel(axis="y"), posterior["w"].sel(axis="x"))
    np.testing.assert_allclose(posterior["angle"], angle, rtol=1e-12)


def test_bad_input() -> None:
    pytest.importorskip("nutpie")
    with pytest.raises(FunctionError):
        compiled(3.0, START)  # type: ignore[arg-type]  # the mistake
    with pytest.raises(DtypeError, match="real floating-point arrays"):
        compiled(log_density, {"w": np.zeros(2, int)})
    with pytest.raises(ArgumentError, match="expand has to return a dict"):
        compiled(log_density, START, expand=lambda p: p["w"])

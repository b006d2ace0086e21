"""Adafactor keeps a row and a column for a matrix, and is RMSProp for all else."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import funcgrad as fg
from funcgrad import optim
from funcgrad._core import pytrees
from funcgrad.errors import ArgumentError, ShapeError, TreeError

PARAMS = {
    "small": fg.tensor(np.ones((3, 4))),
    "big": fg.tensor(np.ones((8, 2, 16))),
    "bias": fg.tensor(np.ones(16)),
}


def test_what_is_kept_follows_from_shapes():
    state = optim.adafactor(0.1, min_dim_size_to_factor=8).init(PARAMS)
    assert state.v_row["big"].shape == (8, 2)
    assert state.v_col["big"].shape == (2, 16)
    assert (state.v["big"], state.v_row["small"], state.v_col["bias"]) == (None, None, None)
    assert state.v["small"].shape == (3, 4)
    assert state.mu is None
    assert optim.adafactor(0.1).init(PARAMS).v_row is None
    whole = optim.adafactor(0.1, min_dim_size_to_factor=1, factored=False, momentum=0.5)
    assert whole.init(PARAMS).v["big"].shape == (8, 2, 16)
    assert whole.init(PARAMS).mu["bias"].shape == (16,)


def test_a_matrix_of_rank_one_is_kept_exactly():
    """Squares that are products of a row and a column lose nothing."""
    g = fg.tensor(np.outer([1.0, 2.0, 5.0], [3.0, 1.0, 0.5, 4.0]))
    found = [
        optimizer.update(g, optimizer.init(g), g)[0]
        for optimizer in (
            optim.adafactor(0.1, min_dim_size_to_factor=2),
            optim.adafactor(0.1, factored=False),
        )
    ]
    assert_allclose(found[0], found[1], rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_great_gradients_give_no_nan(dtype):
    optimizer = optim.adafactor(0.1, min_dim_size_to_factor=2)
    params = fg.tensor(np.ones((2, 3), dtype))
    grads = fg.tensor(np.full((2, 3), np.finfo(dtype).max / 8, dtype))
    state, updates = optimizer.init(params), params
    with np.errstate(over="ignore"):
        for _ in range(2):
            updates, state = optimizer.update(grads, state, params)
    assert np.isfinite(np.asarray(updates)).all()
    if dtype == "float16":
        assert_allclose(updates, -0.1, rtol=1e-3)


def test_an_offset_counts_from_there():
    optimizer, later = optim.adafactor(0.1), optim.adafactor(0.1, decay_offset=3)
    p = fg.tensor([1.0, 2.0])
    state = optimizer.init(p)
    for _ in range(3):
        _, state = optimizer.update(p, state, p)
    following = later.update(3.0 * p, state, p)[1]
    assert_allclose(following.v, 9.0 * p**2)  # the first step forgets all before
    assert np.isfinite(np.asarray(later.update(p, later.init(p), p)[0])).all()


def test_bad_adafactors():
    for options, text in (
        ({"min_dim_size_to_factor": 0}, "min_dim_size_to_factor has to be an integer above 0"),
        ({"clipping_threshold": 0.0}, "clipping_threshold has to be above 0, or None"),
        ({"momentum": 1.0}, "momentum has to be at least 0 and below 1"),
        ({"weight_decay_rate": -1.0}, "weight_decay_rate has to be at least 0"),
    ):
        with pytest.raises(ArgumentError, match=f"adafactor: {text}"):
            optim.adafactor(0.1, **options)
    optimizer = optim.adafactor(0.1, min_dim_size_to_factor=8)
    other = optim.adafactor(0.1).init(PARAMS)
    with pytest.raises(TreeError, match=r"state\.v_row\['big'\]: expected a tensor, got None"):
        optimizer.update(PARAMS, other, PARAMS)
    turned = pytrees.map(lambda x: x.T, PARAMS)
    with pytest.raises(ShapeError, match=r"state\.v_row\['big'\]: expected shape \(2, 8\), got"):
        optimizer.update(turned, optimizer.init(PARAMS), turned)

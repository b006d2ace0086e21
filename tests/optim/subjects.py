"""The optimizers that the tests of this package are about, found by their signatures.

A rule is a public function of ``fg.optim`` whose first parameter is a learning rate; a wrapper is
one whose first parameter is an optimizer. The others are changes of gradients, which are named here
with arguments, and few functions that make no optimizer.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from numpy.testing import assert_allclose

import funcgrad as fg
from funcgrad import optim
from funcgrad._core import pytrees

FUNCTIONS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        name: getattr(optim, name)
        for name in optim.__all__
        if inspect.isfunction(getattr(optim, name))
    }
)


def first_parameter(function: Callable[..., Any]) -> str:
    """The name of the first parameter of a function; nothing if there is none."""
    return next(iter(inspect.signature(function).parameters), "")


RULES: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        name: function
        for name, function in FUNCTIONS.items()
        if first_parameter(function) == "learning_rate"
    }
)

WRAPPED: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {
        "accumulate": lambda inner: optim.accumulate(inner, 2),
        "apply_if_finite": lambda inner: optim.apply_if_finite(inner, 3),
        "average_params": lambda inner: optim.average_params(inner, 0.9),
        "chain": lambda inner: optim.chain(clip=optim.clip(1e3), inner=inner),
        "lookahead": lambda inner: optim.lookahead(inner, 2, 0.5),
        "partition": lambda inner: optim.partition({"w": inner, "*": optim.sgd(0.1)}),
        "sam": lambda inner: optim.sam(inner, 0.05),
        "schedule_free": lambda inner: optim.schedule_free(inner),
    }
)
"""Wrappers, by functions of the optimizer inside."""

CHANGES: Mapping[str, Callable[[], Any]] = MappingProxyType(
    {
        "add_weight_decay": lambda: optim.add_weight_decay(0.1),
        "centralize": lambda: optim.centralize(),
        "clip": lambda: optim.clip(0.5),
        "clip_by_norm": lambda: optim.clip_by_norm(0.5),
        "ema": lambda: optim.ema(0.9),
        "freeze": lambda: optim.freeze("w"),
        "noise": lambda: optim.noise(0.01, 0.55, fg.random.key(3)),
        "reduce_on_plateau": lambda: optim.reduce_on_plateau(0.5, patience=1),
        "scale": lambda: optim.scale(0.5),
        "trace": lambda: optim.trace(0.9),
    }
)

OTHERS = frozenset({"apply_updates", "eval_params", "lbfgs", "minimize", "proximal_gradient"})


def named(optimizer: Any, objective: Callable[[Any], Any], params: Any) -> dict[str, Any]:
    """The named arguments that an optimizer takes."""
    known = {"objective": objective, "value": objective(params)}
    return {name: known[name] for name in optimizer.takes}


def assert_same(first: Any, second: Any, **tolerance: Any) -> None:
    """Check that trees have one structure, and leaves of the same dtypes and numbers."""
    assert pytrees.structure(first) == pytrees.structure(second)
    for x, y in zip(pytrees.leaves(first), pytrees.leaves(second), strict=True):
        assert x.dtype == y.dtype
        assert_allclose(x, y, **tolerance)

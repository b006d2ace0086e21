"""Compute, by optax and by PyTorch, what 50 steps of each rule give: the table ``golden.json``.

The two libraries are not needed to run the tests. Where both are installed, with jax,

    python tests/optim/golden.py

writes the table anew, in float64 throughout. The gradients are those of ``gradients`` below, which
depend on the parameters, so that an error in one step shows in all later ones.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

TABLE = Path(__file__).with_name("golden.json")
STEPS = 50

DECAYED = MappingProxyType({"weight_decay": 0.1})

CASES: Mapping[str, tuple[str, Mapping[str, Any], str]] = MappingProxyType(
    {
        "sgd": ("sgd", {"learning_rate": 0.05}, "real complex"),
        "sgd-momentum": ("sgd", {"learning_rate": 0.05, "momentum": 0.9}, "real complex"),
        "sgd-nesterov": (
            "sgd",
            {"learning_rate": 0.05, "momentum": 0.9, "nesterov": True},
            "real complex",
        ),
        "rmsprop": ("rmsprop", {"learning_rate": 0.02}, "real complex"),
        "rmsprop-centered": (
            "rmsprop",
            {"learning_rate": 0.02, "centered": True, "initial_scale": 1.0, "momentum": 0.5},
            "real",
        ),
        "rmsprop-corrected": (
            "rmsprop",
            {"learning_rate": 0.02, "bias_correction": True, "eps_in_sqrt": False},
            "real",
        ),
        "adagrad": ("adagrad", {"learning_rate": 0.1}, "real complex"),
        "adadelta": ("adadelta", {"learning_rate": 1.0, "weight_decay": 0.01}, "real"),
        "adam": ("adam", {"learning_rate": 0.05, "eps_root": 1e-3}, "real complex"),
        "adamw": ("adamw", {"learning_rate": 0.05, **DECAYED}, "real complex"),
        "nadam": ("nadam", {"learning_rate": 0.05}, "real complex"),
        "radam": ("radam", {"learning_rate": 0.05, "b2": 0.95}, "real complex"),
        "adamax": ("adamax", {"learning_rate": 0.05}, "real complex"),
        "adabelief": ("adabelief", {"learning_rate": 0.05}, "real complex"),
        "lion": ("lion", {"learning_rate": 0.01, **DECAYED}, "real complex"),
        "lamb": ("lamb", {"learning_rate": 0.05, **DECAYED}, "real complex"),
        "amsgrad": ("amsgrad", {"learning_rate": 0.05, "b2": 0.9}, "real complex"),
        "muon": ("muon", {"learning_rate": 0.05, **DECAYED}, "real complex"),
        "muon-plain": (
            "muon",
            {"learning_rate": 0.05, "nesterov": False, "adam_learning_rate": 0.01},
            "real complex",
        ),
        "muon-dion": (
            "muon",
            {"learning_rate": 0.05, "ns_coeffs": "dion", "consistent_rms": 0.2, "adaptive": True},
            "real complex",
        ),
        "muon-spectral": (
            "muon",
            {"learning_rate": 0.05, "preconditioning": "spectral", "adam_weight_decay": 0.1},
            "real complex",
        ),
        "muon-aol": ("muon", {"learning_rate": 0.05, "preconditioning": "aol"}, "real complex"),
        "muon-schatten": ("muon", {"learning_rate": 0.05, "preconditioning": "schatten"}, "real"),
        "adafactor": ("adafactor", {"learning_rate": 0.05}, "real complex"),
        "adafactor-factored": (
            "adafactor",
            {"learning_rate": 0.05, "min_dim_size_to_factor": 2},
            "real complex",
        ),
        "adafactor-momentum": (
            "adafactor",
            {
                "learning_rate": 0.05,
                "min_dim_size_to_factor": 2,
                "momentum": 0.5,
                "weight_decay_rate": 0.01,
                "clipping_threshold": None,
                "multiply_by_parameter_scale": False,
            },
            "real complex",
        ),
    }
)
"""By name: optax's function, its options, and for which parameters it is right."""

TORCH: Mapping[str, tuple[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "sgd-nesterov": ("SGD", {"lr": 0.05, "momentum": 0.9, "nesterov": True}),
        "rmsprop-torch": (
            "RMSprop",
            {"lr": 0.02, "alpha": 0.99, "centered": True, "momentum": 0.5},
        ),
        "adadelta": ("Adadelta", {"lr": 1.0, "weight_decay": 0.01}),
        "adamw": ("AdamW", {"lr": 0.05, **DECAYED}),
        "adamax": ("Adamax", {"lr": 0.05}),
        "adafactor-torch": ("Adafactor", {"lr": 0.05, **DECAYED}),
    }
)
"""By name: the function of ``torch.optim`` and its options, where it agrees with funcgrad."""


CHAINS: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {
        "clip": lambda o: o.chain(o.clip(0.5), o.sgd(0.05)),
        "clip-tree": lambda o: o.chain(o.clip_by_global_norm(1.0), o.adam(0.05)),
        "clip-unit": lambda o: o.chain(o.adaptive_grad_clip(0.5), o.sgd(0.05)),
        "decay": lambda o: o.chain(o.add_decayed_weights(0.1), o.scale(2.0), o.sgd(0.05, 0.9)),
        "accumulate": lambda o: o.MultiSteps(o.adam(0.05), 4, accumulator_dtype="float64"),
        "partition": lambda o: o.partition(
            {"matrix": o.adam(0.05), "vector": o.sgd(0.1, 0.9)}, ["matrix", "vector"]
        ),
        "trace": lambda o: o.chain(o.trace(0.9), o.scale(-0.05)),
        "trace-nesterov": lambda o: o.chain(o.trace(0.9, nesterov=True), o.scale(-0.05)),
        "ema": lambda o: o.chain(o.ema(0.9), o.scale(-0.05)),
        "ema-biased": lambda o: o.chain(o.ema(0.9, debias=False), o.scale(-0.05)),
        "lookahead": lambda o: o.lookahead(o.adam(0.05), 5, 0.3),
        "lookahead-reset": lambda o: o.lookahead(o.adam(0.05), 4, 0.5, reset_state=True),
        "plateau": lambda o: o.chain(
            o.sgd(0.05),
            o.contrib.reduce_on_plateau(0.5, 2, 0.05, 0.01, 1, accumulation_size=2, min_scale=0.1),
        ),
        "optimistic": lambda o: o.optimistic_gradient_descent(0.05, 0.7, 0.9),
        "optimistic-adam": lambda o: o.optimistic_adam_v2(0.05, alpha=0.7, beta=0.9),
        "optimistic-plain": lambda o: o.optimistic_adam_v2(0.05, nesterov=False),
        "prodigy": lambda o: o.contrib.prodigy(),
        "prodigy-warm": lambda o: o.contrib.prodigy(
            0.5, estim_lr0=1e-3, estim_lr_coef=2.0, weight_decay=0.1, safeguard_warmup=True
        ),
        "sam": lambda o: o.contrib.sam(
            o.adam(0.05), o.chain(o.contrib.normalize(), o.sgd(0.1)), opaque_mode=True
        ),
        "schedule-free": lambda o: o.contrib.schedule_free(o.sgd(0.05), 0.05, 0.8),
        "schedule-free-adam": lambda o: o.contrib.schedule_free(
            o.adamw(0.05, b1=0.0, weight_decay=0.1), 0.05, weight_lr_power=1.0
        ),
    }
)
"""Chains and wrappers of optax."""

SCHEDULES: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {
        "linear": lambda o: o.linear_schedule(1.0, 0.1, 20),
        "polynomial": lambda o: o.polynomial_schedule(1.0, 0.1, 2.5, 20),
        "warmup-cosine": lambda o: o.warmup_cosine_decay_schedule(0.1, 1.0, 6, 20, 0.05, 1.5),
        "cosine": lambda o: o.cosine_decay_schedule(1.0, 20, alpha=0.1),
        "exponential": lambda o: o.exponential_decay(1.0, 5, 0.5),
        "staircase": lambda o: o.exponential_decay(1.0, 5, 0.5, staircase=True),
        "onecycle": lambda o: o.cosine_onecycle_schedule(20, 1.0),
        "piecewise": lambda o: o.piecewise_constant_schedule(1.0, {5: 0.5, 12: 0.2}),
        "join": lambda o: o.join_schedules(
            [o.constant_schedule(1.0), o.linear_schedule(0.5, 0.0, 5)], [7]
        ),
        "restarts": lambda o: o.join_schedules(
            [o.cosine_decay_schedule(0.5**i, 8) for i in range(4)], [8, 16, 24]
        ),
    }
)
"""Schedules of optax."""

COUNTS = range(25)


PROJECTIONS: Mapping[str, tuple[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "non-negative": ("non_negative", {}),
        "box": ("box", {"lower": -0.5, "upper": 1.0}),
        "hypercube": ("hypercube", {"scale": 1.5}),
        "simplex": ("simplex", {}),
        "simplex-large": ("simplex", {"scale": 5.0}),
        "l1-ball": ("l1_ball", {"scale": 2.0}),
        "l1-ball-inside": ("l1_ball", {"scale": 20.0}),
        "l1-sphere": ("l1_sphere", {"scale": 3.0}),
        "l2-ball": ("l2_ball", {"scale": 2.0}),
        "l2-ball-inside": ("l2_ball", {"scale": 20.0}),
        "l2-sphere": ("l2_sphere", {"scale": 3.0}),
        "linf-ball": ("linf_ball", {"scale": 0.7}),
    }
)
"""By name: optax's projection, without the prefix, and its options."""

PROJECTED = (np.linspace(-1.3, 2.1, 6).reshape(3, 2), np.array([0.4, -0.25]))


def start(kind: str) -> list[np.ndarray[Any, Any]]:
    """The parameters at first: a matrix and a vector."""
    matrix, vector = np.linspace(-1.0, 2.0, 6).reshape(3, 2), np.array([0.5, -0.25])
    if kind == "complex":
        return [matrix + 1j * np.cos(matrix), vector - 0.5j]
    return [matrix, vector]


def gradients(params: list[Any], step: int) -> list[Any]:
    """The gradients of a step."""
    found = []
    for place, p in enumerate(params):
        wave = np.sin(step * (1 + place) * 0.7 + np.arange(p.size).reshape(p.shape))
        turn = 1 - 0.5j if np.iscomplexobj(p) else 1.0
        found.append(0.4 * np.asarray(p) + turn * wave)
    return found


def value(step: int) -> float:
    """A value that falls, and then does not."""
    return 1.0 / (1 + step) if step < 10 else 0.1 + 0.01 * float(np.sin(step))


def _by_optax(optimizer: Any, kind: str, case: str = "") -> list[Any]:
    import jax
    import optax

    params: Any = [jax.numpy.asarray(p) for p in start(kind)]
    if case.startswith("lookahead"):
        params = optax.LookaheadParams.init_synced(params)
    state = optimizer.init(params)
    for step in range(STEPS):
        # optax steps along minus what it gets; for complex numbers jax's gradient is conjugated,
        # and funcgrad's is not, so both are given the direction of steepest ascent.
        named: dict[str, Any] = {}
        if case == "plateau":
            named["value"] = value(step)
        if case == "sam":
            named["grad_fn"] = lambda places, _, step=step: gradients(places, step)
        fast = params.fast if case.startswith("lookahead") else params
        updates, state = optimizer.update(gradients(fast, step), state, params, **named)
        params = optax.apply_updates(params, updates)
    return params.fast if case.startswith("lookahead") else params


def _function(name: str) -> Any:
    """The function of optax, in double precision where it has single inside."""
    import optax

    if name != "adafactor":
        return getattr(optax if hasattr(optax, name) else optax.contrib, name)

    from optax._src import factorized

    def decay(count: Any, exponent: Any) -> Any:
        return 1.0 - (count + 1.0) ** -exponent

    def adafactor(**options: Any) -> Any:
        rms = factorized.scale_by_factored_rms
        # the default of another argument stands for the decay that optax computes in float32
        rms.__defaults__ = (*rms.__defaults__[:-1], decay)
        return optax.adafactor(**options, dtype_momentum=None)

    return adafactor


def _means_by_optax() -> list[Any]:
    """The mean of the parameters of a run."""
    import optax

    optimizer, ema = optax.sgd(0.05), optax.ema(0.9)
    params = start("real")
    state, means = optimizer.init(params), ema.init(params)
    mean = params
    for step in range(STEPS):
        updates, state = optimizer.update(gradients(params, step), state, params)
        params = optax.apply_updates(params, updates)
        mean, means = ema.update(params, means)
    return list(mean)


def _by_torch(name: str, options: Mapping[str, Any]) -> list[Any]:
    import torch

    params = [torch.tensor(p) for p in start("real")]
    optimizer = getattr(torch.optim, name)(params, **options)
    for step in range(STEPS):
        values = gradients([p.numpy() for p in params], step)
        for p, g in zip(params, values, strict=True):
            p.grad = torch.tensor(g)
        optimizer.step()
    return [p.numpy() for p in params]


def _projected(name: str, options: Mapping[str, Any]) -> list[Any]:
    """A projection, and the gradient of the sum of its sines, by weights."""
    import jax
    import jax.numpy as jnp
    from optax import projections

    def project(tree: list[Any]) -> Any:
        function = getattr(projections, f"projection_{name}")
        if name in ("box", "hypercube"):  # which take no number as a bound of a tree
            return [function(x, **options) for x in tree]
        return function(tree, **options)

    def total(tree: list[Any]) -> Any:
        weights = [jnp.cos(jnp.arange(x.size)).reshape(x.shape) for x in tree]
        return sum((jnp.sin(x) * w).sum() for x, w in zip(project(tree), weights, strict=True))

    tree = [jnp.asarray(x) for x in PROJECTED]
    return [*project(tree), *jax.grad(total)(tree)]


def _numbers(params: list[Any]) -> list[float]:
    flat = np.concatenate([np.asarray(p).ravel() for p in params])
    parts = [flat.real, flat.imag] if np.iscomplexobj(flat) else [flat]
    return [float(x) for x in np.concatenate(parts)]


def main() -> None:
    """Write the table."""
    import jax
    import optax

    jax.config.update("jax_enable_x64", True)
    table = {
        f"optax {case} {kind}": _numbers(_by_optax(_function(name)(**options), kind))
        for case, (name, options, kinds) in CASES.items()
        for kind in kinds.split()
    }
    table |= {
        f"torch {case} real": _numbers(_by_torch(name, options))
        for case, (name, options) in TORCH.items()
    }
    table |= {
        f"chain {case} real": _numbers(_by_optax(f(optax), "real", case))
        for case, f in CHAINS.items()
    }
    table["mean sgd real"] = _numbers(_means_by_optax())
    table |= {
        f"schedule {case} -": [float(f(optax)(np.float64(count))) for count in COUNTS]
        for case, f in SCHEDULES.items()
    }
    table |= {
        f"projection {case} -": _numbers(_projected(name, options))
        for case, (name, options) in PROJECTIONS.items()
    }
    lines = [f"{json.dumps(case)}: {json.dumps(numbers)}" for case, numbers in table.items()]
    TABLE.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


if __name__ == "__main__":
    main()

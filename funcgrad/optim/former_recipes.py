"""Optimizers that earlier versions pickled: their recipes load, and make the same optimizers.

Earlier versions pickled a record of options, and functions by their names in modules of this
package. ``__getattr__`` answers for such a name, with a stand-in for the function or the record.

>>> from functools import partial
>>> rule = __getattr__("StepRule")()
>>> momentum = partial(__getattr__("_momentum"), 0.9, True)
>>> rule.__setstate__(["sgd", None, 0.1, momentum, __getattr__("_trace"), None, None])
>>> rule.optimizer()
sgd(learning_rate=0.1, momentum=0.9, nesterov=True)
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Final, TypeAlias

Field: TypeAlias = Any
"""A field of a record of an earlier version."""

_MOMENTS: Final = "b1 b2 eps eps_root"

_OPTIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        # Rules: directions, and first memories. Only Adam's ``_start`` had an option.
        "_plain _trace _mean_alone _two_means _start_of_adadelta _as_long_as_parameter": "",
        "adam_direction _adam_direction nadam_direction _adabelief": _MOMENTS,
        "_radam": f"{_MOMENTS} threshold",
        "_adamax": "b1 b2 eps",
        "_start": "amsgrad",
        "_momentum": "momentum nesterov",
        "_lion": "b1 b2",
        "_rmsprop": "decay eps eps_in_sqrt momentum nesterov bias_correction",
        "_start_of_rmsprop": "initial_scale centered",
        "_adagrad": "eps",
        "_start_of_adagrad": "initial_accumulator_value",
        "_adadelta": "rho eps",
        "_step": "scaled multiply_by_parameter_scale clipping_threshold momentum",
        # Changes of gradients. A function of Adafactor had the name ``_scaled``, too.
        "_clipped": "max_delta",
        "_shorter_tree _shorter_leaves": "max_norm",
        "_shorter_units": "max_norm eps",
        "_scaled": "factor",
        "_decayed": "weight_decay",
        "_centralized _frozen": "",
        # Muon, whose ``partial`` has options by name.
        "orthogonalized": "",
        "_traced": "decay nesterov",
        "_averaged": "decay debias",
    }
)
"""Functions of earlier versions, and their options in their order."""


def _public(name: str) -> Any:
    return vars(sys.modules["funcgrad.optim"])[name]


def _options(function: Field) -> dict[str, Any]:
    """The options that a ``partial`` of a function holds; a function by itself has none."""
    if not isinstance(function, partial):
        return {}
    names = next(_OPTIONS[row] for row in _OPTIONS if function.func.__name__ in row.split())
    return dict(zip(names.split(), function.args, strict=False))


def _rule(
    name: str, _: Field, rate: Field, leafwise: Field, start: Field, decay: Field, *others: Field
) -> Any:
    options, mask = _options(leafwise), others[0]
    if name == "adafactor":
        decay_rate, decay_offset, eps, least = options.pop("scaled").args
        options |= {"decay_rate": decay_rate, "decay_offset": decay_offset, "eps": eps}
        options |= {"weight_decay_rate": decay, "weight_decay_mask": mask}
        options |= {"factored": least is not None, "min_dim_size_to_factor": least or 128}
    else:
        options |= _options(start)
        if decay is not None:
            options |= {"weight_decay": decay}
            options["weight_decay_mask" if name == "adadelta" else "mask"] = mask
    return _public(name)(rate, **options)


def _change(name: str, change: Field, where: Field) -> Any:
    options = _options(change)
    if name == "clip_by_norm":
        kinds = {"_shorter_leaves": "leaf", "_shorter_units": "unit"}
        options["per"] = kinds.get(change.func.__name__, "tree")
    if where is not None:
        options["where" if name == "freeze" else "mask"] = where
    return _public(name)(**options)


def _muon(rate: Field, adam_rate: Field, *others: Field) -> Any:
    orthogonal, momentum, adam, (decay, adam_decay), mask, numbers, adaptive, rms = others
    coefficients = orthogonal.keywords["coefficients"]
    eps = orthogonal.keywords["eps"]
    return _public("muon")(
        *(rate, coefficients, len(coefficients), momentum.args[0], eps, decay, mask),
        nesterov=momentum.args[1],
        adaptive=adaptive,
        preconditioning=orthogonal.keywords["preconditioning"],
        adam_b1=adam.args[0],
        adam_b2=adam.args[1],
        adam_eps_root=adam.args[3],
        adam_weight_decay=adam_decay,
        adam_learning_rate=adam_rate,
        muon_weight_dimension_numbers=numbers,
        consistent_rms=rms,
    )


def _chain(names: tuple[str, ...], members: tuple[Any, ...]) -> Any:
    count = sum(name.isdecimal() for name in names)
    named = dict(zip(names[count:], members[count:], strict=True))
    return _public("chain")(*members[:count], **named)


def _lbfgs(size: int, evaluations: int, decrease: Field, curvature: Field) -> Any:
    options = {"max_linesearch_steps": evaluations, "slope_rtol": decrease, "curv_rtol": curvature}
    return _public("lbfgs")(size, **options)


_RECORDS: Final[Mapping[str, Callable[..., Any] | str]] = MappingProxyType(
    {
        "StepRule": _rule,
        "GradientChange": _change,
        "_Remembering": lambda name, _, change: _public(name)(**_options(change)),
        "_Muon": _muon,
        "_Chain": _chain,
        "_Partition": lambda names, members, labels: _public("partition")(
            dict(zip(names, members, strict=True)), labels
        ),
        "_Lbfgs": _lbfgs,
        "_Sam": lambda inner, rho, adaptive: _public("sam")(inner, rho, adaptive=adaptive),
        "_Accumulated": "accumulate",
        "_Average": "average_params",
        "_IfFinite": "apply_if_finite",
        "_Lookahead": "lookahead",
        "_Noise": "noise",
        "_Plateau": "reduce_on_plateau",
        "_ScheduleFree": "schedule_free",
    }
)
"""Records of earlier versions: functions that make the optimizer from the fields in their order."""


class _FormerRecord:
    """Stands for a record of an earlier version; each record has a class of its own."""

    def __setstate__(self, fields: Sequence[Any]) -> None:
        self.fields = fields

    def optimizer(self) -> Any:
        make = _RECORDS[type(self).__name__]
        return (_public(make) if isinstance(make, str) else make)(*self.fields)


def __getattr__(name: str) -> Any:
    """Return a stand-in for a name of an earlier version: the ``__getattr__`` of modules."""
    if name in _RECORDS:
        return type(name, (_FormerRecord,), {})
    if name.endswith("State") and name in vars(sys.modules["funcgrad.optim"]):
        return _public(name)
    if not any(name in row.split() for row in _OPTIONS):
        raise AttributeError(f"no module of funcgrad.optim has {name!r}", name=name)

    def function(*_: object) -> None:
        """Stands for a function, which nobody calls."""

    function.__name__ = name
    return function


def add_former_names(package: str) -> None:
    """Let the modules of a package answer for names of earlier versions, which pickles hold."""
    for name, module in list(sys.modules.items()):
        if name.startswith(f"{package}.") and not hasattr(module, "__getattr__"):
            module.__getattr__ = __getattr__  # type: ignore[method-assign]

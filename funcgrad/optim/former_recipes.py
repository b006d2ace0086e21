"""Optimizers that earlier versions pickled: their recipes load, and make the same optimizers.

Earlier versions pickled a record of options, and functions that the record named in modules of this
package. ``former_name`` is what such a module has in their place: a stand-in for a function, which
a ``partial`` of a pickle calls for, or for a record.

>>> from functools import partial
>>> rule = former_name("StepRule")()
>>> momentum = partial(former_name("_momentum"), 0.9, True)
>>> rule.__setstate__(["sgd", None, 0.1, momentum, former_name("_trace"), None, None])
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

_ADAM: Final = "b1 b2 eps eps_root"

_OPTIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        # Directions of rules, and their first memories.
        "_plain": "",
        "_momentum": "momentum nesterov",
        "adam_direction": _ADAM,
        "_adam_direction": _ADAM,
        "nadam_direction": _ADAM,
        "_radam": f"{_ADAM} threshold",
        "_adamax": "b1 b2 eps",
        "_adabelief": _ADAM,
        "_lion": "b1 b2",
        "_rmsprop": "decay eps eps_in_sqrt momentum nesterov bias_correction",
        "_adagrad": "eps",
        "_adadelta": "rho eps",
        "_step": "scaled multiply_by_parameter_scale clipping_threshold momentum",
        "_start": "amsgrad",
        "_trace": "",
        "_mean_alone": "",
        "_two_means": "",
        "_as_long_as_parameter": "",
        "_start_of_rmsprop": "initial_scale centered",
        "_start_of_adagrad": "initial_accumulator_value",
        "_start_of_adadelta": "",
        # Changes of gradients. Adafactor's means of squares have the name of one of them.
        "_clipped": "max_delta",
        "_shorter_tree": "max_norm",
        "_shorter_leaves": "max_norm",
        "_shorter_units": "max_norm eps",
        "_scaled": "factor",
        "_decayed": "weight_decay",
        "_centralized": "",
        "_frozen": "",
        "_traced": "decay nesterov",
        "_averaged": "decay debias",
    }
)
"""The options of functions of earlier versions, in their order."""

_PER: Final = MappingProxyType({"_shorter_leaves": "leaf", "_shorter_units": "unit"})


class _FormerFunction:
    """Stands for a function of an earlier version, which nobody calls."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    __call__ = None


def _options(function: Field) -> dict[str, Any]:
    """The options that a function of an earlier version, or a ``partial`` of one, got by order."""
    if isinstance(function, partial):
        return dict(zip(_OPTIONS[function.func.__name__].split(), function.args, strict=False))
    return {}


def _rule(name: str, _: Field, rate: Field, leafwise: Field, start: Field, *others: Field) -> Any:
    options, (decay, mask) = {"learning_rate": rate, **_options(leafwise)}, others[:2]
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
    return _public(name)(**options)


def _change(name: str, change: Field, where: Field) -> Any:
    options = _options(change)
    if name == "clip_by_norm":
        options["per"] = _PER.get(change.func.__name__, "tree")
    if name == "freeze":
        options["where"] = where
    elif where is not None:
        options["mask"] = where
    return _public(name)(**options)


def _muon(
    rate: Field, adam_rate: Field, orthogonal: Field, momentum: Field, adam: Field, *others: Field
) -> Any:
    (decay, adam_decay), mask, numbers, adaptive, rms = others
    b1, b2, eps, eps_root = adam.args
    return _public("muon")(
        rate,
        orthogonal.keywords["coefficients"],
        len(orthogonal.keywords["coefficients"]),
        momentum.args[0],
        eps,
        decay,
        mask,
        nesterov=momentum.args[1],
        adaptive=adaptive,
        preconditioning=orthogonal.keywords["preconditioning"],
        adam_b1=b1,
        adam_b2=b2,
        adam_eps_root=eps_root,
        adam_weight_decay=adam_decay,
        adam_learning_rate=adam_rate,
        muon_weight_dimension_numbers=numbers,
        consistent_rms=rms,
    )


def _chain(names: tuple[str, ...], members: tuple[Any, ...]) -> Any:
    pairs = list(zip(names, members, strict=True))
    unnamed = [member for name, member in pairs if name.isdecimal()]
    return _public("chain")(*unnamed, **dict(pairs[len(unnamed) :]))


def _partition(names: tuple[str, ...], members: tuple[Any, ...], labels: Field) -> Any:
    return _public("partition")(dict(zip(names, members, strict=True)), labels)


def _lbfgs(memory_size: int, evaluations: int, decrease: Field, curvature: Field) -> Any:
    options = {"max_linesearch_steps": evaluations, "slope_rtol": decrease, "curv_rtol": curvature}
    return _public("lbfgs")(memory_size, **options)


def _sam(inner: Field, rho: Field, adaptive: bool) -> Any:
    return _public("sam")(inner, rho, adaptive=adaptive)


_RECORDS: Final[Mapping[str, str | Callable[..., Any]]] = MappingProxyType(
    {
        "StepRule": _rule,
        "GradientChange": _change,
        "_Remembering": lambda name, _, change: _public(name)(**_options(change)),
        "_Muon": _muon,
        "_Chain": _chain,
        "_Partition": _partition,
        "_Lbfgs": _lbfgs,
        "_Sam": _sam,
        "_Accumulated": "accumulate",
        "_Average": "average_params",
        "_IfFinite": "apply_if_finite",
        "_Lookahead": "lookahead",
        "_Noise": "noise",
        "_Plateau": "reduce_on_plateau",
        "_ScheduleFree": "schedule_free",
    }
)
"""Records of earlier versions: functions of their fields that make the optimizer."""


class _FormerRecord:
    """Stands for a record of an earlier version; a subclass for each has the function."""

    make: tuple[str | Callable[..., Any]]

    def __setstate__(self, fields: Sequence[Any]) -> None:
        self.fields = fields

    def optimizer(self) -> Any:
        (make,) = self.make
        return (_public(make) if isinstance(make, str) else make)(*self.fields)


def _public(name: str) -> Any:
    return vars(sys.modules["funcgrad.optim"])[name]


def former_name(name: str) -> Any:
    """Return what stands for a name of an earlier version: the ``__getattr__`` of modules.

    Raises
    ------
    AttributeError
        No earlier version had the name.
    """
    if name in _OPTIONS:
        return _FormerFunction(name)
    if name in _RECORDS:
        return type(name, (_FormerRecord,), {"make": (_RECORDS[name],)})
    if name.endswith("State"):
        return _public(name)
    raise AttributeError(f"no module of funcgrad.optim has {name!r}", name=name)


def add_former_names(package: str) -> None:
    """Let the modules of a package answer for names of earlier versions, which pickles hold."""
    for name, module in list(sys.modules.items()):
        if name.startswith(f"{package}.") and not hasattr(module, "__getattr__"):
            module.__getattr__ = former_name  # type: ignore[method-assign]


__getattr__ = former_name

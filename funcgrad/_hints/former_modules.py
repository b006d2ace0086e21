"""Modules under their former names, so that pickles and saved programs of earlier versions load.

A file names a class by its module. The finder below answers for modules that have moved, and for
nothing else; ``funcgrad`` adds it to Python's finders when it is imported.

>>> import importlib
>>> import funcgrad
>>> importlib.import_module("funcgrad.trees").__name__
'funcgrad._core.pytrees'
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # slow to import, and not needed at run time
    from importlib.abc import Loader as _Loader
else:
    _Loader = object

_PACKAGES: Final = MappingProxyType(
    {
        "backends": "_backends",
        "control": "_control",
        "foreign": "_external",
        "forms": "_forms",
        "passes": "_passes",
        "primitives": "_primitives",
        "programs": "_programs",
        "staging": "_staging",
        "transforms": "_transforms",
    }
)
"""Packages that have moved."""

_MOVED: Final = MappingProxyType(
    {
        "control.closure": "_control.spread",
        "control.examples": "_control.values",
        "debug.births": "debug.value_origins",
        "factorizations": "_core.structure.factorizations",
        "folds": "_core.structure.folds",
        "frozen_dataclasses": "_core.pytree_class",
        "nn.attending": "nn.attention",
        "nn.dropping": "nn.dropout",
        "numpy.tapers": "numpy.window_functions",
        "optim.adam_relatives": "optim.former_recipes",
        "optim.adam_variants": "optim.former_recipes",
        "optim.evaluation": "optim.parameter_means",
        "optim.finite_steps": "optim.former_recipes",
        "optim.gradient_means": "optim.former_recipes",
        "optim.gradient_noise": "optim.former_recipes",
        "optim.lbfgs_memory": "optim.lbfgs",
        "optim.lion_lamb": "optim.former_recipes",
        "optim.mean_squares": "optim.rms_family",
        "optim.orthogonalization": "optim.former_recipes",
        "optim.plateau": "optim.former_recipes",
        "optim.signs": "optim.former_recipes",
        "parallel.parcels": "parallel.shared_files",
        "philox": "random.philox",
        "places": "_core.structure.index_maps",
        "primitive": "_core.primitive",
        "primitives.deputies": "_primitives.stand_in_examples",
        "programs.structures": "_programs.moved_elements",
        "scipy.special.bessel_derivatives": "scipy.special.bessel",
        "scipy.special.elliptic": "scipy.special.integral_functions",
        "scipy.special.exponentials": "scipy.special.integral_functions",
        "scipy.special.faddeeva": "scipy.special.error_functions",
        "scipy.special.harmonics": "scipy.special.orthogonal_polynomials",
        "scipy.special.hypergeometric": "scipy.special.orthogonal_polynomials",
        "scipy.special.incomplete_betas": "scipy.special.incomplete_functions",
        "scipy.special.incomplete_gammas": "scipy.special.incomplete_functions",
        "scipy.special.lambert": "scipy.special.power_transforms",
        "scipy.special.logistic": "scipy.special.entropies",
        "scipy.special.penalties": "scipy.special.entropies",
        "scipy.special.spherical_bessel": "scipy.special.bessel",
        "scipy.special.zetas": "scipy.special.gammas",
        "scipy.stats.absent_methods": "scipy.stats.frozen",
        "scipy.stats.log_probabilities": "scipy.stats.conditions",
        "scipy.stats.named_parameters": "scipy.stats.frozen",
        "shape": "_core.specs",
        "structure": "_core.structure.structures",
        "testing.laws.one_sided": "testing.laws.derivative_laws",
        "trace": "_core.trace",
        "transforms.call": "_transforms.calls",
        "transforms.custom_call": "_transforms.calls",
        "transforms.explicit": "_transforms.call_values",
        "transforms.participation": "_transforms.active_examples",
        "transforms.recording": "_transforms.recorded",
        "transforms.staged_calls": "_transforms.call_values",
        "transforms.tape": "_transforms.recorded",
        "transforms.whole": "_transforms.composite",
        "trees": "_core.pytrees",
        "users_values": "_core.users_values",
    }
)
"""Modules that have moved to other packages, or have been renamed."""


class _Alias(_Loader):
    """Loads a module that exists under another name."""

    def __init__(self, name: str) -> None:
        self._module = import_module(name)
        self._spec = self._module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # Python has just replaced it


class FormerModules:
    """A finder of funcgrad's modules by their names in earlier versions."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module that has moved; None for any other."""
        root, _, place = name.partition(".")
        if root != "funcgrad":
            return None
        package, _, inner = place.partition(".")
        if place in _PACKAGES:  # without a path, so that this finder gets its modules, too
            return ModuleSpec(name, None, is_package=True)
        if package in _PACKAGES:
            place = _MOVED.get(place, f"{_PACKAGES[package]}.{inner}")
        elif place not in _MOVED:
            return None
        else:
            place = _MOVED[place]
        return ModuleSpec(name, _Alias(f"{root}.{place}"))

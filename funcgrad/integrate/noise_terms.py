"""The user's stochastic equation as lists of tensors, with errors in the user's terms.

>>> import funcgrad as fg
>>> terms = NoisyTerms.read(lambda t, y: -y, lambda t, y: 0.5, 1, (), "diagonal")
>>> terms.drift(fg.tensor(0.0), terms.start), terms.motions
([Tensor(-1.0)], 1)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._control.carry import handed, placed
from funcgrad._core import pytrees
from funcgrad._core.pytrees import Structure
from funcgrad._core.specs import Shape
from funcgrad._transforms.arguments import check_function, values_of
from funcgrad.errors import DtypeError, FuncgradError, ShapeError, TreeError
from funcgrad.tensor.tensor import Tensor, wrap


@dataclass(frozen=True, slots=True)
class NoisyTerms:
    """The drift and the diffusion of an equation, its start and its parameters.

    Attributes
    ----------
    functions : tuple of callable
        The drift and the diffusion.
    state, arguments : Structure
        The structures of ``y0`` and of ``args``.
    start, parameters : list of Tensor
        The leaves of ``y0`` and of ``args``.
    noise : str
        "diagonal", "scalar" or "general".
    motions : int
        The number of independent Brownian motions.
    """

    functions: tuple[Callable[..., Any], Callable[..., Any]]
    state: Structure
    arguments: Structure
    start: list[Tensor]
    parameters: list[Tensor]
    noise: str
    motions: int = 0

    @classmethod
    def read(
        cls,
        drift: Callable[..., Any],
        diffusion: Callable[..., Any],
        y0: object,
        args: tuple[Any, ...],
        noise: str,
    ) -> NoisyTerms:
        """Read the arguments of ``solve_sde``; the motions of general noise stay unknown."""
        check_function("solve_sde", drift)
        check_function("solve_sde", diffusion)
        leaves, state = pytrees.flatten(y0)
        start = [wrap(value) for value in values_of("solve_sde", leaves, state, lambda: "y0")]
        for leaf, path in zip(start, state.paths(), strict=True):
            if leaf.dtype.kind not in "biuf":
                raise placed(
                    DtypeError,
                    f"solve_sde: y0{path} has to be real, got {leaf.dtype}. Write a complex state"
                    " as a pair of its real and its imaginary part.",
                )
        start = [leaf.astype(leaf.dtype if leaf.dtype.kind == "f" else float) for leaf in start]
        others, arguments = pytrees.flatten(args)
        parameters = handed(values_of("solve_sde", others, arguments, lambda: "args"))
        count = {"scalar": 1, "diagonal": sum([leaf.size for leaf in start]), "general": 0}[noise]
        params = [wrap(value) for value in parameters]
        return cls((drift, diffusion), state, arguments, start, params, noise, count)

    def tree(self, leaves: Sequence[Tensor]) -> Any:
        """Make a tree like ``y0`` from leaves."""
        return pytrees.unflatten(self.state, leaves)

    def drift(self, t: Tensor, y: list[Tensor]) -> list[Tensor]:
        """Call the user's drift, and check that its result is like ``y0``."""
        return self._called(0, "drift", t, y)

    def diffusion(self, t: Tensor, y: list[Tensor]) -> list[Tensor]:
        """Call the user's diffusion, and check its result."""
        return self._called(1, "diffusion", t, y)

    def motions_of(self, t: Tensor) -> int:
        """The number of motions: for general noise, the last axis of the diffusion."""
        return self.motions or self.diffusion(t, self.start)[0].shape[-1] if self.start else 0

    def split(self, path: Tensor) -> list[Tensor]:
        """Give each leaf its motion from an array whose last axis is all motions."""
        lead = path.shape[:-1]
        if self.noise == "general":
            return [
                fnp.reshape(path, (*lead, *[1] * leaf.ndim, path.shape[-1])).astype(leaf.dtype)
                for leaf in self.start
            ]
        if self.noise == "scalar":
            return [
                fnp.reshape(path, (*lead, *[1] * leaf.ndim)).astype(leaf.dtype)
                for leaf in self.start
            ]
        borders = np.cumsum([0, *[leaf.size for leaf in self.start]])
        return [
            fnp.reshape(path[..., first:last], (*lead, *leaf.shape)).astype(leaf.dtype)
            for leaf, first, last in zip(self.start, borders[:-1], borders[1:], strict=True)
        ]

    def _called(self, which: int, name: str, t: Tensor, y: list[Tensor]) -> list[Tensor]:
        args = pytrees.unflatten(self.arguments, self.parameters)
        try:
            out = self.functions[which](t, self.tree(y), *args)
        except FuncgradError as error:
            error.add_note(
                f"In the {name} of solve_sde. It is called as {name}(t, y, *args): the time first,"
                " like solve_ivp and unlike odeint."
            )
            raise
        leaves, structure = pytrees.flatten(out)
        if structure != self.state:
            try:
                pytrees.flatten_like(self.state, out, f"solve_sde: the {name}")
            except FuncgradError as error:
                raise placed(
                    TreeError, f"{error}. The {name} has to return a tree like y0."
                ) from None
        values = values_of("solve_sde", leaves, structure, lambda: f"the {name}")
        results = [wrap(value) for value in values]
        wide = name == "diffusion" and self.noise == "general"
        counts = set()
        for place, (leaf, result) in enumerate(zip(y, results, strict=True)):
            counts.add(result.shape[-1:] if wide else ())
            self._check(name, place, leaf, result, wide, len(counts) == 1)
        return [result.astype(leaf.dtype) for leaf, result in zip(y, results, strict=True)]

    def _check(
        self, name: str, place: int, leaf: Tensor, result: Tensor, wide: bool, agrees: bool
    ) -> None:
        path = self.state.paths()[place]
        shape: Shape = result.shape[:-1] if wide else result.shape
        if shape != leaf.shape or (wide and not result.ndim) or not agrees:
            wanted = f"{leaf.shape}"
            advice = f"Multiply a constant by fg.numpy.ones({leaf.shape})."
            if wide:
                wanted = f"{(*leaf.shape, 'm')}".replace("'", "")
                advice = (
                    "With noise='general' its last axis is the m Brownian motions, the same number"
                    " for all leaves."
                )
            elif name == "diffusion" and result.ndim == leaf.ndim + 1:
                advice = "A matrix of several motions needs noise='general'."
            raise placed(
                ShapeError,
                f"solve_sde: the {name}{path} returned shape {result.shape} where y0 has"
                f" {leaf.shape}; expected {wanted}. {advice}",
            )
        weak = result.dtype.kind in "biu" or type(result._value) is float
        if not weak and np.result_type(result.dtype, leaf.dtype) != leaf.dtype:
            raise placed(
                DtypeError,
                f"solve_sde: the {name}{path} returned {result.dtype} where y0 has {leaf.dtype}."
                f" Give y0 in that precision, or return a result .astype({leaf.dtype.name!r}).",
            )

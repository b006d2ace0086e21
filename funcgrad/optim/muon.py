"""Muon: the momentum of a matrix is made orthogonal, so that a step moves it equally in all ways.

>>> from funcgrad.tensor.tensor import tensor
>>> params = {"matrix": tensor([[1.0, 2.0], [3.0, 4.0]]), "bias": tensor([1.0, 2.0])}
>>> optimizer = muon(0.1)
>>> state = optimizer.init(params)
>>> state.mu["matrix"].shape, state.nu
((2, 2), {'bias': Tensor([0., 0.]), 'matrix': None})
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.pytrees import Structure, broadcast_prefix, pytree
from funcgrad._core.users_values import ArrayLike
from funcgrad._primitives.norms import length
from funcgrad.errors import ArgumentError, DtypeError, ShapeError
from funcgrad.optim.adam import adam_direction, nadam_direction
from funcgrad.optim.base import (
    LearningRate,
    Optimizer,
    Pytree,
    flattened,
    in_dtypes_of,
    mean,
    rate_at,
    recorded,
    scalar,
    unflattened,
    widened,
    zeros,
)
from funcgrad.optim.option_types import Count, Share, Size, check_state, making
from funcgrad.optim.rule import Direction, Mask, Memory, Step, chosen, memories_like
from funcgrad.tensor.tensor import Tensor, apply, tensor


class MuonDimensionNumbers(NamedTuple):
    """The axes of a parameter that form a matrix; all others are axes of a stack of matrices.

    Attributes
    ----------
    reduction_axis : int or tuple of int
        The axes that are summed over where the parameter is used, its inputs.
    output_axis : int or tuple of int
        The axes of outputs.

    Examples
    --------
    >>> kernel = MuonDimensionNumbers((1, 2, 3), 0)  # (filters, channels, height, width)
    >>> stacked = MuonDimensionNumbers(1, 2)  # (layers, inputs, outputs)
    """

    reduction_axis: int | tuple[int, ...] = 0
    output_axis: int | tuple[int, ...] = 1


NsCoefficients: TypeAlias = str | Sequence[ArrayLike] | Sequence[Sequence[ArrayLike]] | Tensor
"""The name of a set of coefficients, three numbers, or three for each step."""

DimensionNumbers: TypeAlias = Pytree | Callable[[Pytree], Pytree]
"""A tree of ``MuonDimensionNumbers`` and None, or a prefix, or a function from params to one."""


@pytree(slots=True)
class MuonState:
    """The state of ``muon``.

    Attributes
    ----------
    count : Tensor of int64
        The number of steps so far.
    mu : pytree of tensors
        The decaying mean of the gradients, not yet corrected for its start at zero.
    nu : pytree of tensors
        For parameters that Adam moves, the decaying mean of squares; None for matrices.
    rate, adam_rate : Tensor of float64
        The learning rates of the last step, for matrices and for the others; 0 before the first.
    """

    count: Tensor
    mu: Pytree
    nu: Pytree
    rate: Tensor
    adam_rate: Tensor


@making
def muon(
    learning_rate: LearningRate,
    ns_coeffs: NsCoefficients = "standard",
    ns_steps: Count = 5,
    beta: Share = 0.95,
    eps: Size = 1e-8,
    weight_decay: Size = 0.0,
    weight_decay_mask: Mask = None,
    *,
    nesterov: bool = True,
    adaptive: bool = False,
    preconditioning: str = "frobenius",
    adam_b1: Share = 0.9,
    adam_b2: Share = 0.999,
    adam_eps_root: Size = 0.0,
    adam_weight_decay: Size = 0.0,
    adam_learning_rate: LearningRate | None = None,
    muon_weight_dimension_numbers: DimensionNumbers = None,
    consistent_rms: Size | None = None,
) -> Optimizer[MuonState]:
    """Muon: step matrices along the orthogonal matrix nearest to their momentum; others by Adam.

    A momentum matrix has few large singular values, so most directions hardly move. Muon makes all
    singular values nearly 1: a step moves a matrix equally in all directions. It trains hidden
    layers of large networks in fewer steps than Adam. Embeddings and the last layer are matrices
    that Adam moves better: name them first, in
    ``partition({"embedding": adamw(rate), "head": adamw(rate), "*": muon(rate)})``.

    Parameters
    ----------
    learning_rate : float, 0-d tensor, or schedule
        See ``sgd``.
    ns_coeffs : {"standard", "dion"}, triple of numbers, or a triple for each step
        The coefficients of the iteration that makes a matrix nearly orthogonal.
    ns_steps : int
        The number of steps of the iteration; several triples say it by their number.
    beta : float or 0-d tensor
        The decay rate of the mean of gradients, below 1.
    eps : float or 0-d tensor
        A number that is added to the norm of the mean, and to Adam's root.
    weight_decay, weight_decay_mask
        See ``adamw``; for matrices.
    nesterov : bool
        Whether to use Nesterov's momentum; Adam is ``nadam`` then.
    adaptive : bool
        Whether to multiply a direction by its scalar product with the mean of gradients, so that
        small gradients make small steps.
    preconditioning : {"frobenius", "spectral", "aol", "schatten"}
        How the mean is scaled before the iteration: by its norm; by its greatest singular value,
        which is exact and slow; row by row (Boissin and others, 2025); or by the norm of its Gram
        matrix (Grishina and others, 2025). The last two spare an iteration.
    adam_b1, adam_b2, adam_eps_root, adam_weight_decay
        Options of ``adamw`` for the other parameters.
    adam_learning_rate : float, 0-d tensor, or schedule, optional
        The rate of the others; ``learning_rate`` by default.
    muon_weight_dimension_numbers : pytree of MuonDimensionNumbers, or function, optional
        How each parameter is a matrix; Adam moves it where there is None. It may be a prefix of the
        tree of parameters, or a function from parameters to one. By default parameters with two
        axes are matrices, (inputs, outputs), and no others.
    consistent_rms : float or 0-d tensor, optional
        The root mean square of all steps; 0.2 makes steps as long as Adam's (Liu and others, 2025).

    Raises
    ------
    ArgumentError
        An option is out of bounds, or not one of these words.
    ShapeError
        A parameter has not the axes that its ``MuonDimensionNumbers`` say.

    Notes
    -----
    With the corrected mean m of the gradients, with Nesterov's momentum as in ``nadam``::

        update = -rate (sqrt(max(1, outputs / inputs)) orthogonal(m) + weight_decay p)

    With ``consistent_rms`` the factor is ``sqrt(max(inputs, outputs)) consistent_rms``. Jordan,
    "Muon: an optimizer for hidden layers in neural networks", 2024, as in optax. PyTorch's ``Muon``
    does not correct the mean, and computes in bfloat16.

    A convolution's kernel is ``MuonDimensionNumbers((1, 2, 3), 0)``, and layers on a first axis are
    ``MuonDimensionNumbers(1, 2)``: each steps by itself, also if ``adaptive``, where optax
    multiplies all by one number. Complex matrices become nearly unitary, and a scalar product is
    its real part; optax's ``"schatten"`` forgets to conjugate.

    Examples
    --------
    >>> from funcgrad.tensor.tensor import tensor
    >>> optimizer = muon(0.1, ns_steps=12, ns_coeffs=(2.0, -1.5, 0.5))
    >>> params = tensor([[3.0, 0.0], [0.0, 0.0], [0.0, 1.0]])
    >>> optimizer.step(params, optimizer.init(params), params)[0].round(3)
    Tensor([[2.9, 0. ],
            [0. , 0. ],
            [0. , 0.9]])
    """
    if ns_steps >= 100:
        raise ArgumentError(f"muon: ns_steps has to be below 100, got {ns_steps}: 5 are usual.")
    if not isinstance(preconditioning, str) or preconditioning not in PRECONDITIONINGS:
        words = ", ".join(map(repr, PRECONDITIONINGS))
        raise ArgumentError(f"muon: preconditioning is one of {words}, got {preconditioning!r}.")
    adams = nadam_direction if nesterov else adam_direction
    coefficients = _coefficients(ns_coeffs, ns_steps)
    rule = _MuonSteps(
        learning_rate=learning_rate,
        adam_rate=adam_learning_rate,
        orthogonal=lambda x: _orthogonalized(x, coefficients, preconditioning, eps),
        momentum=partial(_corrected_mean, beta, nesterov),
        adam=adams(adam_b1, adam_b2, eps, adam_eps_root),
        decays=(weight_decay, adam_weight_decay),
        mask=weight_decay_mask,
        numbers=muon_weight_dimension_numbers,
        is_adaptive=adaptive,
        rms=consistent_rms,
    )
    return Optimizer(rule.init, rule.update)


def _coefficients(users: NsCoefficients, steps: int) -> tuple[Coefficients, ...]:
    """The coefficients of each step of the iteration."""
    triples: tuple[Coefficients, ...] = ()
    table: Any = PRESETS.get(users, ()) if isinstance(users, str) else users
    try:
        rows = [table] if np.ndim(table[0]) == 0 else list(table)
        triples = tuple((a, b, c) for a, b, c in rows)
        shapes = {np.shape(number) for triple in triples for number in triple}
    except (IndexError, KeyError, TypeError, ValueError):
        shapes = set()
    if shapes != {()}:
        words = ", ".join(map(repr, PRESETS))
        raise ArgumentError(
            f"muon: ns_coeffs is one of {words}, three numbers, or three for each step, got"
            f" {users!r}."
        )
    return triples * steps if len(triples) == 1 else triples


def _corrected_mean(
    beta: ArrayLike, is_ahead: bool, n: Tensor
) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """From a gradient and the mean before to the corrected mean, and the mean after."""
    start, ahead = 1 - beta**n, 1 - beta ** (n + 1)

    def of_leaf(g: Tensor, mu: Tensor) -> tuple[Tensor, Tensor]:
        mu = mean(beta, mu, g)
        if not is_ahead:
            return mu / scalar(start, mu), mu
        return mean(beta, mu / scalar(ahead, mu), g / scalar(start, g)), mu

    return of_leaf


class _MatrixAxes(NamedTuple):
    """The axes of a parameter: of a stack of matrices, of their inputs and of their outputs."""

    stack: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    @classmethod
    def of(cls, numbers: MuonDimensionNumbers, ndim: int, place: str) -> _MatrixAxes:
        """Check dimension numbers for a parameter."""
        sides = [side if isinstance(side, tuple) else (side,) for side in numbers]
        named = [axis for side in sides for axis in side]
        if not all(type(axis) is int for axis in named):
            raise DtypeError(f"{place}: an axis is an integer, got {numbers}.")
        inside = [axis % ndim for axis in named if -ndim <= axis < ndim]
        if len(set(inside)) < len(named) or not all(sides):
            raise ShapeError(
                f"{place}: {numbers} does not fit a parameter with {ndim} axes: each side has one"
                " of them or more, and none is on both. Give None for what is no matrix."
            )
        inputs, outputs = (tuple(axis % ndim for axis in side) for side in sides)
        return cls(tuple(sorted(set(range(ndim)) - set(inside))), inputs, outputs)

    def applied(self, f: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        """Apply a function of a stack of matrices to a parameter."""
        order = self.stack + self.inputs + self.outputs
        turned = fnp.transpose(x, order)
        sizes = (self.size(x, self.inputs), self.size(x, self.outputs))
        matrices = fnp.reshape(turned, (*(x.shape[axis] for axis in self.stack), *sizes))
        back = fnp.reshape(f(matrices), turned.shape)
        return fnp.transpose(back, [order.index(axis) for axis in range(x.ndim)])

    def size(self, x: Tensor, axes: tuple[int, ...]) -> int:
        """How many numbers there are along some axes."""
        return prod(x.shape[axis] for axis in axes)


@dataclass(frozen=True, slots=True, eq=False)
class _MuonSteps:
    learning_rate: LearningRate
    adam_rate: LearningRate | None
    orthogonal: Callable[[Tensor], Tensor]
    momentum: Callable[[Tensor], Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]]
    adam: Direction
    decays: tuple[ArrayLike, ArrayLike]
    mask: Mask
    numbers: DimensionNumbers
    is_adaptive: bool
    rms: ArrayLike | None

    def init(self, params: Pytree) -> MuonState:
        structure, leaves = flattened("muon.init", params)
        wide = [widened(leaf) for leaf in leaves]
        nus = _squares(wide, self._axes(params, leaves, structure, "muon.init"))
        mu, nu = unflattened(structure, [[zeros(p) for p in wide], nus])
        return MuonState(tensor(0), mu, nu, tensor(0.0), tensor(0.0))

    def update(self, grads: Pytree, state: MuonState, params: Pytree) -> tuple[Pytree, MuonState]:
        operation = "muon.update"
        check_state(operation, state, MuonState)
        structure, leaves = flattened(operation, params)
        axes = self._axes(params, leaves, structure, operation)
        memory = {"state.mu": state.mu}
        _, _, gs, mus = flattened(operation, params, {"grads": grads}, memory)
        wide = [widened(leaf) for leaf in leaves]
        nus = memories_like(_squares(wide, axes), state.nu, "state.nu", structure, operation)
        decays = chosen(operation, self.mask, params, structure)
        count, rate = state.count + 1, rate_at(self.learning_rate, state.count)
        adam_rate = rate if self.adam_rate is None else rate_at(self.adam_rate, state.count)
        momentum, adam = self.momentum(count), self.adam(Step(count, adam_rate))
        updates: list[Tensor] = []
        rows: list[tuple[Tensor, Memory]] = []
        for g, p, at, mu, nu, decayed in zip(gs, wide, axes, mus, nus, decays, strict=True):
            if at is None:
                direction, *row = adam(g, p, mu, nu)
                direction = direction + scalar(self.decays[1], p) * p
                rows.append((row[0], row[1]))
            else:
                ahead, after = momentum(g, mu)
                direction = self._direction(ahead, at)
                direction = direction + scalar(self.decays[0], p) * p if decayed else direction
                rows.append((after, None))
            updates.append(-scalar(adam_rate if at is None else rate, p) * direction)
        moves, mu, nu = unflattened(
            structure,
            [in_dtypes_of(leaves, updates), [mu for mu, _ in rows], [nu for _, nu in rows]],
        )
        return moves, MuonState(count, mu, nu, recorded(rate), recorded(adam_rate))

    def _direction(self, ahead: Tensor, axes: _MatrixAxes) -> Tensor:
        inputs, outputs = axes.size(ahead, axes.inputs), axes.size(ahead, axes.outputs)
        if self.rms is None:
            factor: ArrayLike = max(1.0, outputs / max(inputs, 1)) ** 0.5
        else:
            factor = max(inputs, outputs) ** 0.5 * self.rms
        turned = axes.applied(self._adapted if self.is_adaptive else self.orthogonal, ahead)
        return turned * scalar(factor, ahead)

    def _adapted(self, ahead: Tensor) -> Tensor:
        turned = self.orthogonal(ahead)
        product = fnp.sum((fnp.conj(ahead) * turned).real, axis=(-2, -1), keepdims=True)
        return product * turned

    def _axes(
        self, params: Pytree, leaves: list[Tensor], structure: Structure, operation: str
    ) -> list[_MatrixAxes | None]:
        """For each parameter, the axes of its matrices; None where Adam moves it."""
        if self.numbers is None:
            return [_MatrixAxes((), (0,), (1,)) if leaf.ndim == 2 else None for leaf in leaves]
        tree = self.numbers(params) if callable(self.numbers) else self.numbers
        name = f"{operation}: muon_weight_dimension_numbers"
        choices = broadcast_prefix(
            tree, structure, name, is_leaf=lambda node: isinstance(node, MuonDimensionNumbers)
        )
        axes: list[_MatrixAxes | None] = []
        for choice, leaf, path in zip(choices, leaves, structure.paths(), strict=True):
            place = f"{name} at params{path}"
            if choice is not None and not isinstance(choice, MuonDimensionNumbers):
                raise DtypeError(
                    f"{place} has to be a MuonDimensionNumbers or None, got {choice!r}."
                )
            axes.append(None if choice is None else _MatrixAxes.of(choice, leaf.ndim, place))
        return axes


def _squares(wide: list[Tensor], axes: Sequence[_MatrixAxes | None]) -> list[Memory]:
    """The first mean squares of the parameters that Adam moves."""
    pairs = zip(wide, axes, strict=True)
    return [zeros(p, real=True) if at is None else None for p, at in pairs]


Coefficients: TypeAlias = tuple[ArrayLike, ArrayLike, ArrayLike]
"""The three numbers of a step: a, b and c."""

PRESETS: Final[Mapping[str, tuple[Coefficients, ...]]] = MappingProxyType(
    {
        "standard": ((3.4445, -4.7750, 2.0315),),
        "dion": (
            (4.0848, -6.8946, 2.9270),
            (3.9505, -6.3029, 2.6377),
            (3.7418, -5.5913, 2.3037),
            (2.8769, -3.1427, 1.2046),
            (2.8366, -3.0525, 1.2012),
        ),
    }
)
"""The coefficients of Jordan, 2024, for every step; and of Ahn and others, 2025, for five steps."""


def _orthogonalized(
    x: Tensor,
    coefficients: tuple[Coefficients, ...],
    preconditioning: str = "frobenius",
    eps: ArrayLike = 1e-8,
) -> Tensor:
    """Replace the singular values of a stack of matrices by numbers near 1.

    A step maps a matrix X with singular values s, in [0, 1], to a matrix with the same singular
    vectors and the values ``a s + b s³ + c s⁵``. The coefficients are such that a few steps bring
    all values near 1, the small ones too: the iteration of Newton and Schulz.

    Parameters
    ----------
    x : Tensor, shape (..., m, n)
    coefficients : tuple of triples of numbers
        The coefficients of each step.
    preconditioning : {"frobenius", "spectral", "aol", "schatten"}
        How matrices are scaled first, so that their singular values are 1 at most.
    eps : number
        A number that is added to the divisor of the scaling, or its least value.

    Examples
    --------
    >>> from funcgrad.tensor.tensor import tensor
    >>> x = _orthogonalized(tensor([[3.0, 0.0], [0.0, 1e-2]]), ((2.0, -1.5, 0.5),) * 12)
    >>> x.round(3)
    Tensor([[1., 0.],
            [0., 1.]])
    """
    is_tall = x.shape[-2] > x.shape[-1]  # products of the shorter side are smaller
    x = fnp.swapaxes(x, -1, -2) if is_tall else x
    x = PRECONDITIONINGS[preconditioning](x, eps)
    for a, b, c in coefficients:
        gram = x @ _adjoint(x)
        x = scalar(a, x) * x + (scalar(b, x) * gram + scalar(c, x) * (gram @ gram)) @ x
    return fnp.swapaxes(x, -1, -2) if is_tall else x


def _adjoint(x: Tensor) -> Tensor:
    return fnp.conj(fnp.swapaxes(x, -1, -2))


def _by_frobenius_norm(x: Tensor, eps: ArrayLike) -> Tensor:
    size = apply(length, x, axis=(x.ndim - 2, x.ndim - 1), keepdims=True)
    return x / (size + scalar(eps, x))


def _by_greatest_singular_value(x: Tensor, eps: ArrayLike) -> Tensor:
    greatest: Tensor = fnp.max(fnp.linalg.svdvals(x), axis=-1, initial=0.0)
    return x / (greatest[..., None, None] + scalar(eps, x))


def _by_rows_of_gram(x: Tensor, eps: ArrayLike) -> Tensor:
    """Each row over the root of the sum of magnitudes in its row of the Gram matrix."""
    total = fnp.sum(abs(x @ _adjoint(x)), axis=-1, keepdims=True)
    return x / fnp.sqrt(fnp.maximum(total, scalar(eps, x)))


def _by_norm_of_gram(x: Tensor, eps: ArrayLike) -> Tensor:
    gram = x @ _adjoint(x)
    size = apply(length, gram, axis=(x.ndim - 2, x.ndim - 1), keepdims=True)
    return x / fnp.sqrt(fnp.maximum(size, scalar(eps, x)))


PRECONDITIONINGS: Final[Mapping[str, Callable[[Tensor, ArrayLike], Tensor]]] = MappingProxyType(
    {
        "frobenius": _by_frobenius_norm,
        "spectral": _by_greatest_singular_value,
        "aol": _by_rows_of_gram,
        "schatten": _by_norm_of_gram,
    }
)
"""By name: the functions that scale matrices first."""

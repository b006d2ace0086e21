"""Small interpreters of declarations, which show that a declaration suffices for a compiler.

The first one interprets structures: it moves and folds single elements. Arrays are lists of NumPy
scalars in C order, with their shapes. None of them uses ``evaluate``.

>>> from funcgrad._core.structure.folds import SUM
>>> folded(SUM, np.dtype(int), ([1, 2, 3, 4],), (2, 2), (1,))
[np.int64(3), np.int64(7)]

The second one compiles formulas: it emits instructions and runs them element by element. It shows
that a formula uses only intrinsics, and does not branch on values.

>>> machine = Machine()
>>> x = machine.register(np.dtype(float))
>>> out = machine.sqrt(x * x + 1)
>>> machine.code
[('__mul__', (r0, r0), 1), ('__add__', (r1, 1), 2), ('sqrt', (r2,), 3)]
>>> machine.run(np.array([0.0, 1.0]))[out.place]
array([1.        , 1.41421356])

The third one factors single matrices in the highest precision. A matrix without factors gives None.

>>> from funcgrad._core.structure.factorizations import Factorization, Factors, FromFactors
>>> form = Factorization(Factors.ELIMINATION, FromFactors.DETERMINANT)
>>> (determinant,) = factored(form, np.array([[2.0, 1.0], [1.0, 3.0]]))
>>> float(determinant.real)
5.0
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core import intrinsics
from funcgrad._core.specs import Shape
from funcgrad._core.structure.factorizations import Factorization, Factors, FromFactors
from funcgrad._core.structure.folds import Fold
from funcgrad._core.structure.index_maps import Places, dense_strides
from funcgrad._core.trace import Raw
from funcgrad.errors import CheckError


def folded(
    fold: Fold, dtype: np.dtype[Any], operands: Sequence[list[Raw]], shape: Shape, axes: Shape
) -> list[Raw]:
    """Fold elements along axes, starting from the identity if there is one.

    Parameters
    ----------
    fold : Fold
    dtype : dtype
        Of the result.
    operands : sequence of list
        The elements of operands of one shape.
    shape : tuple of int
    axes : tuple of int
    """
    states: dict[Shape, Any] = {}
    across = [range(n) for axis, n in enumerate(shape) if axis not in axes]
    for place in product(*across):
        identity = fold.identity
        states[place] = None if identity is None else intrinsics.astype(identity, dtype)[()]
    along = [shape[axis] for axis in axes]
    for number, index in enumerate(product(*map(range, shape))):
        place = tuple([k for axis, k in enumerate(index) if axis not in axes])
        position = _position([index[axis] for axis in axes], along)
        elements = [operand[number] for operand in operands]
        state = fold.of(intrinsics, dtype, np.intp(position), *elements)
        before = states[place]
        states[place] = state if before is None else fold.combine(intrinsics, before, state)
    if any(state is None for state in states.values()):
        raise CheckError("no elements are folded, and the fold has no identity")
    return [fold.element(intrinsics, state) for state in states.values()]


def _position(index: Sequence[int], sizes: Sequence[int]) -> int:
    return sum([k * step for k, step in zip(index, dense_strides(sizes), strict=True)])


def scanned(
    fold: Fold,
    dtype: np.dtype[Any],
    operands: Sequence[list[Raw]],
    shape: Shape,
    axis: int,
    reverse: bool,
) -> list[Raw]:
    """Fold the elements up to each place along an axis; see ``folded``."""
    out: list[Raw] = [None] * prod(shape)
    for lane in _lanes(shape, axis):
        state = None
        for position, number in enumerate(lane[::-1] if reverse else lane):
            elements = [operand[number] for operand in operands]
            here = fold.of(intrinsics, dtype, np.intp(position), *elements)
            state = here if state is None else fold.combine(intrinsics, state, here)
            out[number] = fold.element(intrinsics, state)
    return out


def _lanes(shape: Shape, axis: int) -> Iterator[list[int]]:
    """Yield the flat indices of the elements along an axis, for each position across it."""
    numbers = np.arange(prod(shape)).reshape(shape)
    for lane in np.moveaxis(numbers, axis, -1).reshape(-1, shape[axis] or 1):
        yield lane.tolist()


def gathered(places: Places, operands: Sequence[list[Raw]], zero: Raw) -> list[Raw]:
    """Read elements of the first operand at places; see ``Places``."""
    elements = [places.at(k, _reader(operands)) for k in product(*map(range, places.shape))]
    return [zero if element is None else operands[0][element] for element in elements]


def scattered(
    places: Places,
    fold: Fold | None,
    dtype: np.dtype[Any],
    base: Sequence[Raw],
    updates: Sequence[Raw],
    operands: Sequence[list[Raw]],
) -> list[Raw]:
    """Write updates over the elements of a base, or fold them with the old elements."""
    out = [dtype.type(element) for element in base]
    for update, k in zip(updates, product(*map(range, places.shape)), strict=True):
        element = places.at(k, _reader(operands))
        if element is None:
            continue
        if fold is None:
            out[element] = dtype.type(update)
        else:
            state = fold.of(intrinsics, dtype, element, update)
            out[element] = fold.combine(intrinsics, out[element], state)
    return out


def drawn(
    block: Callable[..., Sequence[Raw]],
    params: Mapping[str, Hashable],
    shape: Shape,
    key: Raw,
    *numbers: Raw,
) -> Raw:
    """Make the random words of a shape; see ``Random``."""
    keys = np.asarray(key)
    if numbers:
        chosen = np.broadcast_to(np.asarray(numbers[0]).astype(np.uint64), shape[:-1])
        keys, count = np.broadcast_to(keys, (*shape[:-1], 2)), shape[-1]
    else:
        count = prod(shape[keys.ndim - 1 :])
        chosen = np.arange(count, dtype=np.uint64)
        keys = keys[..., None, :]
    with np.errstate(over="ignore"):  # words wrap around
        words = block(intrinsics, keys[..., 0], keys[..., 1], chosen, **params)
    stacked = np.stack(np.broadcast_arrays(*words), -1)
    if not numbers:
        stacked = stacked.reshape(*stacked.shape[:-2], -1)
    return stacked[..., :count].reshape(shape)


def _reader(operands: Sequence[list[Raw]]) -> Callable[[int, int], int]:
    return lambda operand, place: int(operands[operand][place])


Operand = Any
"""A register, or a Python number in a formula."""


def _operator(name: str) -> Callable[..., Operand]:
    return lambda self, *others: self.machine.emit(f"__{name}__", (self, *others))


def _swapped(name: str) -> Callable[..., Operand]:
    return lambda self, other: self.machine.emit(f"__{name}__", (other, self))


@dataclass(frozen=True, slots=True, eq=False)
class Register:
    """A value whose dtype is known; it has the operators of formulas."""

    machine: Machine
    place: int
    dtype: np.dtype[Any]

    __hash__ = None  # type: ignore[assignment]  # values must not be put into sets

    __add__, __radd__ = _operator("add"), _swapped("add")
    __sub__, __rsub__ = _operator("sub"), _swapped("sub")
    __mul__, __rmul__ = _operator("mul"), _swapped("mul")
    __truediv__, __rtruediv__ = _operator("truediv"), _swapped("truediv")
    __floordiv__, __rfloordiv__ = _operator("floordiv"), _swapped("floordiv")
    __and__, __rand__ = _operator("and"), _swapped("and")
    __or__, __ror__ = _operator("or"), _swapped("or")
    __xor__, __rxor__ = _operator("xor"), _swapped("xor")
    __pos__, __neg__, __invert__ = _operator("pos"), _operator("neg"), _operator("invert")
    __lt__, __le__ = _operator("lt"), _operator("le")
    __gt__, __ge__ = _operator("gt"), _operator("ge")
    __eq__, __ne__ = _operator("eq"), _operator("ne")
    __rshift__, __lshift__ = _operator("rshift"), _operator("lshift")

    def __repr__(self) -> str:
        return f"r{self.place}"

    def __bool__(self) -> bool:
        raise TypeError("a formula branches on a value: write m.where(condition, x, y) instead")

    def __getattr__(self, name: str) -> Operand:
        raise AttributeError(f"an element has no {name}: write formulas in intrinsics")


class Machine:
    """An algebra like ``funcgrad._core.intrinsics``, whose functions emit instructions.

    Attributes
    ----------
    code : list of (str, tuple, int)
        The intrinsic or the operator, its operands, and the register of its (first) result.
    """

    def __init__(self) -> None:
        """Start without instructions."""
        self.code: list[tuple[str, tuple[Operand, ...], int]] = []
        self._places = 0

    if not TYPE_CHECKING:  # type checkers would accept any name as an intrinsic

        def __getattr__(self, name: str) -> Callable[..., Operand]:
            """Return the intrinsic of a name."""
            if name.startswith("_") or name not in intrinsics.__all__:
                raise AttributeError(f"{name} is not an intrinsic")
            return lambda *args: self.emit(name, args)

    def register(self, dtype: np.dtype[Any]) -> Register:
        """Add a register."""
        self._places += 1
        return Register(self, self._places - 1, dtype)

    def emit(self, name: str, operands: tuple[Operand, ...]) -> Operand:
        """Add an instruction; NumPy's result for ones gives its dtype."""
        examples = [np.ones(1, x.dtype) if type(x) is Register else x for x in operands]
        made = _done(name, examples)
        several = type(made) is tuple
        registers = [self.register(x.dtype) for x in (made if several else (made,))]
        self.code.append((name, operands, registers[0].place))
        return tuple(registers) if several else registers[0]

    def run(self, *inputs: Raw) -> list[Raw]:
        """Run the instructions; return the values of all registers."""
        places = list(inputs)
        for name, operands, _ in self.code:
            values = [places[x.place] if type(x) is Register else x for x in operands]
            made = _done(name, values)
            places += made if type(made) is tuple else [made]
        return places


def _done(name: str, operands: Sequence[Operand]) -> Raw:
    if not name.startswith("__"):
        return getattr(intrinsics, name)(*operands)
    first, *others = operands
    if type(first) in (int, float):  # Python numbers are weak, as in the formula
        return getattr(others[0], f"__r{name.strip('_')}__")(first)
    return getattr(np.asarray(first)[()] if others else first, name)(*others)


Matrix: TypeAlias = np.ndarray[Any, Any]


def factored(form: Factorization, matrix: Matrix, right: Matrix | None = None) -> Any:
    """Compute the results of a factorization of one matrix.

    Parameters
    ----------
    form : Factorization
    matrix : ndarray
        With two axes.
    right : ndarray, optional
        The second operand.

    Returns
    -------
    tuple or None
    """
    a = np.array(matrix, np.clongdouble)
    if form.bands is not None:
        a = _from_bands(a, *form.bands)
    if form.factors is Factors.SQUARE_ROOT:
        return _square_root(a, form.lower)
    if form.factors is Factors.TRIANGLE:
        order, sign = np.arange(len(a)), 1
        a = np.tril(a) if form.lower else np.triu(a)
        if form.unit_diagonal:
            np.fill_diagonal(a, 1)
        lower, upper = (a, np.eye(len(a))) if form.lower else (np.eye(len(a)), a)
    else:
        order, sign, lower, upper = _eliminated(a)
    pivots = np.diagonal(lower) * np.diagonal(upper)
    if not np.all(np.isfinite(pivots) & (pivots != 0)):
        return None
    if form.makes is FromFactors.DETERMINANT:
        return (np.prod(pivots) * sign,)
    if form.makes is FromFactors.LOGARITHM:
        return np.prod(pivots / abs(pivots)) * sign, np.sum(np.log(abs(pivots)))
    if form.makes is FromFactors.INVERSE:
        right = np.eye(len(a))
    assert right is not None
    x = np.array(right[order], np.clongdouble)
    for k in range(len(a)):
        x[k] = (x[k] - lower[k, :k] @ x[:k]) / lower[k, k]
    for k in reversed(range(len(a))):
        x[k] = (x[k] - upper[k, k + 1 :] @ x[k + 1 :]) / upper[k, k]
    return (x,)


def _from_bands(bands: Matrix, lower: int, upper: int) -> Matrix:
    size = bands.shape[-1]
    out = np.zeros((size, size), bands.dtype)
    for i in range(size):
        for j in range(max(i - lower, 0), min(i + upper + 1, size)):
            out[i, j] = bands[upper + i - j, j]
    return out


def _eliminated(a: Matrix) -> tuple[Matrix, int, Matrix, Matrix]:
    """Return the order of the rows, its sign, L and U."""
    size, sign = len(a), 1
    order, upper, lower = np.arange(size), a.copy(), np.eye(size, dtype=a.dtype)
    for k in range(size):
        pivot = k + int(np.argmax(abs(upper[k:, k])))
        if pivot != k:
            sign = -sign
            order[[k, pivot]], upper[[k, pivot]] = order[[pivot, k]], upper[[pivot, k]]
            lower[[k, pivot], :k] = lower[[pivot, k], :k]
        if upper[k, k] != 0:
            lower[k + 1 :, k] = upper[k + 1 :, k] / upper[k, k]
            upper[k + 1 :] -= np.outer(lower[k + 1 :, k], upper[k])
    return order, sign, lower, upper


def _square_root(a: Matrix, reads_lower: bool) -> tuple[Matrix] | None:
    size = len(a)
    a = a if reads_lower else a.conj().T
    lower = np.zeros_like(a)
    for k in range(size):
        square = a[k, k].real - np.vdot(lower[k, :k], lower[k, :k]).real
        if not square > 0:
            return None
        lower[k, k] = np.sqrt(square)
        rows = a[k + 1 :, k] - lower[k + 1 :, :k] @ lower[k, :k].conj()
        lower[k + 1 :, k] = rows / lower[k, k]
    return (lower if reads_lower else lower.conj().T,)

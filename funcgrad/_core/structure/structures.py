"""How the elements of an operation's result come from elements of its operands.

A structure is data. Compilers and planners read it instead of tables of operations: an operation
that declares its structure is costed, fused and planned without another line anywhere.
``funcgrad/_primitives/README.md`` explains how a backend reads each structure.

>>> flip = Movement(lambda result, x: [(result, x[::-1])], is_view=True)
>>> flip.pieces((3,), (3,))
(Piece(operand=0, shape=(3,), start=2, strides=(-1,), to=0, to_strides=(1,)),)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Flag, auto
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.structure.factorizations import Factorization
from funcgrad._core.structure.folds import Algebra as Algebra
from funcgrad._core.structure.folds import Fold
from funcgrad._core.structure.index_maps import Piece, Places, place_of

LETTERS: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""Names of axes in contractions; importing ``string`` takes as long as four of funcgrad's files."""

T = TypeVar("T")


class Trait(Flag):
    """Properties that an operation has for all operands; several are joined by ``|``.

    Attributes
    ----------
    COMMUTATIVE
        f(x, y) has the bits of f(y, x), except where both are complex.
    CONVERTS
        f(x) is x, where the result has the dtype of x.
    EFFECT
        It returns its first operand, and may raise. If that operand is a number that nobody
        follows, a program in which it runs returns no result before it.
    FOREIGN
        It runs a user's Python function, which may do anything: print, or keep its arguments. Such
        operations keep their order.
    JUMPS
        It is not linear, although its factors do not depend on the values, as of a sawtooth.
    OWNS
        ``evaluate`` never returns an operand, a view of one or an array that it keeps, so later
        operations may write into the memory of the result. A ufunc has this trait without saying.
    PRODUCT
        f(x, y) is the product of x and y, and f(x) that of x and x, except for booleans.
    ROUNDED_ONCE
        Each element is the exact result, rounded, so every processor gives the same one.
    TRANSCENDENTAL
        An exponential, a logarithm, an angle or the like, which is slow.
    UNEVEN
        The last bits of an element, or the sign of a zero, depend on where in an array it stands.
    WRITES_INTO
        ``evaluate`` takes one more argument, the last: an array to write the result into.
    """

    NONE = 0
    COMMUTATIVE = auto()
    CONVERTS = auto()
    EFFECT = auto()
    FOREIGN = auto()
    JUMPS = auto()
    OWNS = auto()
    PRODUCT = auto()
    ROUNDED_ONCE = auto()
    TRANSCENDENTAL = auto()
    UNEVEN = auto()
    WRITES_INTO = auto()


COMMUTATIVE: Final = Trait.COMMUTATIVE
CONVERTS: Final = Trait.CONVERTS
EFFECT: Final = Trait.EFFECT
FOREIGN: Final = Trait.FOREIGN
JUMPS: Final = Trait.JUMPS
OWNS: Final = Trait.OWNS
PRODUCT: Final = Trait.PRODUCT
ROUNDED_ONCE: Final = Trait.ROUNDED_ONCE
TRANSCENDENTAL: Final = Trait.TRANSCENDENTAL
UNEVEN: Final = Trait.UNEVEN
WRITES_INTO: Final = Trait.WRITES_INTO


@dataclass(frozen=True, slots=True)
class Elementwise:
    """Each element comes from the elements at the same place, after broadcasting.

    Attributes
    ----------
    formula : callable, optional
        ``(m, *operands, **params)`` to the element, written in the intrinsics of an algebra ``m``,
        see ``funcgrad._core.intrinsics``. None where only SciPy can evaluate the operation.
    is_view : bool
        Whether the result lies in the memory of the operand, and nothing is computed.
    ulps : int
        By how many units in the last place the formula may differ from ``evaluate``, where that is
        a function of NumPy's; 0 means that the bits are equal. For two operands, which may cancel,
        units are those of the greatest of the operands and the element.
    basic : bool
        Whether algebras have the operation itself, as an intrinsic or one of Python's operators, so
        that it is not taken apart.
    """

    formula: Callable[..., Any] | None = None
    is_view: bool = False
    ulps: int = 0
    basic: bool = False


@dataclass(frozen=True, slots=True)
class Reduction:
    """Each element comes from all elements along the parameter ``axis``, a tuple of axes.

    Attributes
    ----------
    fold : Fold, optional
        How elements become one, in C order. None where the operation has a ``body``, or neither.
    """

    fold: Fold | None = None


@dataclass(frozen=True, slots=True)
class Scan:
    """Each element comes from the elements up to its place along the parameter ``axis``.

    Where the operation has a parameter ``reverse`` that is true, the scan begins at the end.

    Attributes
    ----------
    fold : Fold
        How elements become one. It reads an element of each operand; all have one shape.
    """

    fold: Fold


@dataclass(frozen=True, slots=True)
class Movement:
    """Elements of the operands move as an index map says; a place that gets no element is zero.

    Attributes
    ----------
    windows : callable
        The index map: ``(result, *operands, **params)`` to pairs ``(part of the result, part of an
        operand)``, both views of the arguments. The elements of the latter, broadcast to the shape
        of the former, move there. The function reads no elements.
    is_view : bool
        Whether the result lies in the memory of its operand, where NumPy can do that.
    adds : bool
        Whether elements from all operands but the first are added at their places, which begin with
        zero. Otherwise no two elements come to one place.
    rows_last : callable, optional
        ``(*shapes, **params)`` to the parameters of the same movement with axis 0 of the result
        behind its other axes; None where the movement differs from place to place along axis 0.
        Operands whose axis 0 has the size of the result's then come with axis 0 behind the others,
        too; other operands, which are the same for each place, with an axis of size 1 there.
    """

    windows: Callable[..., Iterable[tuple[Any, Any]]]
    is_view: bool = False
    adds: bool = False
    rows_last: Callable[..., Mapping[str, Any] | None] | None = None

    def pieces(
        self, result: Sequence[int], *operands: Sequence[int], **params: Any
    ) -> tuple[Piece, ...] | None:
        """Return the index map as numbers, for arrays of some shapes.

        Returns
        -------
        tuple of Piece or None
            Pieces without elements are left out. None where a window is no view for these
            parameters, so that there is no map.
        """
        out, *arrays = [np.empty(shape, np.bool_) for shape in (result, *operands)]
        owners = {id(x): k for k, x in enumerate(arrays)}
        pieces = []
        for target, source in self.windows(out, *arrays, **params):
            operand = owners.get(id(source), owners.get(id(source.base)))
            if operand is None or not (target is out or target.base is out):
                return None
            shape = target.shape
            if 0 not in shape:
                start, strides = place_of(source, arrays[operand])
                to, to_strides = place_of(target, out)
                strides = (*(0,) * (len(shape) - len(strides)), *strides)
                pieces.append(Piece(operand, shape, start, strides, to, to_strides))
        return tuple(pieces)


@dataclass(frozen=True, slots=True)
class Contraction:
    """Products of elements of two operands, summed over the axes that the result does not have.

    Attributes
    ----------
    letters : callable
        ``(*specs, **params)`` to the axes of both operands and of the result, as ``einsum`` has
        them: a letter for each axis.
    """

    letters: Callable[..., tuple[str, str, str]]


@dataclass(frozen=True, slots=True)
class Gather:
    """Each element is that of the first operand at a place that the other operands choose.

    Attributes
    ----------
    places : callable
        ``(*shapes, **params)``, of all operands, to the ``Places`` in the first one; the result has
        their shape.
    """

    places: Callable[..., Places]


@dataclass(frozen=True, slots=True)
class Scatter:
    """Elements of an operand, the updates, go to places of the result.

    Elsewhere the result has the elements of the first operand, or zeros if the first operand is the
    updates. The updates are taken in C order.

    Attributes
    ----------
    places : callable
        ``(*shapes, **params)``, of all operands, to the ``Places`` in the result; the updates have
        their shape.
    updates : int
        The position of the operand that is the updates.
    fold : Fold, optional
        How an update and the element that is already at its place become one; without a fold the
        last update stays.
    """

    places: Callable[..., Places]
    updates: int = 1
    fold: Fold | None = None


@dataclass(frozen=True, slots=True)
class Random:
    """Random words, in *blocks* that are computed from a key and a number.

    Attributes
    ----------
    block : callable, optional
        ``(m, first, second, number, **params)`` to the words of a block, of the dtype uint64, from
        the two words of a key, along the last axis of the first operand, and the number of the
        block, which is of that dtype as well. With one operand, blocks 0, 1, 2 and so on follow one
        another along the axes of the result behind those of the keys. With two operands, which
        broadcast, the numbers are the elements of the second one, and the last axis of the result
        has the first words of a block. None where only ``evaluate`` makes the words.
    """

    block: Callable[..., Any] | None = None


class Loop(NamedTuple):
    """A program that runs again and again, each time on the carry that it returned before.

    The operands are the values that all steps share, then the first carry, then arrays. The body
    takes the shared values, the carry, and a slice of each array along axis 0; a slice that is weak
    in the body is a Python number. It returns the next carry, and then values that are stacked
    along axis 0. The results of the loop are the last carry and the stacks.

    >>> Loop(body=None, shared=1, carried=2).parts("wabx")
    ('w', 'ab', 'x')

    Attributes
    ----------
    body : Program
    shared, carried : int
        The number of operands of these kinds.
    length : int or None
        The number of steps. None where ``condition`` decides, or, without a condition, where the
        loop goes through as many slices as its arrays have. Stacks then have as many rows as there
        were steps, whatever their specs say.
    condition : Program or None
        From the shared values and the carry to one truth value. Such a loop has no slices.
    reverse : bool
        Whether the first step has the last slice, of operands and of stacks.
    unroll : int
        How many steps a compiler may write out; it changes no result.
    checkpoints : int or None
        About how many states reverse mode holds at once where there is a condition; None for all.
    """

    body: Any
    shared: int
    carried: int
    length: int | None = None
    condition: Any = None
    reverse: bool = False
    unroll: int = 1
    checkpoints: int | None = None

    def parts(self, entries: Sequence[T]) -> tuple[Sequence[T], Sequence[T], Sequence[T]]:
        """Split a sequence with an entry for each operand into shared, carried and arrays."""
        stop = self.shared + self.carried
        return entries[: self.shared], entries[self.shared : stop], entries[stop:]

    def params(self) -> dict[str, Any]:
        """Return the parameters of an equation: the fields that differ from their defaults."""
        defaults = self._field_defaults
        return {
            name: value
            for name, value in self._asdict().items()
            if name not in defaults or value != defaults[name]
        }


class Choice(NamedTuple):
    """One of several programs; the first operand is its number.

    The other operands are the inputs of the program. The first program runs where the number is
    negative, and the last one where it is too large.

    Attributes
    ----------
    branches : sequence of Program
    """

    branches: Sequence[Any]


@dataclass(frozen=True, slots=True)
class Control:
    """The result of running programs, which are parameters: loops, choices and calls.

    Attributes
    ----------
    runs : callable
        ``(**params)`` to the programs, each with how often it runs; None where that is not known.
    inlines : bool
        Whether the operation is a call: it runs its one program once, on its operands, so that the
        program's equations may take its place.
    leaner : callable, optional
        ``(read, **params)`` to the same operation, reduced to what the read results need: its
        parameters, and the positions of its operands and results among those of the original. None
        where nothing can be dropped.
    form : callable, optional
        ``(**params)`` to the ``Loop`` or ``Choice`` that the operation is, if it is exactly that,
        so that a compiler can write it with the programs inside. Or to a program of the operands,
        whose operations have a form and whose last outputs are the results; its first outputs are
        the results of the operation that ``begins`` names, if any. None where the operation has no
        form with these parameters.
    begins : callable, optional
        ``(**params)`` to the operation that this one begins with, its parameters, and the number of
        first operands that it takes: a compiler runs it once for both.
    """

    runs: Callable[..., Sequence[tuple[Any, int | None]]]
    inlines: bool = False
    form: Callable[..., Any] | None = None
    leaner: Callable[..., tuple[Mapping[str, Any], list[int], list[int]] | None] | None = None
    begins: Callable[..., tuple[Any, Mapping[str, Any], int]] | None = None


class AlongAxis(NamedTuple):
    """A loop of NumPy's over the lines of an array along an axis, each of which gives a line.

    Attributes
    ----------
    ufunc : ufunc
        A generalized one with the signature ``(n),()->(m)``.
    axis : int
        That of the operand, and of the result.
    number : number
        Its second operand.
    """

    ufunc: np.ufunc
    axis: int
    number: Any


@dataclass(frozen=True, slots=True)
class Opaque:
    """Anything else: an operation that only ``evaluate`` computes.

    Attributes
    ----------
    counted : int, optional
        The operand for each of whose elements the cost is one operation; None if not known.
    cores : tuple of int
        How many trailing axes of each operand make an example. The axes before them are those of a
        stack; they broadcast, and are the first axes of each result. The result at a place of the
        stack depends on the operands' examples at that place alone. Empty where not declared.
    along : callable, optional
        ``(shape, dtype, **params)``, of the operand, to the ``AlongAxis`` that computes the
        operation; None where NumPy has none.
    """

    counted: int | None = None
    cores: tuple[int, ...] = ()
    along: Callable[..., AlongAxis | None] | None = None


@dataclass(frozen=True, slots=True)
class Factored:
    """Results of triangular factors of matrices: solutions, inverses, determinants, the factors.

    The first operand is the matrices. Where these have no such factors, since a pivot is zero or
    not positive, and where numbers are not finite, ``evaluate`` says what the result is.

    Attributes
    ----------
    factorization : callable
        ``(**params)`` to the ``Factorization``.
    cores : tuple of int
        See ``Opaque``.
    """

    factorization: Callable[..., Factorization]
    cores: tuple[int, ...]


OPAQUE: Final = Opaque()

Structure: TypeAlias = (
    Elementwise
    | Reduction
    | Scan
    | Movement
    | Contraction
    | Gather
    | Scatter
    | Random
    | Control
    | Factored
    | Opaque
)

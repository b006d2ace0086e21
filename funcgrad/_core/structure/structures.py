"""Structures: how the elements of an operation's result depend on elements of its operands.

A structure is data. Compilers and planners read it instead of tables of operations: an operation
that declares its structure is costed, fused and planned without further code.
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
from funcgrad._core.structure.opaque_forms import AlongAxis as AlongAxis
from funcgrad._core.structure.opaque_forms import Ordering as Ordering
from funcgrad._core.structure.opaque_forms import RowProducts as RowProducts
from funcgrad._core.structure.opaque_forms import WindowProducts as WindowProducts

LETTERS: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""Names of axes in contractions; importing ``string`` is slow."""

T = TypeVar("T")


class Trait(Flag):
    """Properties of an operation for all operands; several are joined by ``|``.

    Attributes
    ----------
    COMMUTATIVE
        f(x, y) equals f(y, x) bit for bit, unless both are complex.
    CONVERTS
        f(x) is x if the result has the dtype of x.
    EFFECT
        It returns its first operand, and may raise an error. If that operand is an untraced value,
        the operation runs before the program returns any result.
    FOREIGN
        It runs a user's Python function, which may have side effects, such as printing or storing
        its arguments. Such operations keep their order.
    JUMPS
        It is not linear, although its factors do not depend on the values, like a sawtooth.
    OWNS
        ``evaluate`` never returns an operand, a view of one or an array that it keeps, so later
        operations may write into the memory of the result. A ufunc has this trait without saying.
    PRODUCT
        f(x, y) is the product of x and y, and f(x) is x * x, except for booleans.
    ROUNDED_ONCE
        Each element is the correctly rounded exact result, so it is the same on every processor.
    TRANSCENDENTAL
        It is slow: an exponential, a logarithm, an angle or the like.
    UNEVEN
        The last bits of an element, or the sign of a zero, depend on its position in the array.
    WRITES_INTO
        ``evaluate`` takes one more argument, the last: an array for the result.
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
    """Each element depends on the elements at the same place, after broadcasting.

    Attributes
    ----------
    formula : callable, optional
        ``(m, *operands, **params)`` to the element, written in the intrinsics of an algebra ``m``,
        see ``funcgrad._core.intrinsics``. None if only SciPy can evaluate the operation.
    is_view : bool
        Whether the result is a view of the operand, and nothing is computed.
    ulps : int
        The number of units in the last place by which the formula may differ from ``evaluate``, if
        that is a NumPy function; 0 means equal bits. For two operands, which may cancel, the unit
        is taken from the greatest of the operands and the element.
    basic : bool
        Whether algebras have the operation itself, as an intrinsic or a Python operator, so that it
        is not decomposed.
    ufunc : str
        The module and the name of the ufunc that ``evaluate`` calls, as "scipy.special:gammaln".
    """

    formula: Callable[..., Any] | None = None
    is_view: bool = False
    ulps: int = 0
    basic: bool = False
    ufunc: str = ""


@dataclass(frozen=True, slots=True)
class Reduction:
    """Each element depends on all elements along the parameter ``axis``, a tuple of axes.

    Attributes
    ----------
    fold : Fold, optional
        How elements are combined, in C order. None for operations with a ``body``, or without both.
    """

    fold: Fold | None = None


@dataclass(frozen=True, slots=True)
class Scan:
    """Each element depends on the elements up to its place along the parameter ``axis``.

    If the operation has a parameter ``reverse`` that is true, the scan begins at the end.

    Attributes
    ----------
    fold : Fold
        How elements are combined. It reads an element of each operand; all have one shape.
    """

    fold: Fold


@dataclass(frozen=True, slots=True)
class Movement:
    """Elements of the operands move by an index map; places without an element are zero.

    Attributes
    ----------
    windows : callable
        The index map: ``(result, *operands, **params)`` to pairs ``(part of the result, part of an
        operand)``, both views of the arguments. The part of the operand is broadcast and copied to
        the part of the result. The function reads no elements.
    is_view : bool
        Whether the result is a view of its operand, if NumPy can make one.
    adds : bool
        Whether elements from all operands but the first are added at their places, which start with
        zero. Otherwise every place gets at most one element.
    rows_last : callable, optional
        ``(*shapes, **params)`` to the parameters of the same movement with axis 0 of the result
        moved to the end; None if the movement differs along axis 0. Operands whose axis 0 has the
        size of the result's are given with axis 0 at the end, too; other operands, which are the
        same for each place, get an axis of size 1 there.
    """

    windows: Callable[..., Iterable[tuple[Any, Any]]]
    is_view: bool = False
    adds: bool = False
    rows_last: Callable[..., Mapping[str, Any] | None] | None = None

    def pieces(
        self, result: Sequence[int], *operands: Sequence[int], **params: Any
    ) -> tuple[Piece, ...] | None:
        """Return the index map as integers, for arrays of given shapes.

        Returns
        -------
        tuple of Piece or None
            Pieces without elements are omitted. None if a window is not a view for these
            parameters.
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
    """Products of elements of two operands, summed over the axes that the result lacks.

    Attributes
    ----------
    letters : callable
        ``(*specs, **params)`` to the axes of both operands and of the result, with a letter for
        each axis, as in ``einsum``.
    """

    letters: Callable[..., tuple[str, str, str]]


@dataclass(frozen=True, slots=True)
class Gather:
    """Each element is an element of the first operand, at a place selected by the other operands.

    Attributes
    ----------
    places : callable
        ``(*shapes, **params)`` of all operands to the ``Places`` in the first operand; the result
        has their shape.
    """

    places: Callable[..., Places]


@dataclass(frozen=True, slots=True)
class Scatter:
    """Elements of an operand, the updates, go to places of the result.

    Elsewhere the result has the elements of the first operand, or zeros if the first operand holds
    the updates. Updates are applied in C order.

    Attributes
    ----------
    places : callable
        ``(*shapes, **params)`` of all operands to the ``Places`` in the result; the updates have
        their shape.
    updates : int
        The position of the operand that holds the updates.
    fold : Fold, optional
        How an update is combined with the element at its place; without a fold the last update
        wins.
    """

    places: Callable[..., Places]
    updates: int = 1
    fold: Fold | None = None


@dataclass(frozen=True, slots=True)
class Random:
    """Random words, in *blocks* that are computed from a key and a block number.

    Attributes
    ----------
    block : callable, optional
        ``(m, first, second, number, **params)`` to the words of a block. All are of dtype uint64:
        ``first`` and ``second`` are the words of a key, on the last axis of the first operand, and
        ``number`` is the block number. With one operand, blocks 0, 1, 2 and so on follow along the
        axes of the result after the axes of the keys. With two operands, which broadcast, the block
        numbers are the elements of the second operand, and the last axis of the result has the
        first words of a block. None if only ``evaluate`` makes the words.
    """

    block: Callable[..., Any] | None = None


class Loop(NamedTuple):
    """A program that runs repeatedly, each time on the carry that it returned before.

    The operands are the values shared by all steps, then the first carry, then arrays. The body
    takes the shared values, the carry, and a slice of each array along axis 0; a slice that is weak
    in the body is a Python number. It returns the next carry, and then values to stack along axis
    0. The results of the loop are the last carry and the stacks.

    >>> Loop(body=None, shared=1, carried=2).parts("wabx")
    ('w', 'ab', 'x')

    Attributes
    ----------
    body : Program
    shared, carried : int
        The numbers of shared and of carried operands.
    length : int or None
        The number of steps. None if ``condition`` decides, or if the loop takes a step for each
        slice of its arrays. Then stacks have as many rows as there were steps, whatever their specs
        say.
    condition : Program or None
        From the shared values and the carry to one boolean. Such a loop has no slices.
    reverse : bool
        Whether the first step takes the last slice of operands and stacks.
    unroll : int
        How many steps a compiler may unroll, without an effect on results.
    checkpoints : int or None
        The approximate number of states that reverse mode stores for a loop with a condition; None
        for all.
    examples : bool
        Whether each step is one example of a batch, which reads no result of another: such a loop
        carries nothing. Where that is faster, several steps are run as one, by
        ``Control.together``.
    replayed : bool
        Whether a loop with a condition runs again: both runs have to round alike.
    """

    body: Any
    shared: int
    carried: int
    length: int | None = None
    condition: Any = None
    reverse: bool = False
    unroll: int = 1
    checkpoints: int | None = None
    examples: bool = False
    replayed: bool = False

    def parts(self, entries: Sequence[T]) -> tuple[Sequence[T], Sequence[T], Sequence[T]]:
        """Split a sequence with an entry for each operand into shared, carried and array parts."""
        stop = self.shared + self.carried
        return entries[: self.shared], entries[self.shared : stop], entries[stop:]

    def params(self) -> dict[str, Any]:
        """Return the parameters of an equation: the fields that differ from their defaults."""
        fields, defaults = self._asdict().items(), self._field_defaults
        return {k: value for k, value in fields if k not in defaults or value != defaults[k]}


class Choice(NamedTuple):
    """One of several programs, selected by the first operand.

    The other operands are the inputs of the program. The first program runs if the index is
    negative, and the last one if it is too large.

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
        ``(**params)`` to the programs, each with the number of its runs, or None if unknown.
    inlines : bool
        Whether the operation is a call: it runs its one program once, on its operands, so that the
        program's equations may replace it.
    leaner : callable, optional
        ``(read, **params)`` to the same operation, reduced to the needs of the results that are
        read: its parameters, and the positions of its operands and results in the original. None if
        nothing can be dropped.
    form : callable, optional
        ``(**params)`` to a ``Loop`` or ``Choice`` equivalent to the operation, so that a compiler
        can write it with the programs inside. Or to a program of the operands, whose operations
        have a form and whose last outputs are the results; its first outputs are the results of the
        operation that ``begins`` names, if any. None if the operation has no form with these
        parameters.
    begins : callable, optional
        ``(**params)`` to the operation with which this one begins, its parameters, and the number
        of first operands that it takes: a compiler runs it once for both.
    together : callable, optional
        ``(size, **params)`` to a program for so many steps of a loop over examples. It takes the
        shared operands, and arrays of ``size`` examples, and returns arrays of ``size`` results.
    replayed : callable, optional
        ``(**params)`` to the parameters where it will run again; see ``Loop.replayed``.
    """

    runs: Callable[..., Sequence[tuple[Any, int | None]]]
    inlines: bool = False
    form: Callable[..., Any] | None = None
    leaner: Callable[..., tuple[Mapping[str, Any], list[int], list[int]] | None] | None = None
    begins: Callable[..., tuple[Any, Mapping[str, Any], int]] | None = None
    together: Callable[..., Any] | None = None
    replayed: Callable[..., Mapping[str, Any]] | None = None


@dataclass(frozen=True, slots=True)
class Opaque:
    """Any other operation: only ``evaluate`` computes it.

    Attributes
    ----------
    counted : int, optional
        The operand whose number of elements is the cost; None if unknown.
    cores : tuple of int
        The number of trailing axes of each operand that form an example. The axes before them are
        axes of a stack; they broadcast, and are the first axes of each result. The result at a
        place of the stack depends only on the operands' examples at that place. Empty if not
        declared.
    along : callable, optional
        ``(shape, dtype, **params)`` of the operand to the ``AlongAxis`` that computes the
        operation, or None.
    letters : callable, optional
        ``(*shapes, **params)`` of the operands to the axes of each operand and of the result, with
        a letter for each axis: elements depend on elements with the same index along each axis
        whose letter they share, see ``mixing``.
    terms : callable, optional
        ``(*shapes, **params)`` of the operands to the terms of a result that is a sum of products
        of one element of each operand: for each term the place in the result, and in each operand,
        as flat indices; or None where that is too long a list. ``windows`` and ``rows`` tell it as
        well.
    windows : callable, optional
        ``(**params)`` to the ``WindowProducts`` that the operation adds.
    rows : callable, optional
        ``(**params)`` to the ``RowProducts`` that the operation adds.
    orders : callable, optional
        ``(**params)`` to the ``Ordering`` that is the result.
    keeps_finite : bool
        Whether the result is the first operand, if all elements of that are finite.
    exact_body : bool
        Whether the body of real operands has the bits of ``evaluate``.
    arrays : callable, optional
        ``(m, *operands, **params)`` to the result, or a tuple of results, and to flags, or None:
        the operation in functions that ``m`` has under NumPy's names, as ``jax.numpy`` does. Where
        a flag of an example is set, ``evaluate`` raises an error, or has NaN. Operands are not
        empty, and float or complex. The parameter ``failed`` is left out.
    """

    counted: int | None = None
    cores: tuple[int, ...] = ()
    along: Callable[..., AlongAxis | None] | None = None
    letters: Callable[..., Sequence[str]] | None = None
    terms: Callable[..., Sequence[np.ndarray[Any, Any]] | None] | None = None
    windows: Callable[..., WindowProducts] | None = None
    rows: Callable[..., RowProducts] | None = None
    orders: Callable[..., Ordering] | None = None
    keeps_finite: bool = False
    exact_body: bool = False
    arrays: Callable[..., tuple[Any, Any]] | None = None


@dataclass(frozen=True, slots=True)
class Factored:
    """Results of triangular factors of matrices: solutions, inverses, determinants, the factors.

    The first operand holds the matrices. If a pivot is zero or not positive, ``evaluate``
    determines the result, or the error. If elements are not finite, results are LAPACK's.

    Attributes
    ----------
    factorization : callable
        ``(**params)`` to the ``Factorization``.
    cores : tuple of int
        See ``Opaque``.
    """

    factorization: Callable[..., Factorization]
    cores: tuple[int, ...]


def mixing(shape: Sequence[int], axes: Sequence[int]) -> tuple[str, str]:
    """Name the axes of an operand, and of a result of its rank that mixes elements along some axes.

    >>> mixing((2, 3, 4), (1,))
    ('abc', 'aBc')
    """
    count = len(shape)
    mixed = {axis % count for axis in axes}
    before = LETTERS[:count]
    return before, "".join([c.upper() if k in mixed else c for k, c in enumerate(before)])


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

"""How the elements of an operation's result come from elements of its operands.

A structure is data. Compilers and planners read it in the place of tables of operations: an
operation that declares its structure is costed, fused and planned without another line anywhere.
How a backend reads each of them is a page of ``funcgrad/primitives/README.md``.

>>> flip = Movement(lambda result, x: [(result, x[::-1])], is_view=True)
>>> flip.pieces((3,), (3,))
(Piece(operand=0, shape=(3,), start=2, strides=(-1,), to=0, to_strides=(1,)),)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Flag, auto
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import numpy as np

from funcgrad.folds import Algebra as Algebra
from funcgrad.folds import Fold
from funcgrad.places import Piece, Places, place_of
from funcgrad.quick_dataclasses import dataclass

LETTERS: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""Names of axes in contractions; loading the module ``string`` takes as long as four files here."""

T = TypeVar("T")


class Trait(Flag):
    """Properties that an operation has for all operands; several are joined by ``|``.

    Attributes
    ----------
    COMMUTATIVE
        f(x, y) has the bits of f(y, x), but where both are complex.
    CONVERTS
        f(x) is x, where it has the dtype of x.
    FOREIGN
        It runs a Python function of a user's, of which nobody knows what it does: it may print, and
        keep what it is called with. Such operations keep their order.
    IDEMPOTENT
        f(x, x) is x, where it has the dtype of x.
    JUMPS
        It is not linear, although its factors do not depend on the values: a sawtooth.
    PRODUCT
        f(x, y) is the product of x and y, and f(x) that of x and x, but of booleans.
    ROUNDED_ONCE
        Each element is the true result, rounded, so that no processor has another.
    TRANSCENDENTAL
        An exponential, a logarithm, an angle or the like, which is slow.
    UNEVEN
        The last bits of an element, or the sign of a zero, depend on where in an array it stands.
    WRITES_INTO
        After its arguments ``evaluate`` takes an array to put the result in.
    """

    NONE = 0
    COMMUTATIVE = auto()
    CONVERTS = auto()
    FOREIGN = auto()
    IDEMPOTENT = auto()
    JUMPS = auto()
    PRODUCT = auto()
    ROUNDED_ONCE = auto()
    TRANSCENDENTAL = auto()
    UNEVEN = auto()
    WRITES_INTO = auto()


COMMUTATIVE: Final = Trait.COMMUTATIVE
CONVERTS: Final = Trait.CONVERTS
FOREIGN: Final = Trait.FOREIGN
IDEMPOTENT: Final = Trait.IDEMPOTENT
JUMPS: Final = Trait.JUMPS
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
        see ``funcgrad.intrinsics``. None where nobody but SciPy can tell.
    owns : bool
        Whether ``evaluate`` never returns an operand, a view of one or an array that it keeps, so
        that what follows may be computed in the memory of the result. All structures have this
        field; of a ufunc nobody needs to say it.
    is_view : bool
        Whether the result lies in the memory of the operand, and nothing is computed.
    ulps : int
        By how many units in the last place the formula may differ from ``evaluate``, where that is
        NumPy's own; 0: not by a bit. Of two operands, which may cancel, units of the greatest of
        them and the element.
    basic : bool
        Whether algebras have it, as an intrinsic or an operator of Python's, so that nobody takes
        it apart.
    """

    formula: Callable[..., Any] | None = None
    owns: bool = False
    is_view: bool = False
    ulps: int = 0
    basic: bool = False


@dataclass(frozen=True, slots=True)
class Reduction:
    """Each element comes from all elements along the parameter ``axis``, a tuple of axes.

    Attributes
    ----------
    fold : Fold, optional
        How they become one, in C order. None where a ``body`` says it, or nobody.
    """

    fold: Fold | None = None
    owns: bool = False


@dataclass(frozen=True, slots=True)
class Scan:
    """Each element comes from those up to its place along the parameter ``axis``.

    Where the operation has a parameter ``reverse`` that is true, it begins with the last ones.

    Attributes
    ----------
    fold : Fold
        How elements become one; of all operands, which have one shape.
    """

    fold: Fold
    owns: bool = False


@dataclass(frozen=True, slots=True)
class Movement:
    """Elements of the operands go where an index map says; wherever none comes to is zero.

    Attributes
    ----------
    windows : callable
        The index map: ``(result, *operands, **params)`` to pairs ``(part of the result, part of an
        operand)``, both views of the arrays given. The elements of the one, broadcast to the shape
        of the other, go there. It reads no elements.
    is_view : bool
        Whether the result lies in the memory of its operand, where NumPy can do that.
    adds : bool
        Whether elements from all operands but the first are added at their places, which begin with
        zero. Otherwise no two elements come to one place.
    rows_last : callable, optional
        How it is done with axis 0 of the result behind the others: ``(*shapes, **params)`` to
        parameters, None where it does something else for each place along axis 0. Operands come
        with their axis 0 behind the others then, too, if it has the size of the result's; others,
        which are the same for each place, with an axis of size 1 there.
    """

    windows: Callable[..., Iterable[tuple[Any, Any]]]
    is_view: bool = False
    adds: bool = False
    rows_last: Callable[..., Mapping[str, Any] | None] | None = None
    owns: bool = False

    def pieces(
        self, result: Sequence[int], *operands: Sequence[int], **params: Any
    ) -> tuple[Piece, ...] | None:
        """The index map as numbers, for arrays of some shapes.

        Returns
        -------
        tuple of Piece or None
            Those of no elements are left out. None where there is no map for these parameters,
            since a window is no view.
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
    owns: bool = False


@dataclass(frozen=True, slots=True)
class Gather:
    """Each element is the first operand's at a place that the other operands say.

    Attributes
    ----------
    places : callable
        ``(*shapes, **params)``, of all operands, to the ``Places`` in the first one; the result has
        their shape.
    """

    places: Callable[..., Places]
    owns: bool = False


@dataclass(frozen=True, slots=True)
class Scatter:
    """Elements of an operand, the updates, go to places of the result.

    Elsewhere it has the elements of the first operand, or zeros if the first operand is these. They
    are taken in C order.

    Attributes
    ----------
    places : callable
        ``(*shapes, **params)``, of all operands, to the ``Places`` in the result; the updates have
        their shape.
    updates : int
        Which operand's elements go there.
    fold : Fold, optional
        How elements that come to one place become one with the element that is there; without it
        the last one stays.
    """

    places: Callable[..., Places]
    updates: int = 1
    fold: Fold | None = None
    owns: bool = False


@dataclass(frozen=True, slots=True)
class Random:
    """Bits, computed from a key and a place."""

    owns: bool = False


class Loop(NamedTuple):
    """A program that runs again and again, each time on what it gave the time before.

    The operands are first those that all steps share, then those carried from step to step, then
    arrays, of which each step reads its slice along axis 0; these are the body's inputs. The body
    gives the next carry, and then what is stacked along axis 0; the results are the last carry and
    the stacks.

    >>> Loop(body=None, shared=1, carried=2).parts("wabx")
    ('w', 'ab', 'x')

    Attributes
    ----------
    body : Program
    shared, carried : int
        How many operands of these kinds there are.
    length : int or None
        How many steps; None where ``condition`` says whether there is another, and where there is
        none, for as many steps as arrays have slices. Stacks have then as many, whatever the spec.
    condition : Program or None
        Of what is shared and carried to one truth value. Such a loop has no slices.
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
        """Split a sequence with an entry for each operand: shared, carried and arrays."""
        stop = self.shared + self.carried
        return entries[: self.shared], entries[self.shared : stop], entries[stop:]

    def params(self) -> dict[str, Any]:
        """The parameters of an equation, which are the fields that differ from their defaults."""
        defaults = self._field_defaults
        return {
            name: value
            for name, value in self._asdict().items()
            if name not in defaults or value != defaults[name]
        }


class Choice(NamedTuple):
    """One of several programs, which the first operand names by its number.

    The other operands are the inputs of the program. The first program runs where the number is
    negative, and the last one where it is too large.

    Attributes
    ----------
    branches : sequence of Program
    """

    branches: Sequence[Any]


@dataclass(frozen=True, slots=True)
class Control:
    """Programs that are run, which are parameters: loops, branches and calls.

    Attributes
    ----------
    runs : callable
        ``(**params)`` to the programs, each with how often it runs; None where nobody can tell.
    inlines : bool
        Whether the operation is a call: it does what its one program does, of its operands, once,
        so that the program's equations may stand in its place.
    leaner : callable, optional
        ``(read, **params)`` to the operation that does what it takes for the results that are read:
        its parameters, and the positions of its operands and of its results among those of this.
        None where that is all.
    form : callable, optional
        ``(**params)`` to the loop or the choice that it is, and nothing besides, so that a compiler
        can write it with the programs inside. Or to a program of the operands whose operations have
        a form, and whose last outputs are the results; its first ones are the results of what
        ``begins`` names, if that is there. None where it has no form with these parameters.
    begins : callable, optional
        ``(**params)`` to another operation, which this one does at first, its parameters, and on
        how many of the first operands: a compiler has it done once for both.
    """

    runs: Callable[..., Sequence[tuple[Any, int | None]]]
    inlines: bool = False
    form: Callable[..., Any] | None = None
    owns: bool = False
    leaner: Callable[..., tuple[Mapping[str, Any], list[int], list[int]] | None] | None = None
    begins: Callable[..., tuple[Any, Mapping[str, Any], int]] | None = None


@dataclass(frozen=True, slots=True)
class Opaque:
    """Anything else: a step that NumPy takes alone.

    Attributes
    ----------
    counted : int, optional
        The operand for whose elements it does one operation each; None where nobody can tell.
    cores : tuple of int
        How many trailing axes of each operand make an example. The axes before them are a stack,
        which broadcast, and are the first axes of each result: what is there at a place of the
        stack comes from the operands' examples at the same place alone. Empty where nobody says.
    """

    counted: int | None = None
    owns: bool = False
    cores: tuple[int, ...] = ()


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
    | Opaque
)

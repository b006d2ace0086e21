"""The steps of a plan: loop nests, fills, NumPy's inner loops, callbacks, loops and choices.

Steps are data: `planner.py` makes them from a program, and `functions.py` writes them. A step names
the views that it reads and the buffers that it writes, so that memory can be shared, and checked
(`plan_check.py`).

Formulas are equal if they write the same instructions.

>>> first, second = BoundFormula(max, (2,)), BoundFormula(max, (2,))
>>> first == second, first == BoundFormula(max, (2.0,)), first(1, 3)
(True, False, 3)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import field
from typing import Any, Final, TypeAlias

import numpy as np

from funcgrad._backends.native.views import View
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.specs import Shape, Spec
from funcgrad._core.structure.factorizations import Factorization
from funcgrad._core.structure.folds import Fold
from funcgrad._core.structure.index_maps import Places
from funcgrad._core.structure.structures import AlongAxis, Choice, Loop, Ordering
from funcgrad._programs.equation import Constant, Equation, Guard, exact_key
from funcgrad._programs.program import Program


class BoundFormula:
    """A formula, and the arguments before the algebra.

    Parameters
    ----------
    formula : callable
        ``(*settings, lanes, *operands) -> element``.
    settings : tuple
        They have hashes. Where formula and settings are the same, so are instructions and ``key``.
    """

    __slots__ = ("_formula", "_settings", "key")

    def __init__(self, formula: Callable[..., Any], settings: tuple[Hashable, ...] = ()) -> None:
        self._formula, self._settings = formula, settings
        self.key: Final = formula, exact_key(settings)

    def __call__(self, lanes: object, *operands: object) -> Any:
        return self._formula(*self._settings, lanes, *operands)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BoundFormula) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


Formula: TypeAlias = Callable[..., Any]


def _itself(_: object, x: object) -> object:
    return x


COPY: Final = BoundFormula(_itself)
"""An element is copied."""


@dataclass(frozen=True, slots=True)
class Folded:
    """A reduction of a nest.

    Attributes
    ----------
    axes : frozenset of int
        The axes of the nest that are reduced.
    fold : Fold
    neutral : number
        The state of no elements.
    """

    axes: frozenset[int]
    fold: Fold
    neutral: Any


@dataclass(frozen=True, slots=True)
class Member:
    """One operation of a nest.

    Attributes
    ----------
    variable : int
        Its result.
    operands : tuple of int
    formula : BoundFormula
        ``(lanes, *operands)`` to the element, or to the state of a reduction of one element.
    folded : Folded, optional
        How elements become one, if the operation is a reduction.
    """

    variable: int
    operands: tuple[int, ...]
    formula: BoundFormula
    folded: Folded | None = None


@dataclass(frozen=True, slots=True)
class _OwnResult:
    """A step whose result has a buffer of its own.

    Attributes
    ----------
    variable : int
        The result, or the first of several.
    """

    variable: int

    def reads(self, views: Mapping[int, View]) -> Sequence[View]:
        """The views that it reads, given the views of all variables."""
        return ()

    @property
    def written(self) -> Sequence[int]:
        """The buffers that it writes."""
        return (self.variable,)


@dataclass(slots=True)
class Nest:
    """Elementwise operations and reductions over one index space.

    Attributes
    ----------
    shape : tuple of int
    members : list of Member
    operands : dict
        From variables that are made before to the views that are read.
    stores : dict
        From members' variables to where their elements go.
    """

    shape: Shape
    members: list[Member] = field(default_factory=list)
    operands: dict[int, View] = field(default_factory=dict)
    stores: dict[int, View] = field(default_factory=dict)

    def reads(self, views: Mapping[int, View]) -> Sequence[View]:
        """The views that it reads."""
        return [*self.operands.values()]

    @property
    def written(self) -> Sequence[int]:
        """The buffers that it writes."""
        return [view.buffer for view in self.stores.values()]


@dataclass(frozen=True, slots=True)
class Fill(_OwnResult):
    """A buffer is filled with zeros."""


@dataclass(frozen=True, slots=True)
class Sweep(_OwnResult):
    """A ufunc's inner loop over arrays in C order, or numbers; SciPy's and integers' may raise."""

    ufunc: np.ufunc
    dtypes: tuple[np.dtype[Any], ...]
    operands: tuple[int, ...]
    may_raise: bool

    def reads(self, views: Mapping[int, View]) -> Sequence[View]:
        """The views that it reads."""
        return [views[operand] for operand in self.operands]


@dataclass(frozen=True, slots=True)
class AxisSweep(_OwnResult):
    """NumPy's inner loop over the lines of an array along an axis; the array lies in C order.

    Attributes
    ----------
    loop : AlongAxis
    dtypes : tuple of dtype
        The dtypes of the loop's operands and of its result.
    operand : int
        The array.
    """

    loop: AlongAxis
    dtypes: tuple[np.dtype[Any], ...]
    operand: int

    def reads(self, views: Mapping[int, View]) -> Sequence[View]:
        """The view that it reads."""
        return [views[self.operand]]


@dataclass(frozen=True, slots=True)
class EquationStep(_OwnResult):
    """A step that computes one equation, whose operands lie in C order."""

    equation: Equation

    def reads(self, views: Mapping[int, View]) -> Sequence[View]:
        """The views that it reads."""
        return [views[operand] for operand in self.equation.operands]

    @property
    def written(self) -> Sequence[int]:
        """The buffers that it writes."""
        return range(self.variable, self.variable + len(self.equation.results))


@dataclass(frozen=True, slots=True)
class Callback(EquationStep):
    """An operation that NumPy evaluates, on arrays that lie in native memory.

    Attributes
    ----------
    reason : str
        Why it has no code.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class Run(EquationStep):
    """A loop or a choice of programs.

    Attributes
    ----------
    form : Loop or Choice
    programs : tuple of Program
    """

    form: Loop | Choice
    programs: tuple[Program, ...]

    @property
    def growing(self) -> Sequence[int]:
        """The results that are stacks with as many rows as there will have been steps."""
        if isinstance(self.form, Choice) or self.form.length is not None:
            return ()
        return self.written[self.form.carried :]


@dataclass(frozen=True, slots=True)
class Elimination(_OwnResult):
    """Matrices are eliminated, with exchanges of rows; the result is their factors.

    Attributes
    ----------
    matrices : View
        The elements of a row lie side by side.
    """

    matrices: View

    def reads(self, views: Mapping[int, View]) -> Sequence[View]:
        """The view that it reads."""
        return [self.matrices]


@dataclass(frozen=True, slots=True)
class FactorUse(EquationStep):
    """Results that factors of small matrices give.

    Attributes
    ----------
    form : Factorization
    views : tuple of View
        How the operands lie in memory.
    factors : int, optional
        The variable that an elimination has made.
    is_transposed : bool
        Whether it has eliminated the transposes.
    ufunc : ufunc, optional
        NumPy's loop for unusual pivots or results; without it these matrices are called back.
    by_numpy : bool
        Whether it computes all results.
    """

    form: Factorization
    views: tuple[View, ...]
    factors: int | None
    is_transposed: bool
    ufunc: np.ufunc | None
    by_numpy: bool = False

    def reads(self, views: Mapping[int, View]) -> Sequence[View]:
        """The views that it reads; the matrices too, which NumPy may be asked about."""
        return [*self.views, *([] if self.factors is None else [views[self.factors]])]


@dataclass(frozen=True, slots=True)
class MatrixProduct(_OwnResult):
    """Stacks of matrices are multiplied; the result lies in C order.

    Attributes
    ----------
    left, right : View
        The stacks, with the same first axes. In the second one the elements of a row, or of a
        column, lie side by side.
    """

    left: View
    right: View

    @property
    def out_shape(self) -> Shape:
        """The shape of the result."""
        return (*self.left.shape[:-1], self.right.shape[-1])

    def reads(self, views: Mapping[int, View]) -> Sequence[View]:
        """The views that it reads."""
        return [self.left, self.right]


@dataclass(frozen=True, slots=True)
class GufuncLoop(EquationStep):
    """NumPy's inner loop over stacks of matrices, in C order.

    Attributes
    ----------
    ufunc : ufunc
    dtypes : tuple of dtype
    raises : bool
        Whether a matrix without a result raises an error.
    """

    ufunc: np.ufunc
    dtypes: tuple[np.dtype[Any], ...]
    raises: bool


@dataclass(frozen=True, slots=True)
class RowProduct(EquationStep):
    """Sums of products with the nonzeros of a sparse matrix, see ``RowProducts``."""


@dataclass(frozen=True, slots=True)
class Sorting(EquationStep):
    """The elements of the first operand along an axis in order, or their places.

    Attributes
    ----------
    form : Ordering
    """

    form: Ordering


@dataclass(frozen=True, slots=True)
class FinitePass(EquationStep):
    """The first operand, if it is finite; else the operation is called back."""


@dataclass(frozen=True, slots=True)
class Gathering(EquationStep):
    """Elements of the first operand, at places that the others choose.

    Attributes
    ----------
    places : Places
    """

    places: Places


@dataclass(frozen=True, slots=True)
class Scattering(EquationStep):
    """Elements of an operand, the updates, go to places of the result.

    Attributes
    ----------
    places : Places
    updates : int
        The position of the operand that is the updates; if it is the first one, the result begins
        with zeros, else with the elements of the first operand.
    fold : Fold, optional
        How updates and elements become one.
    """

    places: Places
    updates: int
    fold: Fold | None


@dataclass(frozen=True, slots=True)
class Scanning(EquationStep):
    """A cumulative operation.

    Attributes
    ----------
    fold : Fold
    axis : int
    reverse : bool
        Whether it begins at the end.
    """

    fold: Fold
    axis: int
    reverse: bool


@dataclass(frozen=True, slots=True)
class Folding(EquationStep):
    """A reduction of elements in their order.

    Attributes
    ----------
    fold : Fold
    axis : int
        The first of the axes that are reduced.
    rank : int
        How many axes are reduced.
    """

    fold: Fold
    axis: int
    rank: int


@dataclass(frozen=True, slots=True)
class Drawing(EquationStep):
    """Random words.

    Attributes
    ----------
    block : callable
        ``(lanes, first, second, number)`` to the words of a block.
    size : int
        The number of words of a block.
    """

    block: Formula
    size: int


Step: TypeAlias = Nest | _OwnResult


def buffers_read(step: Step, views: Mapping[int, View]) -> list[int]:
    """The buffers that a step reads, once for each view."""
    return [view.buffer for view in step.reads(views)]


@dataclass(frozen=True, slots=True)
class NativePlan:
    """How a program runs.

    Attributes
    ----------
    program : Program
    specs : sequence of Spec
        Of the program's variables, and of those that the plan has added.
    views : mapping
        From variables to how they lie in memory.
    steps : sequence of steps
    outputs : sequence of int
        Buffers that hold the outputs, each in C order and each for one output.
    guards : mapping
        The guards by the step after which they are known; -1 before the first.
    lives : mapping
        For the buffers of intermediate results the first and the last step that they are alive.
    numbers : mapping
        The numbers that constants of one element are, by variable.
    """

    program: Program
    specs: Sequence[Spec]
    views: Mapping[int, View]
    steps: Sequence[Step]
    outputs: Sequence[int]
    guards: Mapping[int, Sequence[Guard]]
    lives: Mapping[int, tuple[int, int]]
    numbers: Mapping[int, Any]

    @property
    def constants(self) -> range:
        """The variables that are constants."""
        return range(len(self.program.inputs), self.program.index.first_result)


def number_in(constant: Constant) -> Any:
    """The number of a constant of one element: Python's where it is weak."""
    value = np.asarray(constant.value).item()
    return value if constant.spec.weak else constant.spec.dtype.type(value)

"""Primitives: what an operation is, said once, as a frozen record.

A primitive says how to evaluate itself on raw NumPy values, what comes out (``result``), its
*differential*, how to batch it, and *samples*: inputs at which the conformance tests try all of
this. There is one differential for each primitive, in one of four forms, from which the
transformations derive forward and reverse mode:

``Partials``
    elementwise operations and reductions: the factor for each argument, given output and inputs.
    Broadcasting, its reversal, casts and complex conjugation live in the transformations. So does
    precision: a factor gets its arguments in that of the output, be they integers or booleans.
    Where it is declared that they *select*, factors are masks (or ``Selection``s): where one is
    false the cotangent is absent rather than zero, so that it cannot meet an infinity further back
    and turn into NaN. A boolean that is multiplied with is no mask but a number, as in NumPy.
``Linear``
    the operation is its own differential in each of its arguments; it names its transposes.
``Linearized``
    any other: a pushforward written in primitives, linear in the tangents, which the
    transformations transpose mechanically.
``DISCRETE``
    piecewise constant: no tangent goes in or comes out.

>>> from funcgrad.primitives.elementwise import elementwise
>>> cube = elementwise("cube", lambda x: x**3, partials=(lambda y, x: 3 * x**2,))
>>> cube(2.0)
8.0
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import field
from enum import Enum
from functools import partial
from typing import Any, Final, Protocol, TypeAlias

import numpy as np

from funcgrad.quick_dataclasses import dataclass
from funcgrad.shape import DTYPES, Shape, Spec
from funcgrad.structure import OPAQUE, Opaque, Structure, Trait
from funcgrad.trace import Value, bind, bind1, bind2
from funcgrad.users_values import checked_evaluation, dtype_refused


class UnitFactor(Enum):
    """Factors that cost no multiplication."""

    SAME = 1
    OPPOSITE = -1


SAME: Final = UnitFactor.SAME
OPPOSITE: Final = UnitFactor.OPPOSITE

Factor: TypeAlias = "Callable[..., Value] | UnitFactor | None"
"""``(output, *arguments, **params) -> factor``; None for an argument without derivative."""

Transposes: TypeAlias = "tuple[Callable[..., Value] | None, ...]"

Patch: TypeAlias = "tuple[Value, Sequence[Value], Mapping[str, Any]]"
"""A cotangent, and the other arguments and the parameters of the operation that took it from its
first argument."""


@dataclass(frozen=True, slots=True)
class Selection:
    """A factor that is ``weight`` where ``mask`` holds, and absent (not zero) elsewhere."""

    mask: Value
    weight: Value


@dataclass(frozen=True, slots=True)
class Partials:
    """The partial derivatives of an elementwise operation, or of a reduction, in each argument.

    Attributes
    ----------
    factors : tuple of Factor
        One for each argument. For a reduction the output comes with the reduced axes kept, and the
        tangent of the output is the sum over them of factor times tangent. A factor of an
        elementwise operation is elementwise itself. Of what its signature names with a
        leading underscore it reads shape and dtype at most, so reverse mode need not hold that.
    selects : bool
        Whether the factors are masks or ``Selection``s.
    reduces : bool
        Whether the operation sums over its parameter ``axis``.
    """

    factors: tuple[Factor, ...]
    selects: bool = False
    reduces: bool = False


@dataclass(frozen=True, slots=True)
class Linear:
    """An operation that is linear in each argument that has a transpose.

    Attributes
    ----------
    transposes : tuple of callables or None, or a callable
        One for each argument, or for an operation of any number of arguments a function from that
        number to the tuple. Each is
        ``(cotangent, *arguments, **params) -> cotangent of that argument``, without conjugation of
        the cotangent: the adjoint under Re<u, v>. Of the argument itself only shape and dtype may
        be read. None: no derivative (an index, a mask).
    jointly : bool
        Linear in all differentiable arguments together, as a concatenation is, rather than in each
        alone, as a product is.
    structural : bool
        Every output element is a sum of input elements: masks travel back through it.
    gaps : bool
        Its transposes leave input elements untouched, as that of a slice does: their cotangent is
        absent.
    patch : callable, optional
        The transpose for the first argument once more, for raw values, as
        ``(buffer, cotangent, fresh, *other arguments, **params)``, which adds the cotangent to a
        buffer in place; a fresh buffer is zero so far. Gradients of many slices of one array then
        need one buffer, not an array for each. Masks come with the cotangent True.
    join : callable, optional
        The same for values that transformations follow: ``(patches, shape) -> cotangent`` of a
        shape, the sum of what the transpose makes of patches ``(cotangent, other arguments,
        params)``, of which there are several. It takes time linear in their elements and in its
        own, as a sum of the transposes does not. Masks come as patches too.
    split : callable, optional
        ``(cotangent, *arguments, **params) -> cotangents`` of all arguments, where there may be
        many: to ask the transpose for each would take time quadratic in their number.
    """

    transposes: Transposes | Callable[[int], Transposes]
    jointly: bool = False
    structural: bool = False
    gaps: bool = False
    patch: Callable[..., None] | None = None
    join: Callable[[Sequence[Patch], Shape], Value] | None = None
    split: Callable[..., Sequence[Value]] | None = None

    def routes(self, arity: int) -> Transposes:
        """The transposes for a number of arguments."""
        return self.transposes(arity) if callable(self.transposes) else self.transposes


def linear_in_all(split: Callable[..., Sequence[Value]]) -> Linear:
    """The differential of an operation that is linear in all of any number of arguments together.

    Parameters
    ----------
    split : callable
        See ``Linear``; every element of the result is a sum of elements of the arguments.
    """

    def transposes(arity: int) -> Transposes:
        return tuple([partial(_of_one, split, position) for position in range(arity)])

    return Linear(transposes, jointly=True, structural=True, split=split)


def _of_one(
    split: Callable[..., Sequence[Value]],
    position: int,
    ct: Value,
    *args: Value,
    **params: Hashable,
) -> Value:
    return split(ct, *args, **params)[position]


@dataclass(frozen=True, slots=True)
class Linearized:
    """A pushforward for operations of no simpler form.

    Attributes
    ----------
    push : callable
        ``(tangents, output, *arguments, **params) -> output tangent``, written in primitives and
        linear in the tangents. A tangent is None where it is zero by structure.
    pull : callable, optional
        ``(cotangent, output, *arguments, **params) -> cotangents`` of all arguments: the transpose
        of ``push``, where there is one that takes less than to record ``push`` and to transpose
        that. Factors are conjugated. It has to be a sum of products of numbers that are positive
        where all arguments are, unless the operation mixes. Of several results, ``cotangent`` is a
        tuple, with None for one that nothing depends on, and ``output`` is the tuple of results.
        Where the operation mixes, a cotangent may be a function without arguments, which is called
        if anything follows that argument.
    linear_in : tuple of int
        Arguments in which the operation is linear, together, for any values of the others: a
        tangent may be pushed by it, and what was pushed can be transposed.
    mixes : bool
        Whether every element of an argument takes part in every element of the results, as in the
        length of a vector: what of a cotangent is absent then counts as zero. Nobody need say so
        of an operation on stacks whose structure has ``cores``.
    carry : callable, optional
        See ``carried``.
    """

    push: Callable[..., Value]
    pull: Callable[..., Sequence[Value]] | None = None
    linear_in: tuple[int, ...] = ()
    mixes: bool = False
    carry: Callable[..., tuple[Any, tuple[Value, ...], dict[str, Any]]] | None = None


def carried(carry: Callable[..., tuple[Any, tuple[Value, ...], dict[str, Any]]]) -> Linearized:
    """The differential of an operation whose tangents one linear operation carries along.

    Parameters
    ----------
    carry : callable
        ``(output, argument, **params)`` to that operation, which is ``Linear`` with a ``patch``,
        its arguments behind the tangent, and its parameters.
    """

    def push(tangents: tuple[Value, ...], out: Value, x: Value, **params: Hashable) -> Value:
        operation, others, settings = carry(out, x, **params)
        return operation(tangents[0], *others, **settings)

    return Linearized(push, carry=carry)


class Discrete(Enum):
    """The differential of an operation that is constant wherever it is continuous."""

    DISCRETE = 0


DISCRETE: Final = Discrete.DISCRETE

Differential: TypeAlias = Partials | Linear | Linearized | Discrete

Batch: TypeAlias = Callable[..., Value]
"""``(primitive, size, arguments, batched, params) -> value``: the arguments whose flag in
``batched`` is set carry the batch on axis 0, and so does the result."""


class OperandText(Protocol):
    """An operand in the text of an operation, see ``Primitive.source``: it prints as that."""

    @property
    def spec(self) -> Spec: ...

    @property
    def dtype(self) -> str:
        """Its dtype as text."""
        ...

    @property
    def array(self) -> str:
        """Its text where an array is needed: a number is wrapped in ``np.asarray``."""
        ...

    def number(self, value: float) -> str:
        """A number that an elementwise operation has beside this operand."""
        ...


@dataclass(frozen=True, slots=True)
class Sample:
    """Inputs at which a primitive is tried.

    Attributes
    ----------
    args : tuple
        Raw arguments: arrays, NumPy scalars, Python numbers.
    params : mapping
        Static parameters.
    smooth : bool
        Whether the operation is differentiable here in its inexact arguments, so that finite
        differences say what its derivative is. Not at ties, kinks and infinities.
    """

    args: tuple[Any, ...]
    params: Mapping[str, Any] = field(default_factory=dict)
    smooth: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Primitive:
    """An operation and all its rules. Calling it binds it.

    Attributes
    ----------
    name : str
    evaluate : callable
        ``(*raw arguments, **params) -> raw value``; it must neither keep nor write its arguments.
        It may return them, or views of them, unless the structure says that it ``owns`` its result.
    result : callable
        ``(*specs, **params) -> Spec`` of what ``evaluate`` returns. An operation with several
        results, or with as many as it is asked for, returns a tuple, and so does this.
    differential : Partials, Linear, Linearized or DISCRETE
    batch : callable
        See ``Batch``.
    samples : callable
        ``() -> iterable of Sample``.
    source : callable, optional
        ``(*operands, **params) -> str or None``: ``evaluate`` as a NumPy expression, the same to
        the last bit, in terms of operands that print as what stands for them; ``operand.array``
        prints as an array also where the operand is a number. Further lines may write into
        ``{out}``, what the expression made. None where there is no short text; a function of NumPy
        needs none, and neither does a formula.
    operator : str
        How Python writes it, if it has an operator for it. Of Python numbers alone an operator
        makes a Python number, whose dtype gives way to an array's; a function of NumPy does not.
    structure : Structure
        How elements of the result come from elements of the operands, see ``funcgrad.structure``.
    traits : Trait
    label : callable, optional
        ``(**params) -> str``: what is printed in the place of name and parameters, as of a call the
        name of what is called.
    body : callable, optional
        ``(*values, **params) -> value``, written in other primitives: what a compiler may use that
        lacks the operation. An elementwise operation with a formula needs none.
    """

    name: str
    evaluate: Callable[..., Any]
    result: Callable[..., Spec | tuple[Spec, ...]]
    differential: Differential
    batch: Batch
    samples: Callable[[], Iterable[Sample]] = tuple
    source: Callable[..., str | None] | None = None
    operator: str = ""
    structure: Structure = OPAQUE
    traits: Trait = Trait.NONE
    label: Callable[..., str] | None = None
    body: Callable[..., Any] | None = None
    factors: tuple[Factor, ...] = field(init=False, repr=False)
    reads: tuple[tuple[bool, ...], ...] = field(init=False, repr=False)
    form: str = field(init=False, repr=False)
    quick: bool = field(init=False, repr=False)
    bilinear: bool = field(init=False, repr=False)
    additive: bool = field(init=False, repr=False)
    is_foreign: bool = field(init=False, repr=False)
    owns: bool = field(init=False, repr=False)
    cores: tuple[int, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Lay out what the hot paths read of the differential."""
        object.__setattr__(self, "evaluate", checked_evaluation(self.evaluate, self.name))
        partials = self.differential if isinstance(self.differential, Partials) else Partials(())
        quick = bool(partials.factors) and not (partials.selects or partials.reduces)
        object.__setattr__(self, "factors", partials.factors)
        object.__setattr__(self, "form", _form_of(self.differential))
        object.__setattr__(self, "quick", quick and None not in partials.factors)
        object.__setattr__(self, "reads", _read_by(partials.factors))
        object.__setattr__(self, "bilinear", _is_product(self.differential))
        additive = quick and all(isinstance(factor, UnitFactor) for factor in partials.factors)
        object.__setattr__(self, "additive", additive)
        object.__setattr__(self, "is_foreign", Trait.FOREIGN in self.traits)
        is_new = isinstance(self.evaluate, np.ufunc)  # whatever it returns
        object.__setattr__(self, "owns", is_new or self.structure.owns)
        cores = self.structure.cores if isinstance(self.structure, Opaque) else ()
        object.__setattr__(self, "cores", cores)

    def results(self, *specs: Spec, **params: Hashable) -> tuple[Spec, ...]:
        """The specs of all results."""
        result = self.checked_result(*specs, **params)
        return result if isinstance(result, tuple) else (result,)

    def checked_result(self, *specs: Spec, **params: Hashable) -> Spec | tuple[Spec, ...]:
        """The spec of what ``evaluate`` returns, or the tuple of specs.

        Raises
        ------
        DtypeError
            Tensors have no such dtype.
        """
        result = self.result(*specs, **params)
        for spec in result if isinstance(result, tuple) else (result,):
            if spec.dtype not in DTYPES:
                raise dtype_refused(self.name, "the result is", spec.dtype)
        return result

    def routes(self, arity: int) -> tuple[Any, ...]:
        """For each argument something that is not None if a derivative flows through it."""
        if isinstance(self.differential, Linear):
            return self.differential.routes(arity)
        return self.factors or (True,) * arity

    def read(self, operands: Sequence[int]) -> Sequence[bool]:
        """Whether the factors of followed arguments read the output, and each argument.

        Parameters
        ----------
        operands : sequence of int
            The variable that each argument is; -1 for one that is not followed.
        """
        followed = [
            reads for operand, reads in zip(operands, self.reads, strict=True) if operand >= 0
        ]
        return followed[0] if len(followed) == 1 else list(map(any, zip(*followed, strict=True)))

    def __call__(self, *args: Value, **params: Hashable) -> Value:
        if not params:  # rules call cos(x) and matmul(x, y) all the time
            if len(args) == 1:
                return bind1(self, args[0])
            if len(args) == 2:
                return bind2(self, *args)
        return bind(self, args, params)

    def __repr__(self) -> str:
        return f"<primitive {self.name}>"


def _read_by(factors: Sequence[Factor]) -> tuple[tuple[bool, ...], ...]:
    """For each factor, whether it reads the output, and each argument."""
    values = range(1 + len(factors))
    return tuple([tuple([_reads(factor, position) for position in values]) for factor in factors])


def _reads(factor: Factor, position: int) -> bool:
    if not callable(factor):
        return False
    code = getattr(factor, "__code__", None)  # of what is no Python function nothing is known
    return code is None or not code.co_varnames[position].startswith("_")


def _form_of(differential: Differential) -> str:
    if isinstance(differential, Partials):
        if differential.reduces:
            return "reducing"
        return "selecting" if differential.selects else "elementwise"
    if isinstance(differential, Linear):
        return "linear" if differential.patch is None else "patching"
    if isinstance(differential, Linearized):
        if differential.carry is not None:
            return "carried"
        return "linearized" if differential.pull is None else "transposed"
    return "discrete"


def _is_product(differential: Differential) -> bool:
    """Whether this is a product of two arguments, as a matrix product is."""
    return (
        isinstance(differential, Linear)
        and isinstance(differential.transposes, tuple)
        and len(differential.transposes) == 2
        and None not in differential.transposes
        and not (differential.jointly or differential.structural or differential.gaps)
    )

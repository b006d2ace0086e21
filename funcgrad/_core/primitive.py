"""Primitives: the declaration of an operation, as one frozen record.

A primitive declares how it is evaluated on raw NumPy values, the specs of its results (``result``),
its *differential*, how it is batched, and *samples*: inputs at which the conformance tests check
all of this. Each primitive has one differential, in one of four forms, from which the
transformations derive forward and reverse mode:

``Partials``
    for elementwise operations and reductions: the partial derivative (*factor*) for each argument,
    as a function of output and inputs. The transformations handle broadcasting and its transpose,
    casts and complex conjugation, and convert integers and booleans to the output's precision
    before they call a factor. If factors are declared to *select*, they are masks (or
    ``Selection``s): where a mask is false the cotangent is absent rather than zero, so that an
    infinite factor further back cannot turn it into NaN. Without that declaration a boolean factor
    counts as 0 or 1.
``Linear``
    the operation is linear in each argument, so it is its own differential; it names its
    transposes.
``Linearized``
    any other operation: a pushforward written in primitives, linear in the tangents, which the
    transformations transpose automatically.
``DISCRETE``
    piecewise constant operations, which have no tangents.

>>> from funcgrad._primitives.elementwise import elementwise
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

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.specs import DTYPES, Shape, Spec
from funcgrad._core.structure.structures import OPAQUE, Factored, Opaque, Structure, Trait
from funcgrad._core.trace import Value, bind, bind1, bind2
from funcgrad._core.users_values import checked_evaluation, dtype_refused


class UnitFactor(Enum):
    """Factors that cost no multiplication."""

    SAME = 1
    OPPOSITE = -1


SAME: Final = UnitFactor.SAME
OPPOSITE: Final = UnitFactor.OPPOSITE

Factor: TypeAlias = "Callable[..., Value] | UnitFactor | None"
"""``(output, *arguments, **params) -> factor``, or None for an argument without derivative."""

Transposes: TypeAlias = "tuple[Callable[..., Value] | None, ...]"

Patch: TypeAlias = "tuple[Value, Sequence[Value], Mapping[str, Any]]"
"""The cotangent of a part of an array, and the other arguments and parameters of the operation that
selected the part."""


@dataclass(frozen=True, slots=True)
class Selection:
    """A factor that is ``weight`` where ``mask`` holds, and absent (not zero) elsewhere.

    ``opposite`` is a mask of all other elements, from which ``mask`` was made, or None.
    """

    mask: Value
    weight: Value
    opposite: Value = None


@dataclass(frozen=True, slots=True)
class Partials:
    """The partial derivatives of an elementwise operation or a reduction.

    Attributes
    ----------
    factors : tuple of Factor
        A factor for each argument. A reduction's factor gets the output with the reduced axes kept;
        the tangent of the output is the sum over these axes of factor times tangent. The factor of
        an elementwise operation is elementwise. If the name of a factor's parameter begins with an
        underscore, the factor reads only its shape and dtype, and reverse mode need not store it.
    selects : bool
        Whether each factor is a mask or a ``Selection``.
    reduces : bool
        Whether the operation sums over its parameter ``axis``.
    """

    factors: tuple[Factor, ...]
    selects: bool = False
    reduces: bool = False


@dataclass(frozen=True, slots=True)
class Linear:
    """The differential of an operation that is linear in each argument with a transpose.

    Attributes
    ----------
    transposes : tuple of callables or None, or a callable
        The transpose for each argument; for an operation of any number of arguments, a function
        from their number to the tuple. A transpose is ``(cotangent, *arguments, **params) ->
        cotangent of the argument``, without conjugation of the cotangent: the adjoint under Re<u,
        v>. It may read only the shape and dtype of the argument itself. None means that the
        argument has no derivative (an index, a mask).
    jointly : bool
        Whether the operation is linear in all differentiable arguments together, like a
        concatenation, rather than in each argument separately, like a product.
    structural : bool
        Whether every output element is a sum of input elements, so that masks can be transposed.
    gaps : bool
        Whether its transposes leave the cotangent of some input elements absent, like the transpose
        of a slice.
    patch : callable, optional
        The transpose for the first argument on raw values, in place: ``(buffer, cotangent, fresh,
        *other arguments, **params)`` adds the cotangent to a buffer; a fresh buffer holds zeros. So
        gradients of many slices of one array share one buffer. For masks the cotangent is True.
    join : callable, optional
        The same for tracers: ``(patches, shape) -> cotangent`` of a shape, the sum of the
        transposes of several patches ``(cotangent, other arguments, params)``. It takes time linear
        in the number of elements, unlike a sum of full-size transposes. Patches may be masks, too.
    narrow : bool
        Whether ``join`` takes masks that broadcast to the patch, and may return one that broadcasts
        to the shape.
    split : callable, optional
        ``(cotangent, *arguments, **params) -> cotangents`` of all arguments, if they may be many:
        calling a transpose for each argument would take quadratic time.
    """

    transposes: Transposes | Callable[[int], Transposes]
    jointly: bool = False
    structural: bool = False
    gaps: bool = False
    patch: Callable[..., None] | None = None
    join: Callable[[Sequence[Patch], Shape], Value] | None = None
    narrow: bool = False
    split: Callable[..., Sequence[Value]] | None = None

    def routes(self, arity: int) -> Transposes:
        """The transposes for a given number of arguments."""
        return self.transposes(arity) if callable(self.transposes) else self.transposes


def linear_in_all(split: Callable[..., Sequence[Value]]) -> Linear:
    """The differential of an operation that is jointly linear in any number of arguments.

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
    """The pushforward of an operation whose differential has no simpler form.

    Attributes
    ----------
    push : callable
        ``(tangents, output, *arguments, **params) -> output tangent``, written in primitives and
        linear in the tangents. A tangent that is structurally zero is None. With several results, a
        tangent may be a function without arguments, which is called only if that tangent is needed.
    pull : callable, optional
        ``(cotangent, output, *arguments, **params) -> cotangents`` of all arguments: the transpose
        of ``push``, if it is faster than recording and transposing ``push``. Factors are
        conjugated. Unless the operation mixes, the result has to be a sum of products that are
        positive if all arguments are positive. For several results, ``cotangent`` is a tuple, with
        None for an unused result, and ``output`` is the tuple of results. If the operation mixes, a
        returned cotangent may be a function without arguments, which is called only if that
        argument is differentiated.
    linear_in : tuple of int, or callable
        Arguments in which the operation is jointly linear, for any values of the others: the
        operation itself pushes their tangents, and can then be transposed. If they depend on the
        parameters, a function of the parameters returns them.
    mixes : bool
        Whether every element of an argument affects every element of the results, like the norm of
        a vector; absent elements of a cotangent then count as zero. Operations on stacks need not
        set it if their structure has ``cores``.
    carry : callable, optional
        See ``carried``.
    """

    push: Callable[..., Value]
    pull: Callable[..., Sequence[Value]] | None = None
    linear_in: tuple[int, ...] | Callable[..., tuple[int, ...]] = ()
    mixes: bool = False
    carry: Callable[..., tuple[Any, tuple[Value, ...], dict[str, Any]]] | None = None

    def linear_arguments(self, params: Mapping[str, Any]) -> tuple[int, ...]:
        """The arguments in which the operation is linear, given its parameters."""
        return self.linear_in(**params) if callable(self.linear_in) else self.linear_in


def carried(carry: Callable[..., tuple[Any, tuple[Value, ...], dict[str, Any]]]) -> Linearized:
    """The differential of an operation whose pushforward is one linear operation.

    Parameters
    ----------
    carry : callable
        ``(output, argument, **params)`` to the linear operation, its arguments after the tangent,
        and its parameters. Its differential is ``Linear`` with a ``patch``.
    """

    def push(tangents: tuple[Value, ...], out: Value, x: Value, **params: Hashable) -> Value:
        operation, others, settings = carry(out, x, **params)
        return operation(tangents[0], *others, **settings)

    return Linearized(push, carry=carry)


class Discrete(Enum):
    """The differential of a piecewise constant operation."""

    DISCRETE = 0


DISCRETE: Final = Discrete.DISCRETE

Differential: TypeAlias = Partials | Linear | Linearized | Discrete

Batch: TypeAlias = Callable[..., Value]
"""``(primitive, size, arguments, batched, params) -> value``: arguments whose flag in ``batched``
is set, and the result, have the batch on axis 0."""


class OperandText(Protocol):
    """An operand for ``Primitive.source``; its ``str`` is its text."""

    @property
    def spec(self) -> Spec: ...

    @property
    def dtype(self) -> str:
        """The operand's dtype as text."""
        ...

    @property
    def array(self) -> str:
        """The operand's text as an array: scalars are wrapped in ``np.asarray``."""
        ...


@dataclass(frozen=True, slots=True)
class Sample:
    """Inputs at which tests check a primitive.

    Attributes
    ----------
    args : tuple
        Raw arguments: arrays, NumPy scalars, Python numbers.
    params : mapping
        Static parameters.
    smooth : bool
        Whether the operation is differentiable here with respect to its inexact arguments, so that
        finite differences give the derivative: false at ties, kinks and infinities.
    """

    args: tuple[Any, ...]
    params: Mapping[str, Any] = field(default_factory=dict)
    smooth: bool = True


@dataclass(frozen=True, slots=True)
class Kinks:
    """Where an operation has kinks, ties, jumps and poles, and where its domain ends.

    Both functions take the operation's arguments and parameters, and return a value or a tuple of
    values, written in primitives; an empty tuple means no such places. The values of elementwise
    operations are elementwise. Complex values count by their absolute value.

    Attributes
    ----------
    zeros : callable, optional
        Returns values that are 0 where the operation has no derivative, or its value jumps or is
        infinite. Elsewhere their distance from 0 is about the distance of the arguments from such a
        place.
    domain : callable, optional
        Returns values that are positive inside the domain, 0 at its ends, and negative outside.
    """

    zeros: Callable[..., Value] | None = None
    domain: Callable[..., Value] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Primitive:
    """An operation and all its rules; calling it applies it to values by ``bind``.

    Attributes
    ----------
    name : str
    evaluate : callable
        ``(*raw arguments, **params) -> raw value``. A user's function gets read-only arrays, and
        may store them. It may return them, or views of them, unless it has the trait ``OWNS``.
    result : callable
        ``(*specs, **params) -> Spec`` of the result of ``evaluate``. For an operation with several
        results, or with a variable number of results, both return tuples.
    differential : Partials, Linear, Linearized or DISCRETE
    batch : callable
        See ``Batch``.
    samples : callable
        ``() -> iterable of Sample``.
    source : callable, optional
        ``(*operands, **params) -> str or None``: ``evaluate`` as a NumPy expression with the same
        bits. The ``str`` of an operand is its text; ``operand.array`` is text for an array, also if
        the operand is a scalar. Further lines may write into ``{out}``, the value of the
        expression. None without a short text; not needed if ``evaluate`` is a NumPy function, or
        with a formula.
    operator : str
        Python's operator for the operation, if it has one. Applied to Python numbers only, an
        operator returns a Python number, which is weak; NumPy's functions do not.
    structure : Structure
        How elements of the result depend on elements of the operands, see
        ``funcgrad._core.structure.structures``.
    traits : Trait
    label : callable, optional
        ``(**params) -> str``: text to print instead of name and parameters, such as the name of the
        function that a call runs.
    body : callable, optional
        ``(*values, **params) -> value``, the operation written in other primitives, for compilers
        that lack it; ``NotImplemented`` for dtypes and shapes that it does not support. Elementwise
        operations with a formula do not need it.
    remedy : str
        Advice of ``fg.debug`` to the user if the operation, or its derivative, turns finite values
        into NaN or infinity.
    kinks : Kinks, optional
        The places where it is not smooth; None for an operation that is smooth wherever it is
        finite.
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
    remedy: str = ""
    kinks: Kinks | None = None
    factors: tuple[Factor, ...] = field(init=False, repr=False)
    reads: tuple[tuple[bool, ...], ...] = field(init=False, repr=False)
    form: str = field(init=False, repr=False)
    quick: bool = field(init=False, repr=False)
    bilinear: bool = field(init=False, repr=False)
    additive: bool = field(init=False, repr=False)
    is_foreign: bool = field(init=False, repr=False)
    has_effect: bool = field(init=False, repr=False)
    owns: bool = field(init=False, repr=False)
    cores: tuple[int, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Store fields of the differential as attributes, which hot paths read."""
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
        object.__setattr__(self, "has_effect", Trait.EFFECT in self.traits)
        is_new = isinstance(self.evaluate, np.ufunc)  # ufuncs return new arrays
        object.__setattr__(self, "owns", is_new or Trait.OWNS in self.traits)
        structure = self.structure
        cores = structure.cores if isinstance(structure, Opaque | Factored) else ()
        object.__setattr__(self, "cores", cores)

    def results(self, *specs: Spec, **params: Hashable) -> tuple[Spec, ...]:
        """The specs of all results."""
        result = self.checked_result(*specs, **params)
        return result if isinstance(result, tuple) else (result,)

    def checked_result(self, *specs: Spec, **params: Hashable) -> Spec | tuple[Spec, ...]:
        """The spec, or tuple of specs, of the result of ``evaluate``.

        Raises
        ------
        DtypeError
            Tensors cannot have its dtype.
        """
        result = self.result(*specs, **params)
        for spec in result if isinstance(result, tuple) else (result,):
            if spec.dtype not in DTYPES:
                raise dtype_refused(self.name, "the result is", spec.dtype)
        return result

    def routes(self, arity: int) -> tuple[Any, ...]:
        """For each argument its transpose, factor or True, or None without a derivative."""
        if isinstance(self.differential, Linear):
            return self.differential.routes(arity)
        return self.factors or (True,) * arity

    def read(self, operands: Sequence[int]) -> Sequence[bool]:
        """Whether the factors of differentiated arguments read the output and each argument.

        Parameters
        ----------
        operands : sequence of int
            The variable of each argument; -1 for an argument that is not differentiated.
        """
        followed = [
            reads for operand, reads in zip(operands, self.reads, strict=True) if operand >= 0
        ]
        return followed[0] if len(followed) == 1 else list(map(any, zip(*followed, strict=True)))

    def __call__(self, *args: Value, **params: Hashable) -> Value:
        if not params:  # the most frequent calls in rules: cos(x), matmul(x, y)
            if len(args) == 1:
                return bind1(self, args[0])
            if len(args) == 2:
                return bind2(self, *args)
        return bind(self, args, params)

    def __repr__(self) -> str:
        return f"<primitive {self.name}>"


def _read_by(factors: Sequence[Factor]) -> tuple[tuple[bool, ...], ...]:
    """For each factor, whether it reads the output, and whether it reads each argument."""
    values = range(1 + len(factors))
    return tuple([tuple([_reads(factor, position) for position in values]) for factor in factors])


def _reads(factor: Factor, position: int) -> bool:
    if not callable(factor):
        return False
    code = getattr(factor, "__code__", None)  # nothing is known of other callables
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
    """Whether a differential belongs to a product of two arguments, such as a matrix product."""
    return (
        isinstance(differential, Linear)
        and isinstance(differential.transposes, tuple)
        and len(differential.transposes) == 2
        and None not in differential.transposes
        and not (differential.jointly or differential.structural or differential.gaps)
    )

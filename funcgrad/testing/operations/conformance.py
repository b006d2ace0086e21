"""``check_primitive``: check an operation of your own like the package's operations.

It raises a ``CheckError`` that lists all failures at all samples. The properties are values, and
the package's tests check them one by one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import numpy as np

from funcgrad._core.primitive import Primitive
from funcgrad.errors import ArgumentError, CheckError
from funcgrad.testing.operations.batches import BATCHES
from funcgrad.testing.operations.cases import Case, cases_of
from funcgrad.testing.operations.declarations import DECLARATIONS
from funcgrad.testing.operations.declared_kinks import DECLARED_KINKS
from funcgrad.testing.operations.derivatives import DERIVATIVES
from funcgrad.testing.operations.element_maps import ELEMENT_MAPS
from funcgrad.testing.operations.linear_rules import LINEAR_RULES
from funcgrad.testing.operations.properties import BrokenPromise, Property
from funcgrad.testing.operations.sparsity import SPARSITY
from funcgrad.testing.operations.special_numbers import SPECIAL_NUMBERS, TRAIT_LAWS
from funcgrad.testing.operations.stages import STAGES, WRITTEN_FORMULAS

PROPERTIES: Final[tuple[Property, ...]] = (
    *DECLARATIONS,
    *DERIVATIVES,
    *LINEAR_RULES,
    *BATCHES,
    *STAGES,
    *ELEMENT_MAPS,
    *TRAIT_LAWS,
    *WRITTEN_FORMULAS,
    *SPECIAL_NUMBERS,
    *DECLARED_KINKS,
    *SPARSITY,
)

_SHOWN: Final = 3


def check_primitive(operation: Primitive, *, without: Collection[str] = ()) -> None:
    """Check an operation against its declaration, at all of its samples.

    Use it in the tests of operations that you declare with ``fg.extend``: a mistake in a
    derivative, a batching rule or a structure is reported with the sample and advice.

    Each field of the declaration is checked: samples, results, differential, batch, structure,
    traits, formula and body. Derivatives of both modes are compared with differences, to second
    order; batches are compared with loops; staged, compiled and saved programs are compared with
    evaluation.

    Parameters
    ----------
    operation : Primitive
        An operation that was declared with ``fg.extend``, with samples. They should include
        difficult arguments: 0-d and empty arrays, strides, ties, infinities, edges of the domain.
    without : collection of str
        Names of properties to skip, as in the report, such as ``("saved",)`` for an operation that
        is not defined at the top level of a module.

    Raises
    ------
    CheckError
        A property does not hold (an ``AssertionError``). The message lists all such properties, the
        samples at which they fail, the difference, and where to look.
    ArgumentError
        ``operation`` is not an operation, or a name in ``without`` is unknown.

    Examples
    --------
    >>> import funcgrad as fg
    >>> import funcgrad.numpy as fnp
    >>> import numpy as np
    >>> softsign = fg.extend.elementwise(
    ...     "softsign",
    ...     lambda x: x / (1 + np.abs(x)),
    ...     partials=(lambda y, x: (1 - abs(y)) ** 2,),
    ...     samples=fg.extend.reals(0.5, 3),
    ... )
    >>> check_primitive(softsign, without=("saved",))

    >>> wrong = fg.extend.elementwise(
    ...     "softsign",
    ...     lambda x: x / (1 + np.abs(x)),
    ...     partials=(lambda y, x: 1 - abs(y),),
    ...     samples=fg.extend.reals(0.5, 3),
    ... )
    >>> check_primitive(wrong, without=("saved",))
    Traceback (most recent call last):
        ...
    funcgrad.errors.CheckError: check_primitive: softsign breaks 2 of ... promises.
    ...
    """
    _check_operation(operation)
    names = [known.name for known in PROPERTIES]
    if isinstance(without, (str, np.ndarray)) or not isinstance(without, Collection):
        unknown: object = repr(without)
    else:
        unknown = [name for name in without if not isinstance(name, str) or name not in names]
    if unknown:
        raise ArgumentError(
            f"check_primitive: without={unknown} is not a collection of properties. The"
            f" properties are {', '.join(names)}."
        )
    first, *others = PROPERTIES
    tried = [(first, first.failures(operation, ()))]
    if not tried[0][1]:  # nothing to try without valid samples
        cases = list(cases_of(operation))
        applied = [known for known in others if known.applies(operation)]
        tried += [
            (known, known.failures(operation, cases))
            for known in applied
            if known.name not in without
        ]
    raise_failures(operation, tried)


def _check_operation(candidate: object) -> None:
    if not isinstance(candidate, Primitive):
        raise ArgumentError(
            f"check_primitive: {candidate!r} is a {type(candidate).__name__}, not an operation."
            " Pass the result of fg.extend.elementwise, fg.extend.reduction, fg.extend.movement or"
            " fg.extend.Primitive, not the function that applies it."
        )


def raise_failures(
    operation: Primitive, tried: Sequence[tuple[Property, Sequence[BrokenPromise]]]
) -> None:
    """Raise one error for all failures of the properties that were tried."""
    broken = [(known, failures) for known, failures in tried if failures]
    if not broken:
        return
    lines = [f"check_primitive: {operation.name} breaks {len(broken)} of {_promises(len(tried))}."]
    for known, failures in broken:
        lines += ["", f"{known.name}: {known.promise}", *_shown(failures), f"  {known.remedy}"]
    raise CheckError("\n".join(lines))


def _promises(count: int) -> str:
    return "1 promise" if count == 1 else f"{count} promises"


def _shown(failures: Sequence[BrokenPromise]) -> list[str]:
    lines = [f"  {_place(failure.case)}{failure.text}" for failure in failures[:_SHOWN]]
    numbers = [str(failure.case.number) for failure in failures[_SHOWN:] if failure.case]
    return [*lines, f"  and at samples {', '.join(numbers)}"] if numbers else lines


def _place(case: Case | None) -> str:
    return "" if case is None else f"sample {case.number}, {case.described()}: "

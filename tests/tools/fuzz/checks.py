"""The checks: each computes a quantity of a program in another way.

A check has a *quantity* (the value, the derivative in either mode, the second derivative), which
says how far rounding may move its results, and a function that returns the results of one way. The
other way is the quantity itself, computed eagerly. Passes are found, not listed.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final
from unittest.mock import patch

import numpy as np

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._backends.choice import machine_code_of
from funcgrad._backends.interface import Compiled, evaluated
from funcgrad._backends.native.element_programs import by_elements
from funcgrad._backends.numpy.backend import compile_program
from funcgrad._backends.numpy.prepare import prepared, prepared_exactly
from funcgrad._core import pytrees
from funcgrad._core.structure.structures import Control
from funcgrad._passes.pipeline import optimize, simplified
from funcgrad._passes.workbench import Rules, improve, joined, merge_common_subexpressions
from funcgrad._programs.inline import inlined
from funcgrad.errors import BatchError, DifferentiationError, DtypeError, MatrixError, TracerError
from tests.passes.forms_of_matrices import GROUNDS
from tests.passes.generator import counting, every_rule, is_exact
from tests.passes.test_passes import RELAXED, every_pass
from tests.tools.fuzz.analytic import assert_complex_step
from tests.tools.fuzz.compare import DifferenceError, assert_agree
from tests.tools.fuzz.differences import assert_differences
from tests.tools.fuzz.noise import Scatter, raw
from tests.tools.fuzz.subject import Subject, several, stacked

Way = Callable[[Subject], Any]


@dataclass(frozen=True, slots=True)
class Check:
    """A way to compute something of a program, compared with another.

    Attributes
    ----------
    run : callable
        Raises where something is wrong.
    needs : str
        Words of ``derivatives``, ``batch`` (control flow does not depend on numbers), ``linear``
        (all rules are linear maps) and ``symmetric`` (all rules are derivatives).
    rounds : bool
        Whether the check rounds differently, so that control flow may take another path.
    """

    run: Callable[[Subject], None]
    needs: str = ""
    rounds: bool = False

    def applies(self, subject: Subject) -> bool:
        """Whether the check applies to a program."""
        if self.rounds and subject.looks:
            return False
        if "derivatives" in self.needs and not subject.is_differentiable:
            return False
        if "linear" in self.needs and subject.is_clipped:
            return False
        if "symmetric" in self.needs and subject.is_ruled_otherwise:
            return False
        return not ("batch" in self.needs and subject.looks)


class Plain:
    """A backend that evaluates operation by operation."""

    name = "plain"

    def supports(self, program: fg.Program) -> bool:
        """Support all programs."""
        return True

    def prepare(self, program: fg.Program, relaxed: bool) -> fg.Program:
        """Return the program unchanged."""
        return program

    def compile(self, program: fg.Program) -> Compiled:
        """Evaluate the program operation by operation."""
        return evaluated(program)

    def inspect(self, program: fg.Program) -> str:
        """The program's text."""
        return program.to_text()


def _raw(subject: Subject) -> list[Any]:
    return [raw(arg) for arg in subject.args]


def _numpy_source(subject: Subject) -> Any:
    namespace: dict[str, Any] = {}
    exec(subject.staged.to_numpy_source(), namespace)
    constants = subject.staged.numpy_constants()
    made = namespace["with_constants"](constants) if constants else namespace[subject.staged.name]
    return made(*_raw(subject))


def _reread(subject: Subject) -> fg.Program:
    if not _fits_in_a_file(subject):
        return subject.staged
    again = fg.Program.from_json(subject.staged.to_json())
    # Not ``again == staged``: rules of the user's are Python functions, which no file keeps.
    assert again.to_json() == subject.staged.to_json(), "a program read from JSON is another"
    return again


def _fits_in_a_file(subject: Subject) -> bool:
    """Whether a program can be saved: no rule computes with raw numbers."""
    inside = inlined(subject.staged).equations
    return not any(each.operation.is_foreign for each in inside)


def _pickled(subject: Subject) -> Any:
    if not _fits_in_a_file(subject):
        return subject.value
    return pickle.loads(pickle.dumps(subject.staged))(*subject.args)


def _one_by_one(subject: Subject) -> Any:
    """Compute associative scans one element after the other, rather than pairwise."""
    if "associative_scan(" not in subject.text and "composed(" not in subject.text:
        return subject.value
    with patch.object(fg, "associative_scan", _totals):
        return subject.f(*subject.args)


def _totals(fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    size = pytrees.leaves(elems)[0].shape[axis]

    def at(k: int) -> Any:
        return fg.tree.map(lambda x: fnp.take(x, np.array([k]), axis=axis), elems)

    totals: list[Any] = []
    for k in reversed(range(size)) if reverse else range(size):
        totals.append(fn(totals[-1], at(k)) if totals else at(k))
    if not totals:
        return elems
    ordered = totals[::-1] if reverse else totals
    return fg.tree.map(lambda *xs: fnp.concatenate(xs, axis=axis), *ordered)


def _laid_out_otherwise(subject: Subject) -> Any:
    """Run with the same numbers in arrays of other strides."""

    def turned(value: Any) -> Any:
        if not isinstance(value, fg.Tensor) or not value.ndim:
            return value
        value = np.asarray(value)
        wide = np.repeat(value, 2, axis=-1)[..., ::2]
        return fg.tensor(wide if value.ndim == 1 else np.asfortranarray(value))

    return subject.f(*[turned(arg) for arg in subject.args])


# ------------------------------------------------------------------------------------- values


def valued(way: Way, margin: float = 1.0, finite: bool = False, signs: bool = False) -> Check:
    """A way to compute the results.

    ``finite``: only of programs whose results are finite; ``signs``: those of zeros have to stay.
    """

    def run(subject: Subject) -> None:
        measured = subject.measured(subject.f, subject.args, "value")
        if not finite or all(np.all(np.isfinite(leaf)) for leaf in subject.value):
            assert_agree(way(subject), subject.value, measured, margin, signs)

    return Check(run, rounds=margin > 1.0)


def passed(
    change: Callable[[fg.Program], fg.Program],
    margin: float = 1.0,
    finite: bool = False,
    signs: bool = False,
) -> Check:
    """Check that a pass keeps the results of a program."""

    def way(subject: Subject) -> Any:
        changed = change(subject.staged)
        if changed in (subject.plain, subject.staged) and change is not merge_common_subexpressions:
            return subject.value  # nothing that this pass is for
        subject.changed.add(change.__name__)
        return changed.verify()(*subject.args)

    return valued(way, margin, finite, signs)


def freed(name: str) -> Callable[[fg.Program], fg.Program]:
    """A pass without the limits by which it leaves small programs alone."""
    change, free = every_pass()[name], GROUNDS[name].free

    def freely(program: fg.Program) -> fg.Program:
        with ExitStack() as stack:
            for limit, value in free.items():
                stack.enter_context(patch(f"{change.__module__}.{limit}", value))
            return change(program)

    freely.__name__ = f"{name} without limits"
    return freely


def ruled(rules: Rules, margin: float = 1.0, finite: bool = False, signs: bool = False) -> Check:
    """Single rules of passes, all at once, of which those that apply are counted."""

    def way(subject: Subject) -> Any:
        own = counting(rules, subject.rules)
        return improve(subject.staged, own).verify()(*subject.args)

    return valued(way, margin, finite, signs)


def _again(make: Callable[[Subject], Callable[..., Any]]) -> Check:
    """Call several times with other numbers, and then with the first."""

    def run(subject: Subject) -> None:
        function = make(subject)
        for k, args in enumerate([subject.args, *subject.others, subject.args]):
            key = "value" if k in (0, 3) else ("other", k)
            measured = subject.measured(subject.f, args, key)
            assert_agree(function(*args), subject.f(*args), measured)

    return Check(run)


def _by_elements(subject: Subject) -> Any:
    """Compute small arrays element by element, as batches of small loops do."""
    return tuple(by_elements(subject.staged).verify().evaluate(_raw(subject)))


def _batched(subject: Subject) -> None:
    _assert_batch(subject, subject.f, subject.args, "f")


def _assert_batch(
    subject: Subject, function: Callable[..., Any], args: Sequence[Any], name: str
) -> None:
    rng = subject.rng("batch" + name)
    lists = stacked(rng, args, 3)
    numbers = [isinstance(arg, (bool, int, float, complex)) for arg in args]
    shared = [number or bool(rng.random() < 0.3) for number in numbers]
    if all(shared):
        shared = numbers
    if all(shared):
        return
    for examples in lists[1:]:
        examples[:] = [lists[0][k] if shared[k] else each for k, each in enumerate(examples)]
    axes = tuple(None if each else 0 for each in shared)
    given = [
        lists[0][k] if shared[k] else fg.tensor(np.stack([each[k] for each in lists]))
        for k in range(len(args))
    ]
    outs = fg.vmap(function, in_axes=axes)(*given)
    for i, examples in enumerate(lists):
        measured = subject.measured(function, examples, ("batch", name, i))
        own = pytrees.map(lambda out, i=i: np.asarray(out)[i], outs)
        assert_agree(own, function(*examples), measured)


# ------------------------------------------------------------------------------------- derivatives


def derived(
    quantity: str, way: Way, margin: float = 2.0, finite: bool = False, merged: Way | None = None
) -> Check:
    """Make a check of a derivative.

    ``finite``: compare only finite results, since an absent cotangent in one mode may be 0 * inf in
    another, and so may it in every mode with products of matrices, which passes may sum earlier.
    ``merged``: the quantity is computed with equal operations merged, for checks that merge them:
    their cotangents are added first, in the dtype of the result, which may be a narrow one.
    """

    def run(subject: Subject) -> None:
        of = getattr(subject, quantity)
        measured = subject.measured(of, subject.point, quantity)
        expected, actual = of(*subject.point), way(subject)
        numbers = [np.asarray(leaf) for leaf in pytrees.leaves((expected, actual))]
        if not (finite or subject.multiplies) or all(np.all(np.isfinite(each)) for each in numbers):
            try:
                assert_agree(actual, expected, measured, margin)
            except DifferenceError:
                if merged is None:
                    raise
                assert_agree(actual, merged(subject), measured, margin)

    needs = "derivatives linear" if quantity == "push" else "derivatives"
    return Check(run, needs, rounds=margin > 4.0)


def _batched_derivative(quantity: str) -> Check:
    def run(subject: Subject) -> None:
        of = getattr(subject, quantity)

        def function(*xs: Any) -> Any:
            return of(xs, subject.tangents, subject.cotangents)

        _assert_batch(subject, function, subject.xs, quantity)

    return Check(run, f"derivatives batch{' linear' * (quantity == 'push')}")


def _symmetric(way: Way) -> Check:
    """A check of second derivatives in another order, for programs where they are symmetric."""
    return replace(derived("second", way, 4.0, True), needs="derivatives symmetric")


def _push(make: Callable[[Subject], Callable[..., Any]]) -> Check:
    return derived("push", lambda s: fg.jvp(s.inexact_of(make(s)), s.xs, s.tangents)[1])


Make = Callable[[Subject], Callable[..., Any]]


def _pull(make: Make, once: bool = False) -> Check:
    """A check of reverse mode; ``once``: with equal operations merged, as passes do."""

    def way_of(make: Make) -> Way:
        return lambda s: fg.vjp(s.inexact_of(make(s)), *s.xs)[1](s.cotangents)

    merged = way_of(lambda s: s.plain) if once else None
    return derived("pull", way_of(make), finite=once, merged=merged)


def _second(make: Make, once: bool = False) -> Check:
    def way_of(make: Make) -> Way:
        def way(subject: Subject) -> Any:
            scalar = subject.scalar_of(subject.inexact_of(make(subject)), subject.cotangents)
            return several(fg.hvp(scalar, subject.xs, subject.tangents))

        return way

    merged = way_of(lambda s: s.plain) if once else None
    return derived("second", way_of(make), 4.0, once, merged)


def _inner(first: Sequence[Any], second: Sequence[Any]) -> Any:
    """The real inner product; a complex number counts as the pair of its parts."""
    total: Any = 0.0
    for one, two in zip(first, second, strict=True):
        total = total + fnp.sum((fnp.conj(one) * two).real)
    return total


def _both_modes(subject: Subject) -> None:
    """Check that forward and reverse mode agree: <ct, J t> = <J* ct, t>."""

    def forward(xs: Any, tangents: Any, cotangents: Any) -> Any:
        return _inner(subject.push(xs, tangents, cotangents), cotangents)

    def reverse(xs: Any, tangents: Any, cotangents: Any) -> Any:
        return _inner(subject.pull(xs, tangents, cotangents), tangents)

    _assert_one_number(subject, forward, reverse)


def _assert_one_number(
    subject: Subject, first: Callable[..., Any], second: Callable[..., Any]
) -> None:
    """Compare two numbers; an absent cotangent in one mode may be 0 * inf in the other."""
    one, two = [np.asarray(way(*subject.point), complex) for way in (first, second)]
    if not np.isfinite(one + two):
        return

    def measured() -> Scatter | None:
        found = [subject.scatter(way, subject.point, way.__name__) for way in (first, second)]
        if found[0] is None or found[1] is None:
            return None
        spread = found[0].spread[0] + found[1].spread[0] + _coarse(subject) * abs(one)
        return Scatter([one], [spread], found[0].meaningful and found[1].meaningful)

    assert_agree(one, two, measured, 4.0)


def _coarse(subject: Subject) -> float:
    """The rounding of the coarsest dtype among the operations."""
    dtypes = {spec.dtype for spec in subject.staged.specs() if spec.dtype.kind in "fc"}
    return max([float(np.finfo(dtype).eps) for dtype in dtypes] or [0.0])


def _reverse_over_forward(subject: Subject) -> Any:
    f = subject.scalar_of(subject.F, subject.cotangents)
    positions = tuple(range(len(subject.xs)))
    slope = fg.grad(lambda *xs: fg.jvp(f, xs, subject.tangents)[1], argnums=positions)
    return several(slope(*subject.xs))


def _reverse_over_reverse(subject: Subject) -> Any:
    f = subject.scalar_of(subject.F, subject.cotangents)
    gradient = fg.grad(f, argnums=tuple(range(len(subject.xs))))
    return fg.vjp(gradient, *subject.xs)[1](subject.tangents)


def _forward_over_forward(subject: Subject) -> None:
    def twice(xs: Any, tangents: Any, cotangents: Any) -> Any:
        f = subject.scalar_of(subject.F, cotangents)
        return fg.jvp(lambda *ys: fg.jvp(f, ys, tangents)[1], xs, tangents)[1]

    def curvature(xs: Any, tangents: Any, cotangents: Any) -> Any:
        return _inner(subject.second(xs, tangents, cotangents), tangents)

    _assert_one_number(subject, twice, curvature)


def _pulled_where_loops_are_staged(subject: Subject) -> Any:
    """The derivative with loops and branches staged, including branches that are not taken."""
    if any(isinstance(each.operation.structure, Control) for each in subject.staged.equations):
        return fg.jit(subject.pull)(*subject.point)
    return None


def is_refused(subject: Subject, error: Exception) -> bool:
    """Whether it is said, eagerly too, that there is no derivative, or no result at other numbers:
    of a singular matrix, of eigenvectors to equal eigenvalues, for complex numbers, or of a batch,
    where a shape depends on numbers; or that the function has no program, as a branch needs it."""
    if isinstance(error, (BatchError, TracerError)):
        ways = (_batched, lambda s: fg.program(s.F)(*s.xs))
        return not subject.looks and any(_raises(error, way, subject) for way in ways)
    return isinstance(error, (DifferentiationError, DtypeError, MatrixError)) and any(
        _raises(error, way, subject)
        for way in (
            lambda s: s.push(*s.point),
            lambda s: s.pull(*s.point),
            lambda s: s.second(*s.point),
            _reverse_over_forward,
            _reverse_over_reverse,
            _forward_over_forward,
            lambda s: [s.f(*args) for args in s.others],
            _batched,
            _pulled_where_loops_are_staged,
        )
    )


def _raises(error: Exception, way: Way, subject: Subject) -> bool:
    try:
        way(subject)
    except type(error):
        return True
    except Exception:
        return False
    return False


def _differences(subject: Subject) -> None:
    if not subject.is_held and _coarse(subject) < 1e-12:
        assert_differences(subject)


def _complex_step(subject: Subject) -> None:
    subject.analytic = assert_complex_step(subject)


def _second_differences(subject: Subject) -> None:
    if not subject.is_held and _coarse(subject) < 1e-12:
        assert_differences(subject, second=True)


_ADDING: Final = frozenset("fold_into_contractions optimize prepared put_rows_last".split())
"""Passes that change the order of sums, or contain such a pass."""

RULES: Final = MappingProxyType(every_rule())


def _has_numpys_bits(subject: Subject) -> None:
    """Check that machine code for solvers has the bits of NumPy's, forwards and backwards."""
    programs = [(subject.staged, _raw(subject))]
    if subject.is_differentiable:
        point = [raw(x) for x in pytrees.leaves(subject.point)]
        programs.append((fg.program(subject.pull)(*subject.point), point))
    for program, values in programs:
        plain = prepared_exactly(simplified(program))
        values = [np.ascontiguousarray(x) if isinstance(x, np.ndarray) else x for x in values]
        compiled = machine_code_of(plain)
        if compiled is None:
            continue
        with np.errstate(all="ignore"):
            expected, actual = compile_program(plain)(*values), compiled.run(*values)
        for one, two in zip(expected, actual or (), strict=True):
            if not np.array_equal(one, two, equal_nan=np.asarray(one).dtype.kind == "f"):
                raise DifferenceError(f"machine code has other bits: {two!r}, not {one!r}")


def _stays_within_its_pattern(subject: Subject) -> None:
    """Check that results move only where the pattern says that they depend on what moved."""
    try:
        fg.program(subject.F)(*subject.xs)
    except TracerError:
        return  # what is not staged has no pattern
    draws = subject.rng("pattern")
    masks = [draws.uniform(size=np.shape(t)) < 0.3 for t in subject.tangents]
    pairs = zip(subject.tangents, masks, strict=True)
    tangents = tuple([np.where(mask, t, np.zeros_like(t)) for t, mask in pairs])
    leaves = pytrees.leaves(fg.jvp(subject.F, subject.xs, tangents)[1])
    change = np.concatenate([np.zeros(0), *[np.asarray(leaf).reshape(-1) for leaf in leaves]])
    has_moved = np.concatenate([mask.reshape(-1) for mask in masks])
    positions = tuple(range(len(subject.xs)))
    for is_local in (False, True):
        pattern = fg.sparse.pattern(subject.F, positions, local=is_local)(*subject.xs)
        is_still = pattern.matrix.astype(int) @ has_moved.astype(int) == 0
        wrong = np.flatnonzero(is_still & (change != 0) & ~np.isnan(change))
        if len(wrong):
            raise DifferenceError(
                f"element {wrong[0]} of the result moves, and its row of the pattern is empty in"
                f" the columns that moved (local={is_local})"
            )


def _passes_are_tried(subject: Subject) -> None:
    """Compile the function and its derivatives while each pass is tried on values."""
    with fg.testing.validated():
        fg.jit(subject.f, backend="numpy")(*subject.args)
        fg.jit(subject.f, backend="native", relaxed=True)(*subject.args)
        if subject.is_differentiable:
            fg.jit(subject.pull, backend="native")(*subject.point)
            fg.jit(subject.second, backend="numpy")(*subject.point)


def _rules(are_exact: bool) -> Rules:
    own = [name for name in RULES if is_exact(name) == are_exact]
    return joined(
        *[{operation: (rule,)} for name in own for operation, rule in RULES[name].items()]
    )


def _checks() -> dict[str, Check]:
    found = {
        "program": valued(lambda s: s.staged(*s.args)),
        "layout": valued(_laid_out_otherwise),
        "one by one": valued(_one_by_one, 4.0),
        "json": valued(lambda s: _reread(s)(*s.args)),
        "pickle": valued(_pickled),
        "numpy source": valued(_numpy_source),
        "numpy backend": valued(lambda s: compile_program(s.staged)(*_raw(s))),
        "numpy's bits": Check(_has_numpys_bits),
        "prepared, compiled": valued(
            lambda s: compile_program(prepared(optimize(s.staged)))(*_raw(s))
        ),
        "relaxed": valued(lambda s: optimize(s.staged, relaxed=True).verify()(*s.args), 4.0, True),
        "by elements": valued(_by_elements, 4.0, True),
        "checkpoint": valued(lambda s: fg.checkpoint(s.f)(*s.args)),
        "jit": _again(lambda s: fg.jit(s.f)),
        "jit, plain backend": _again(lambda s: fg.jit(s.f, backend=Plain())),
        "jit, native": valued(lambda s: fg.jit(s.f, backend="native")(*s.args), 8.0, True),
        "jit of vjp, native": derived(
            "pull", lambda s: fg.jit(s.pull, backend="native")(*s.point), 8.0, True
        ),
        "jit, relaxed": valued(lambda s: fg.jit(s.f, relaxed=True)(*s.args), 4.0, True),
        "validated": Check(_passes_are_tried),
        "vmap": Check(_batched, "batch"),
        "linearize": derived("push", lambda s: fg.linearize(s.F, *s.xs)[1](*s.tangents)),
        "jit of jvp": derived("push", lambda s: fg.jit(s.push)(*s.point)),
        "jvp of jit": _push(lambda s: fg.jit(s.f)),
        "jvp of program": _push(lambda s: s.staged),
        "jvp of checkpoint": _push(lambda s: fg.checkpoint(s.f)),
        "jvp of optimized": _push(lambda s: optimize(s.staged)),
        "vmap of jvp": _batched_derivative("push"),
        "jit of vjp": derived("pull", lambda s: fg.jit(s.pull)(*s.point)),
        "vjp of jit": _pull(lambda s: fg.jit(s.f), True),
        "vjp of program": _pull(lambda s: s.staged),
        "vjp of checkpoint": _pull(lambda s: fg.checkpoint(s.f)),
        "vjp of optimized": _pull(lambda s: optimize(s.staged), True),
        "optimized vjp": derived(
            "pull", lambda s: optimize(fg.program(s.pull)(*s.point)).verify()(*s.point)
        ),
        "relaxed vjp": derived(
            "pull",
            lambda s: optimize(fg.program(s.pull)(*s.point), relaxed=True)(*s.point),
            8.0,
            True,
        ),
        "vmap of vjp": _batched_derivative("pull"),
        "vmap of jit of vjp": derived(
            "pull",
            lambda s: pytrees.map(
                lambda out: out[0], fg.vmap(fg.jit(s.pull), axis_size=2, in_axes=None)(*s.point)
            ),
        ),
        "forward = reverse": Check(_both_modes, "derivatives linear"),
        "differences": Check(_differences, "derivatives"),
        "complex step": Check(_complex_step, "derivatives"),
        "reverse over forward": _symmetric(_reverse_over_forward),
        "reverse over reverse": _symmetric(_reverse_over_reverse),
        "forward over forward": Check(_forward_over_forward, "derivatives symmetric"),
        "pattern": Check(_stays_within_its_pattern, "derivatives"),
        "second differences": Check(_second_differences, "derivatives"),
        "jit of hvp": derived("second", lambda s: fg.jit(s.second)(*s.point), 4.0),
        "hvp of jit": _second(lambda s: fg.jit(s.f), True),
        "hvp of checkpoint": _second(lambda s: fg.checkpoint(s.f)),
        "vmap of hvp": _batched_derivative("second"),
    }
    for name, change in every_pass().items():
        relaxed = change in RELAXED  # where infinities meet, these need not be NaN
        rounds = relaxed or name == "fold_into_contractions"
        exact = not relaxed and name not in _ADDING
        found[f"pass {name}"] = passed(change, 4.0 if rounds else 1.0, relaxed, exact)
    for name, ground in GROUNDS.items():
        if ground.free:
            margin = 1.0 if ground.exact else 4.0
            found[f"pass {name} without limits"] = passed(freed(name), margin, signs=ground.exact)
    found["pass rules"] = ruled(_rules(True), signs=True)
    found["pass relaxed rules"] = ruled(_rules(False), 4.0, True)
    return found


CHECKS: Final[Mapping[str, Check]] = _checks()

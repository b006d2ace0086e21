"""``holds``: a test of laws of a function, at points that Hypothesis draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log10
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from funcgrad._core import pytrees
from funcgrad._core.specs import is_inexact
from funcgrad._transforms.arguments import check_function
from funcgrad.errors import ArgumentError, MissingPackageError
from funcgrad.testing import laws
from funcgrad.testing.report import watched
from funcgrad.testing.strategies.arrays import Drawn, check_strategy, hypothesis_for

if TYPE_CHECKING:
    import hypothesis

_WITH_OPTIONS: Final = (
    (laws.chain_rule, "laws.chain_rule(outer)"),
    (laws.equivariant, "laws.equivariant(transformation)"),
    (laws.homogeneous, "laws.homogeneous(1)"),
    (laws.invariant, "laws.invariant(transformation)"),
    (laws.inverse, "laws.inverse(g)"),
)
_LEAST: Final = 1e-12
_FAR: Final = 16.0


def holds(
    *of_laws: Callable[..., None], at: Drawn, settings: hypothesis.settings | None = None
) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """Make a property-based test: laws hold for a function at points that Hypothesis draws.

    Parameters
    ----------
    *of_laws : laws
        Functions of ``funcgrad.testing.laws``, or any ``law(f, args, *, seed)`` that raises an
        ``AssertionError``.
    at : strategy, or tuple of strategies
        A tuple has a strategy for each argument. A single strategy draws the tuple of arguments, or
        the only argument if it draws something else.
    settings : hypothesis.settings, optional
        By default 100 points for each law, without a deadline. Hypothesis's phase ``explain`` is
        always left out: it calls a failing test hundreds of times more, and does not help with
        arrays.

    Returns
    -------
    callable
        A decorator that turns the function into its test. Pytest runs the test separately for each
        law; it collects names that begin with ``test``. A call ``test(law)`` tests one law.

    Raises
    ------
    ArgumentError
        A law is not a law, or lacks its options; ``at`` is not a strategy.
    MissingPackageError
        Hypothesis is not installed.

    Notes
    -----
    Hypothesis is told how close each point is to breaking the law (``hypothesis.target``), so in
    the second half of the draws its search climbs towards the worst disagreement. That finds
    mistakes that grow slowly towards a point: an error of 1e-9 in the position of a singularity was
    found by 14 of 24 searches of 200 draws, and by 0 without climbing; a bump of 0.1 % with a width
    of 0.1 in three dimensions by 5 of 16, and by 2 without. Climbing does not help if a mistake
    starts suddenly, in one branch: ``at=strategies.points(f, ...)`` finds such mistakes, because it
    crosses the comparisons of ``f`` and its rules.

    Hypothesis also draws the seed of directions and cotangents. A failing point is shrunk, and the
    report ends with code that repeats it. Points with elements above 16 at which ``f`` (nearly)
    overflows, such as 500 for ``exp``, are skipped.

    Examples
    --------
    >>> import funcgrad as fg
    >>> from funcgrad.testing import holds, laws, strategies as st
    >>> def energy(x):
    ...     return fg.numpy.sum(x**4) - fg.numpy.sum(x) ** 2
    >>> test_energy = holds(laws.modes_agree, laws.taylor, at=st.tensors(shape=3))(energy)
    >>> test_energy(laws.taylor)
    """
    _check_laws(of_laws)
    points = _points(at)
    testers, pytest = _packages()
    st = hypothesis_for("holds")
    chosen = testers.settings(deadline=None) if settings is None else settings
    if not isinstance(chosen, testers.settings):
        raise ArgumentError(f"holds: settings are hypothesis.settings(...), not {settings!r:.60}.")
    phases = [phase for phase in chosen.phases if phase is not testers.Phase.explain]
    chosen = testers.settings(chosen, phases=phases)

    def decorate(f: Callable[..., Any]) -> Callable[..., None]:
        check_function("holds", f)

        def test(law: Callable[..., None], args: tuple[Any, ...], seed: int) -> None:
            with watched() as largest:
                testers.assume(not _overflows(f, args))
                law(f, args, seed=seed)
            testers.target(log10(max(largest(), _LEAST)), label=_name(law))

        title = getattr(f, "__name__", type(f).__name__)
        # Hypothesis writes code with the name, so it has to be an identifier.
        test.__name__ = test.__qualname__ = title if title.isidentifier() else "function"
        test.__module__ = getattr(f, "__module__", None) or __name__
        test.__doc__ = f"The laws {', '.join(map(_name, of_laws))} hold."
        drawn = testers.given(args=points, seed=st.integers(0, 2**32 - 1))(test)
        return pytest.mark.parametrize(
            "law", of_laws, ids=[_name(law).removeprefix("laws.") for law in of_laws]
        )(chosen(drawn))

    return decorate


def _overflows(f: Callable[..., Any], args: tuple[Any, ...]) -> bool:
    """Whether a function overflows, or nearly overflows, at a point with large elements."""
    if all(np.all(np.abs(x) <= _FAR) for x in map(np.asarray, pytrees.leaves(args))):
        return False
    with np.errstate(all="ignore"):
        values = [*map(np.asarray, pytrees.leaves(f(*args)))]
    inexact = [x for x in values if is_inexact(x.dtype)]
    return not all(np.all(np.abs(x) < float(np.finfo(x.dtype).max) ** 0.5) for x in inexact)


def _packages() -> tuple[ModuleType, ModuleType]:
    """Import Hypothesis and pytest."""
    try:
        import hypothesis
        import pytest
    except ImportError as error:
        raise MissingPackageError(
            f"holds: it makes tests of {error.name}, which is not installed. Install it with `pip"
            f" install {error.name}`, or call laws without it: laws.taylor(f, (x,))."
        ) from error
    return hypothesis, pytest


def _check_laws(of_laws: Sequence[Any]) -> None:
    names = ", ".join([f"laws.{name}" for name in laws.__all__])
    if not of_laws:
        raise ArgumentError(f"holds: name the laws, first of all. There are {names}.")
    for law in of_laws:
        for maker, call in _WITH_OPTIONS:
            if law is maker:
                raise ArgumentError(f"holds: {_name(law)} is made by a call, as {call}.")
        if not callable(law):
            raise ArgumentError(f"holds: {law!r} is not a law. The laws are {names}.")


def _name(law: object) -> str:
    name = getattr(law, "__name__", repr(law))
    return name if name.startswith("laws.") or not _is_ours(law) else f"laws.{name}"


def _is_ours(law: object) -> bool:
    return any(law is getattr(laws, name) for name in laws.__all__)


def _points(at: Drawn) -> Any:
    """Return the strategy of the tuple of arguments."""
    if isinstance(at, tuple):
        if not at:
            raise ArgumentError("holds: at has no strategy. Write at=(st.tensors(shape=3),).")
        for number, strategy in enumerate(at):
            check_strategy("holds", f"at[{number}]", strategy)
        return hypothesis_for("holds").tuples(*at)
    check_strategy("holds", "at", at)
    return at.map(lambda point: point if isinstance(point, tuple) else (point,))

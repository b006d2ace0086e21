"""``quad``: integrate a function, with derivatives with respect to parameters and limits.

>>> import funcgrad as fg
>>> import funcgrad.numpy as fnp
>>> def moment(rate):
...     value, error = quad(lambda x: x * fnp.exp(-rate * x), 0.0, fnp.inf)
...     return value
>>> moment(2.0), fg.grad(moment)(2.0)
(Tensor(0.25...), Tensor(-0.25...))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._base.floating_errors import ignoring
from funcgrad._control.carry import count_of, handed, placed
from funcgrad._control.choices import is_unknown, number_in
from funcgrad._control.closures import with_closed_values
from funcgrad._control.whiles import fori_loop, while_loop
from funcgrad._core import pytrees
from funcgrad._core.pytrees import Structure, pytree
from funcgrad._core.trace import RAW, Value, concrete
from funcgrad._hints.lookup import answering
from funcgrad._hooks.result_watch import watched
from funcgrad._primitives.structural import unfollowed
from funcgrad._programs.equation import spec_inside
from funcgrad._staging.static_arguments import parts_of
from funcgrad._transforms.arguments import values_of
from funcgrad._transforms.batch import vmap
from funcgrad._transforms.custom import custom_jvp
from funcgrad._transforms.stop import stop_gradient
from funcgrad.errors import ArgumentError, ConvergenceError, ProgramError
from funcgrad.implicit.fixed_points import tolerance
from funcgrad.integrate.gauss_kronrod import NODES, Panel, panel_integrals, panel_sums, weighted
from funcgrad.integrate.limits import Limits, check_integrand, limits_of
from funcgrad.integrate.own_loop import own_integral
from funcgrad.integrate.weighted_integrals import Outcome, weighted_integral
from funcgrad.tensor.tensor import Tensor, wrap

RUNNING: Final = 0
DONE: Final = 1
NOT_FINITE: Final = -1
TOO_NARROW: Final = -2

_REASONS: Final = MappingProxyType(
    {
        RUNNING: "The error is above the tolerance after limit={limit} panels.",
        NOT_FINITE: "The function is not finite at some point inside the limits.",
        TOO_NARROW: "A panel is as narrow as its dtype allows, and its error is too large.",
    }
)
_ADVICE: Final = (
    " Pass the positions of jumps, poles and peaks as points, allow a larger limit, epsabs or"
    " epsrel, or take the best value with failed='keep'."
)


@watched
@answering
def quad(
    func: Callable[..., Any],
    a: Any,
    b: Any,
    args: Any = (),
    *,
    epsabs: float | None = None,
    epsrel: float | None = None,
    limit: int = 50,
    points: Sequence[Any] | None = None,
    weight: str | None = None,
    wvar: object = None,
    full_output: bool = False,
    failed: str = "raise",
) -> Any:
    """Integrate a function of one variable between two limits, which may be infinite.

    The method is adaptive: panels with a large error are halved until the sum of all errors is
    below the tolerance. The integral has derivatives with respect to ``args``, the limits, and the
    values that ``func`` closes over. It works inside ``jit`` and ``vmap``, where each example has
    its own panels.

    Parameters
    ----------
    func : callable
        ``func(x, *args)`` returns a number, an array or a pytree of arrays, real or complex. It is
        called with all nodes of a panel at once, by ``vmap``, so ``x`` is a scalar inside.
    a, b : scalar
        The limits, real; ``b`` may be less than ``a``. Inside ``jit``, an infinite limit must not
        depend on the arguments.
    args : tuple
        Further arguments of ``func``; anything else than a tuple is one argument.
    epsabs, epsrel : float, optional
        The error may be ``max(epsabs, epsrel * max(abs(integral)))``. The default of both is the
        square root of the machine epsilon, 1.5e-8 in float64.
    limit : int
        The maximum number of panels.
    points : sequence of float, optional
        Points between finite limits at which the function has jumps, kinks, poles or peaks.
    weight : {"cos", "sin", "alg", "alg-loga", "alg-logb", "alg-log", "cauchy"}, optional
        A weight function that multiplies ``func``, with SciPy's names: cos(w x) or sin(w x), where
        ``b`` may be infinite; (x - a)**alpha * (b - x)**beta, for "alg-loga" times log(x - a), for
        "alg-logb" times log(b - x), for "alg-log" times both; 1 / (x - c), which gives the
        principal value.
    wvar : scalar or tuple, optional
        The parameters of the weight: w; (alpha, beta), greater than -1; c, between a and b. The
        integral has derivatives with respect to them.
    full_output : bool
        Whether to return a dict with ``"neval"``, ``"last"`` (the number of panels) and
        ``"status"`` (1 for success) as a third result.
    failed : {"raise", "nan", "keep"}
        The behaviour if the error is above the tolerance: an error (outside of ``jit`` and
        ``vmap``, in which the integral is NaN), NaN, or the best value.

    Returns
    -------
    y : Tensor or pytree
        The integral, like the result of ``func``.
    abserr : Tensor
        An estimate of the absolute error, the greatest over all elements. It has no derivative.

    Raises
    ------
    ConvergenceError
        The error is above the tolerance, and ``failed`` is "raise".
    FunctionError, ArgumentError, ShapeError, DtypeError
        ``func`` does not take these arguments, a limit is not a real scalar, or an option is not
        allowed.

    See Also
    --------
    fixed_quad : Few nodes, without an estimate of the error.
    nquad, dblquad : Integrals over several variables.

    Notes
    -----
    Each panel has the 21 nodes of Gauss and Kronrod, with QUADPACK's estimate of the error. The
    function is not called at the limits, so it may be infinite there. In a panel that
    touches such an end, or one of ``points``, and was cut once, the nodes crowd towards the end:
    with x = end + h u⁴ roots and logarithms become smooth. For an infinite limit the variable is
    x = a + (1 - t) / t with t in (0, 1], and x = t / (1 - t²) if both are infinite. Source:
    Piessens and others, "QUADPACK", 1983.

    The derivative is the integral of the derivative of ``func`` over the same panels, and by
    Leibniz' rule ``func(b)`` and ``-func(a)`` for the limits. Its error is not estimated: choose
    small tolerances where ``func`` is smooth and its derivative has sharper peaks.

    A ``func`` that branches on ``x`` with ``if`` is called for each side, as under ``vmap``. While
    it is differentiated, it must not close over the values that are followed: pass those as
    ``args``.

    Outside of ``jit``, the loop over panels becomes a program of its own if the same ``func`` is
    integrated again and returns one array. The program returns the same bits in a ninth of the
    time.

    Examples
    --------
    >>> import funcgrad as fg
    >>> import funcgrad.numpy as fnp
    >>> value, error = quad(lambda x: 1.0 / fnp.sqrt(x), 0.0, 1.0)
    >>> value, bool(error < 1e-8)
    (Tensor(2.0), True)

    The derivative of the normal distribution's integral in its upper limit is its density.

    >>> def below(x):
    ...     return quad(fg.scipy.stats.norm.pdf, -fnp.inf, x)[0]
    >>> below(0.0), fg.grad(below)(0.0)
    (Tensor(0.5), Tensor(0.39894228...))
    """
    name = "quad"
    more = check_integrand(name, func, 1, args)
    if weight is not None:
        if points is not None:
            raise placed(ArgumentError, f"{name}: pass points or a weight, not both.")
        chosen = {"epsabs": epsabs, "epsrel": epsrel, "limit": limit, "failed": failed}
        plain = partial(_plain, chosen)
        results = weighted_integral(plain, func, (a, b), more, weight, wvar)
        return results if full_output else results[:2]
    limits, ends = limits_of(name, a, b, points)
    default = float(np.sqrt(np.finfo(limits.dtype).eps))
    absolute, relative = (
        default if value is None else tolerance(name, word, value)
        for word, value in (("epsabs", epsabs), ("epsrel", epsrel))
    )
    most = max(count_of(name, "limit", limit), limits.panel_count)
    if not isinstance(failed, str) or failed not in ("raise", "nan", "keep"):
        raise placed(
            ArgumentError, f"{name}: failed has to be 'raise', 'nan' or 'keep', got {failed!r}."
        )
    leaves, structure = pytrees.flatten(more)
    params = handed(values_of(name, leaves, structure, lambda: "args"))
    options = limits, (absolute, relative, most)
    outs = own_integral(
        func,
        [*map(wrap, ends)],
        [*map(wrap, params)],
        (name, *options, structure, parts_of(structure)),
        lambda f, ends, params: _of_one_value(*_integrated(f, ends, params, structure, *options)),
    )
    form = _ONE_VALUE
    if outs is None:
        outs, form = _integrated(func, ends, params, structure, *options)
    *leaves_out, error, status, panels = outs
    value = _accepted(pytrees.unflatten(form, leaves_out), status, failed, most)
    if not full_output:
        return value, error
    neval = NODES * (2 * panels - limits.panel_count)
    return value, error, {"neval": neval, "last": panels, "status": status}


def _plain(
    options: dict[str, Any],
    func: Callable[..., Any],
    a: object,
    b: object,
    args: tuple[object, ...],
    points: Sequence[float] | None,
) -> Outcome:
    """``quad`` without a weight, with all outputs."""
    limit = options["limit"] + (0 if points is None else len(points))
    return quad(func, a, b, args, points=points, full_output=True, **{**options, "limit": limit})


_ONE_VALUE: Final[Structure] = pytrees.flatten(0.0)[1]


def _of_one_value(outs: list[Tensor], form: Structure) -> list[Tensor]:
    """The results for a function that returns one array; others have no programs."""
    if form != _ONE_VALUE:
        raise ProgramError("quad: the function returns several values.")
    return outs


def _integrated(
    func: Callable[..., Any],
    ends: Sequence[Value],
    params: Sequence[Value],
    structure: Structure,
    limits: Limits,
    options: tuple[float, float, int],
) -> tuple[list[Tensor], Structure]:
    """The integrals of all leaves, the error, the status and the number of panels; their form."""
    name = "quad"
    form: list[Structure | None] = [None]

    def flat(values: Sequence[Value]) -> list[Value]:
        x, *inner = map(wrap, values)
        out_leaves, out_form = pytrees.flatten(func(x, *pytrees.unflatten(structure, inner)))
        if form[0] != out_form:  # jit counts every assignment as a change
            form[0] = out_form
        return values_of(name, out_leaves, out_form, lambda: "the function's result")

    params = [*map(concrete, params)]
    inputs = [concrete(limits.example()), *params]
    closure = with_closed_values(name, flat, [*map(spec_inside, inputs)], inputs)
    count = len(params)

    def leaves_at(x: Tensor, values: Sequence[Value]) -> list[Tensor]:
        outs = closure.run([concrete(x), *values[:count]], values[count:])
        return [_inexact(wrap(out)) for out in outs]

    integral = _Integral(leaves_at, limits, options)
    outs = integral.value([*map(concrete, ends)], [*params, *closure.values])
    assert form[0] is not None
    return outs, form[0]


def _inexact(x: Tensor) -> Tensor:
    return x.astype(float) if x.dtype.kind in "iub" else x


def _accepted(value: Any, status: Tensor, failed: str, most: int) -> Any:
    if failed == "keep":
        return value
    raw = concrete(status)
    if failed == "raise" and not is_unknown(raw):
        code = int(number_in(raw))
        if code != DONE:
            reason = _REASONS[code].format(limit=most)
            raise placed(ConvergenceError, f"quad: {reason}{_ADVICE}")
        return value
    return pytrees.map(lambda leaf: fnp.where(status > 0, leaf, np.nan), value)


@pytree(slots=True)
class _Panels:
    """All panels so far, in arrays of the greatest number; the rows from ``count`` on are zero."""

    panels: Panel
    sums: list[Tensor]
    errors: Tensor
    first: Tensor
    last: Tensor
    count: Tensor
    status: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class _Integral:
    """An integral as a function of limits and parameters.

    The panels are found for values without derivatives. Then the integral is the sum over these
    panels, so its derivative is the sum of the integrand's derivatives.

    Attributes
    ----------
    leaves_at : callable
        ``(x, values of parameters) -> leaves of the integrand``.
    limits : Limits
    options : tuple
        The absolute and the relative tolerance, and the greatest number of panels.
    """

    leaves_at: Callable[[Tensor, Sequence[Value]], list[Tensor]]
    limits: Limits
    options: tuple[float, float, int]

    def value(self, ends: Sequence[Value], params: Sequence[Value]) -> list[Tensor]:
        """The integrals, the error, the status, and the number of panels."""
        still = [wrap(unfollowed(end)) for end in ends]
        ended = self._cut(still, [unfollowed(value) for value in params])
        leaves = self._over(ended, still, ends, params)
        return [*leaves, fnp.sum(ended.errors), ended.status, ended.count]

    def _cut(self, ends: list[Tensor], params: Sequence[Value]) -> _Panels:
        """Cut panels until the error is below the tolerance."""
        absolute, relative, most = self.options

        def sums_of(panel: Panel) -> tuple[list[Tensor], Tensor]:
            return panel_sums(lambda t: self._in_variable(t, ends, params), panel)

        def told(now: _Panels) -> _Panels:
            sizes = [fnp.max(fnp.abs(fnp.sum(x, 0)), initial=0.0) for x in now.sums]
            size = fnp.max(fnp.stack(sizes)) if sizes else fnp.zeros(())
            error = fnp.sum(now.errors)
            worst = fnp.argmax(now.errors)
            wide = fnp.abs(now.panels.right[worst] - now.panels.left[worst])
            near = fnp.maximum(fnp.abs(now.panels.right[worst]), fnp.abs(now.panels.left[worst]))
            narrow = wide <= 100.0 * float(np.finfo(wide.dtype).eps) * near
            status = fnp.where(narrow, TOO_NARROW, RUNNING)
            status = fnp.where(error <= fnp.maximum(absolute, relative * size), DONE, status)
            status = fnp.where(fnp.isfinite(error), status, NOT_FINITE)
            return _Panels(now.panels, now.sums, now.errors, now.first, now.last, now.count, status)

        def goes_on(now: _Panels) -> Tensor:
            return (now.status == RUNNING) & (now.count < most)

        def advance(now: _Panels) -> _Panels:
            worst = fnp.argmax(now.errors)
            panel = pytrees.map(lambda x: x[worst], now.panels)
            first, last = now.first[worst], now.last[worst]
            middle = panel.middle()
            no = fnp.zeros_like(first)
            halves = pytrees.map(
                lambda *two: fnp.stack(two),
                Panel(panel.left, middle, first, no),
                Panel(middle, panel.right, no, last),
            )
            put = _put(now.count, worst)
            rows = halves, *vmap(sums_of)(halves), fnp.stack([first, no]), fnp.stack([no, last])
            olds = now.panels, now.sums, now.errors, now.first, now.last
            panels, sums, errors, first, last = pytrees.map(put, olds, rows)
            return told(_Panels(panels, sums, errors, first, last, now.count + 1, now.status))

        with ignoring():  # a node may be close to a pole
            return while_loop(
                goes_on, advance, told(_first(self.limits.borders(ends), sums_of, most))
            )

    def _over(
        self, ended: _Panels, still: list[Tensor], ends: Sequence[Value], params: Sequence[Value]
    ) -> list[Tensor]:
        """The integrals over fixed panels, and over the way of each limit that moves."""

        def added(k: Any, sums: list[Tensor]) -> list[Tensor]:
            panel = pytrees.map(lambda x: x[k], ended.panels)
            more = panel_integrals(lambda t: self._in_variable(t, still, params), panel)
            return [x + y for x, y in zip(sums, more, strict=True)]

        sums = fori_loop(0, ended.count, added, [fnp.zeros_like(x[0]) for x in ended.sums])
        for sign, end in zip(self.limits.edges, ends, strict=False):
            if type(end) not in RAW:
                moved = beyond(self.leaves_at, wrap(end), params)
                sums = [x + sign * y for x, y in zip(sums, moved, strict=True)]
        return sums

    def _in_variable(self, t: Tensor, ends: list[Tensor], params: Sequence[Value]) -> list[Tensor]:
        """The integrand in the variable of the panels."""
        x, slope = self.limits.point(t, ends)
        leaves = self.leaves_at(x, params)
        return (
            leaves if slope is None else [slope.astype(leaf.real.dtype) * leaf for leaf in leaves]
        )


def beyond(
    leaves_at: Callable[[Tensor, Sequence[Value]], list[Tensor]],
    end: Tensor,
    params: Sequence[Value],
) -> list[Tensor]:
    """The integral from the value of a limit to the limit: 0, but not its derivatives.

    Gauss' rule with 5 nodes is exact for them up to the tenth order.
    """
    still = wrap(unfollowed(concrete(end)))
    way = end - still
    nodes, weights = (x.astype(end.dtype) for x in np.polynomial.legendre.leggauss(5))
    leaves = vmap(lambda u: leaves_at(still + way * u, params))(0.5 + 0.5 * nodes)
    return [weighted(fnp.asarray(0.5 * weights), _times(way, leaf)) for leaf in leaves]


@custom_jvp
def _times(way: Tensor, values: Tensor) -> Tensor:
    """Multiply by a way of length 0; where the integrand is infinite, only derivatives show it."""
    return fnp.where(fnp.isfinite(values), way * values, 0.0)


@_times.defjvp
def _times_further(
    primals: tuple[Tensor, Tensor], tangents: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    (way, values), (change, changes) = primals, tangents
    finite = fnp.isfinite(values)
    more = fnp.where(finite, way * changes, 0.0)
    # Linear in the change, but 0 where the limit does not move and the integrand is infinite, as
    # inf * 0 is not; and NaN where it moves and the integrand is NaN.
    sign = fnp.sign(stop_gradient(values))
    factor = fnp.where(finite, values, fnp.where(fnp.isfinite(sign), sign, 1.0))
    huge = fnp.where(finite, 1.0, np.finfo(values.dtype).max)
    undefined = fnp.where(fnp.isnan(values), 0.0, 1.0)
    moved = factor * change * huge * huge * undefined * huge * huge  # the same backwards
    return _times(way, values), moved + more


def _first(borders: Tensor, sums_of: Callable[[Panel], Any], most: int) -> _Panels:
    """The panels before any is cut."""
    count = len(borders) - 1
    no = fnp.zeros(count, bool)
    panels = Panel(borders[:-1], borders[1:], no, no)
    sums, errors = vmap(sums_of)(panels)

    def longer(x: Tensor) -> Tensor:
        return fnp.concatenate([x, fnp.zeros((most - count, *x.shape[1:]), x.dtype)])

    panels, sums, errors, first, last = pytrees.map(longer, (panels, sums, errors, ~no, ~no))
    return _Panels(panels, sums, errors, first, last, fnp.asarray(count), fnp.asarray(RUNNING))


def _put(place: Tensor, worst: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
    """A function that replaces a row by the first half, and puts the second half at a place."""
    return lambda rows, halves: rows.at[worst].set(halves[0]).at[place].set(halves[1])

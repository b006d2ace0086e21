"""The policy at edges, as a table of functions at operands: the required values, and why.

``python -m tests.edges.page`` writes it into the documentation, ``test_policy.py`` checks it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

import funcgrad.numpy as fnp
from funcgrad import nn
from funcgrad.scipy import special, stats

INF, NAN = np.inf, np.nan


class Edge(NamedTuple):
    """A function at an edge.

    ``first`` is the gradient, ``second`` the second derivative, or the diagonal of the Hessian;
    None is an unspecified value.
    """

    name: str
    function: Callable[..., Any]
    at: Any
    value: float
    first: Any
    second: Any
    why: str


FORCED, KINK, TIES = "the limit", "least subgradient", "equal elements share"
ABSENT, END, SCALE = "not chosen, so absent", "from inside", "at every scale"

POLICY: Final = (
    # powers and roots
    Edge("x ** x", lambda x: x**x, 0.0, 1.0, -INF, INF, END),
    Edge("x ** 0.0", lambda x: x**0.0, 0.0, 1.0, 0.0, 0.0, FORCED),
    Edge("x ** 1.5", lambda x: x**1.5, 0.0, 0.0, 0.0, INF, END),
    Edge("0.0 ** y", lambda y: fnp.power(0.0, y), 1.0, 0.0, 0.0, 0.0, FORCED),
    Edge("power(1e-200, y)", lambda y: fnp.power(1e-200, y), 1.0, 1e-200,
         1e-200 * np.log(1e-200), 1e-200 * np.log(1e-200) ** 2, SCALE),
    Edge("sqrt(x)", fnp.sqrt, 0.0, 0.0, INF, -INF, END),
    Edge("cbrt(x)", fnp.cbrt, 0.0, 0.0, INF, None, FORCED),
    Edge("cbrt(x)", fnp.cbrt, INF, INF, 0.0, 0.0, FORCED),
    Edge("reciprocal(x)", fnp.reciprocal, INF, 0.0, 0.0, 0.0, FORCED),
    # logarithms and exponentials
    Edge("log(x)", fnp.log, 0.0, -INF, INF, -INF, END),
    Edge("log(x)", fnp.log, -1.0, NAN, NAN, NAN, "outside, as the value"),
    Edge("log1p(x)", fnp.log1p, -1.0, -INF, INF, -INF, END),
    Edge("expm1(x)", fnp.expm1, -INF, -1.0, 0.0, 0.0, FORCED),
    Edge("logaddexp(x, -inf)", lambda x: fnp.logaddexp(x, -INF), 1.0, 1.0, 1.0, 0.0, FORCED),
    Edge("logaddexp(x, -inf)", lambda x: fnp.logaddexp(x, -INF), -INF, -INF, 0.5, 0.0, TIES),
    Edge("logsumexp(x)", fnp.logsumexp, (1e17, 1e17), 1e17, (0.5, 0.5), (0.25, 0.25), SCALE),
    Edge("logsumexp(x)", fnp.logsumexp, (INF, INF), INF, (0.5, 0.5), (0.0, 0.0), TIES),
    Edge("logsumexp(x)", fnp.logsumexp, (-INF, -INF), -INF, (0.0, 0.0), (0.0, 0.0), ABSENT),
    Edge("softmax(x)[0]", lambda x: special.softmax(x)[0], (-INF, 1.0), 0.0, (0.0, 0.0),
         (0.0, 0.0), FORCED),
    # inverse trigonometric and hyperbolic functions
    Edge("arcsin(x)", fnp.arcsin, 1.0, np.pi / 2, INF, INF, END),
    Edge("arccos(x)", fnp.arccos, -1.0, np.pi, -INF, INF, END),
    Edge("arccosh(x)", fnp.arccosh, 1.0, 0.0, INF, -INF, END),
    Edge("arctanh(x)", fnp.arctanh, 1.0, INF, INF, INF, END),
    Edge("arctanh(x)", fnp.arctanh, 2.0, NAN, NAN, NAN, "outside, as the value"),
    Edge("arctan(x)", fnp.arctan, INF, np.pi / 2, 0.0, 0.0, FORCED),
    Edge("arcsinh(x)", fnp.arcsinh, -INF, -INF, 0.0, 0.0, FORCED),
    Edge("sinc(x)", fnp.sinc, 0.0, 1.0, 0.0, -np.pi**2 / 3, FORCED),
    # lengths and angles
    Edge("abs(x)", fnp.abs, 0.0, 0.0, 0.0, 0.0, KINK),
    Edge("hypot(x, y)", lambda v: fnp.hypot(v[0], v[1]), (0.0, 0.0), 0.0, (0.0, 0.0),
         (0.0, 0.0), KINK),
    Edge("hypot(x, y)", lambda v: fnp.hypot(v[0], v[1]), (INF, 1.0), INF, (1.0, 0.0),
         (0.0, 0.0), FORCED),
    Edge("hypot(x, y)", lambda v: fnp.hypot(v[0], v[1]), (3e200, 4e200), 5e200, (0.6, 0.8),
         (0.128e-200, 0.072e-200), SCALE),
    Edge("linalg.norm(x)", fnp.linalg.norm, (0.0, 0.0), 0.0, (0.0, 0.0), (0.0, 0.0), KINK),
    Edge("linalg.norm(x)", fnp.linalg.norm, (3e-200, 4e-200), 5e-200, (0.6, 0.8),
         (1.28e199, 0.72e199), SCALE),
    Edge("linalg.norm(x, 0.5)", lambda x: fnp.linalg.norm(x, 0.5), (0.0, 1.0), 1.0, (0.0, 1.0),
         (0.0, 0.0), KINK),
    Edge("linalg.cond(a)", lambda v: fnp.linalg.cond(fnp.reshape(v, (2, 2))), (1.0, 0.0, 0.0, 1.0),
         1.0, (0.0,) * 4, None, TIES),
    Edge("linalg.norm(x) ** 2", lambda x: fnp.linalg.norm(x) ** 2, (0.0, 0.0), 0.0, (0.0, 0.0),
         (0.0, 0.0), "the norm is flat at 0; sum(x * x) has 2"),
    Edge("arctan2(y, x)", lambda v: fnp.arctan2(v[0], v[1]), (0.0, 0.0), 0.0, (0.0, 0.0),
         (0.0, 0.0), "without a limit: the least"),
    Edge("arctan2(y, x)", lambda v: fnp.arctan2(v[0], v[1]), (INF, INF), np.pi / 4, (0.0, 0.0),
         (0.0, 0.0), FORCED),
    # certain of all n numbers, and of every fewer ones
    Edge("stats.binom.cdf(2, n, 0.3)", lambda n: stats.binom.cdf(2, n, 0.3), 2.0, 1.0, 0.0, 0.0,
         KINK),
    Edge("stats.binom.sf(2, n, 0.3)", lambda n: stats.binom.sf(2, n, 0.3), 2.0, 0.0, 0.0, 0.0,
         KINK),
    Edge("special.bdtr(2, n, 0.3)", lambda n: special.bdtr(2, n, 0.3), 2.0, 1.0, 0.0, 0.0,
         "as for `stats.binom.cdf`"),
    Edge("special.beta(a, inf)", lambda a: special.beta(a, INF), 0.5, 0.0, 0.0, 0.0, FORCED),
    Edge("special.betaln(a, 2)", lambda a: special.betaln(a, 2.0), INF, -INF, 0.0, 0.0, FORCED),
    Edge("special.poch(z, 0.5)", lambda z: special.poch(z, 0.5), INF, INF, 0.0, 0.0, FORCED),
    Edge("special.iv(v, 0.5)", lambda v: special.iv(v, 0.5), INF, 0.0, 0.0, 0.0, FORCED),
    Edge("special.expn(-inf, x)", lambda x: special.expn(-INF, x), 0.5, INF, -INF, None, FORCED),
    # selections
    Edge("maximum(x, 0)", lambda x: fnp.maximum(x, 0.0), 0.0, 0.0, 0.5, 0.0, TIES),
    Edge("clip(x, 1, 1)", lambda x: fnp.clip(x, 1.0, 1.0), 1.0, 1.0, 0.0, 0.0, FORCED),
    Edge("clip(x, 1, 2)", lambda x: fnp.clip(x, 1.0, 2.0), 1.0, 1.0, 0.5, 0.0, TIES),
    Edge("max(x)", fnp.max, (1.0, 1.0, 0.0), 1.0, (0.5, 0.5, 0.0), (0.0, 0.0, 0.0), TIES),
    Edge("where(x > 0, log(x), 0)", lambda x: fnp.where(x > 0, fnp.log(x), 0.0), 0.0, 0.0, 0.0,
         0.0, ABSENT),
    Edge("nn.relu(x)", nn.relu, 0.0, 0.0, 0.0, 0.0, KINK),
    Edge("nn.hinge_loss(x, 1.0)", lambda x: nn.hinge_loss(x, 1.0), 1.0, 0.0, 0.0, 0.0, KINK),
    Edge("nn.huber_loss(x, 0.0)", lambda x: nn.huber_loss(x, 0.0), 1.0, 0.5, 1.0, 1.0,
         "the slope has a kink"),
    Edge("nn.cosine_similarity(x, (1, 0))", lambda x: nn.cosine_similarity(x, (1.0, 0.0)),
         (0.0, 0.0), 0.0, (0.0, 0.0), (0.0, 0.0), KINK),
    Edge("nn.sigmoid_binary_cross_entropy(x, 1.0)",
         lambda x: nn.sigmoid_binary_cross_entropy(x, 1.0), -INF, INF, -1.0, 0.0, FORCED),
    Edge("nn.kl_divergence((-inf, 0), p)", lambda p: nn.kl_divergence((-INF, 0.0), p), (0.0, 1.0),
         0.0, (0.0, 1.0), (0.0, 1.0), ABSENT),
    Edge("nn.ctc_loss((x,), (1, 1)), impossible", lambda x: nn.ctc_loss(x[None], [1, 1]),
         (0.0, 1.0), INF, (0.0, 0.0), (0.0, 0.0), "constant around it"),
    Edge("sort(x)[0]", lambda x: fnp.sort(x)[0], (1.0, 1.0), 1.0, (1.0, 0.0), (0.0, 0.0),
         "equal elements keep their order"),
    Edge("median(x)", fnp.median, (1.0, 1.0, 2.0), 1.0, (0.0, 1.0, 0.0), (0.0, 0.0, 0.0),
         "as for a sorted array"),
    # what jumps
    Edge("floor(x)", fnp.floor, 1.0, 1.0, 0.0, 0.0, "constant on both sides"),
    Edge("sign(x)", fnp.sign, 0.0, 0.0, 0.0, 0.0, "constant on both sides"),
    Edge("heaviside(x, 0.5)", lambda x: fnp.heaviside(x, 0.5), 0.0, 0.5, 0.0, 0.0,
         "constant on both sides"),
    Edge("mod(4, y)", lambda y: fnp.mod(4.0, y), 2.0, 0.0, -2.0, 0.0, "towards greater quotients"),
    Edge("fmod(-4, y)", lambda y: fnp.fmod(-4.0, y), 3.0, -1.0, 1.0, 0.0, FORCED),
    Edge("interp(x, (0, 1, 2), (0, 1, 0))", lambda x: fnp.interp(x, [0.0, 1, 2], [0.0, 1, 0]),
         1.0, 1.0, -1.0, 0.0, "the slope to the right"),
    # reductions
    Edge("prod(x)", fnp.prod, (1e200, 1e200, 0.0, 0.0), NAN, (0.0,) * 4, None, FORCED),
    Edge("prod(x)", fnp.prod, (0.0, 0.0, 3.0), 0.0, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0), FORCED),
    Edge("std(x)", fnp.std, (2.0, 2.0), 0.0, (0.0, 0.0), (0.0, 0.0), KINK),
    Edge("var(x)", fnp.var, (2.0, 2.0), 0.0, (0.0, 0.0), (0.5, 0.5), FORCED),
    Edge("linalg.det(a)", lambda v: fnp.linalg.det(fnp.reshape(v, (2, 2))), (1.0, 2.0, 2.0, 4.0),
         0.0, (4.0, -2.0, -2.0, 1.0), (0.0,) * 4, FORCED),
    Edge("linalg.det(a)", lambda v: fnp.linalg.det(fnp.diag(v)), (1e200, 1e-200), 1.0,
         (1e-200, 1e200), (0.0, 0.0), SCALE),
    Edge("average((1, 2), weights=w)", lambda w: fnp.average(np.array([1.0, 2.0]), weights=w),
         (0.0, 1.0), 2.0, (-1.0, 0.0), (2.0, 0.0), FORCED),
    Edge("nansum(x)", fnp.nansum, (NAN, 1.0), 1.0, (0.0, 1.0), (0.0, 0.0), ABSENT),
    # special functions
    Edge("special.xlogy(x, x)", lambda x: special.xlogy(x, x), 0.0, 0.0, -INF, None, END),
    Edge("special.entr(x)", special.entr, 0.0, 0.0, INF, -INF, END),
    Edge("special.entr(x)", special.entr, -1.0, -INF, 0.0, 0.0, "constant around it"),
    Edge("special.kl_div(x, 1)", lambda x: special.kl_div(x, 1.0), -1.0, INF, 0.0, 0.0,
         "constant around it"),
    Edge("special.logit(p)", special.logit, 0.0, -INF, INF, -INF, END),
    Edge("special.logit(p)", special.logit, 1e-200, np.log(1e-200), 1e200, -INF, SCALE),
    Edge("special.erfinv(x)", special.erfinv, 1.0, INF, INF, INF, END),
    Edge("special.i0e(x)", special.i0e, 0.0, 1.0, 0.0, 1.5, KINK),
    Edge("special.i1e(x)", special.i1e, 0.0, 0.0, 0.5, 0.0, "the slope has a kink"),
    Edge("special.j1(x)", special.j1, 0.0, 0.0, 0.5, 0.0, FORCED),
    Edge("special.y1(x)", special.y1, 0.0, -INF, INF, -INF, END),
    Edge("special.beta(a, 1.5)", lambda a: special.beta(a, 1.5), -1.5, 0.0, 2 * np.pi / 3,
         5.363210971954104, FORCED),
    Edge("special.zeta(x)", special.zeta, 1e200, 1.0, 0.0, 0.0, FORCED),
    Edge("special.ellipkm1(p)", special.ellipkm1, 1e-200, np.log(4) + 100 * np.log(10), -5e199,
         INF, SCALE),
    Edge("special.gammaln(x)", special.gammaln, -1.0, INF, NAN, None, "a pole: two sides differ"),
    Edge("special.wrightomega(x)", special.wrightomega, INF, INF, 1.0, 0.0, FORCED),
)  # fmt: skip

# ruff: noqa: E731 - autograd's users write so
"""Programs written for HIPS autograd, as functions of the library that runs them.

``library("numpy")`` is its NumPy, ``library("")`` the library itself. ``golden.py`` stores what
autograd's own versions return.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import numpy as onp

Library = Callable[[str], Any]
Program = Callable[[Library], Any]

X = onp.linspace(-1.0, 1.6, 6)
M = onp.array([[2.0, 0.3, 0.1], [0.4, 1.5, -0.2], [0.0, 0.7, 3.0]])
S = M @ M.T
Z = onp.array([0.3 + 0.4j, -1.0 + 0.5j])


def library(root: str) -> Library:
    """The modules of a library: of ``autograd``, or of what has its names."""
    return lambda name: import_module(f"{root}.{name}".rstrip("."))


def _grads(names: str, x: Any, module: str = "numpy") -> dict[str, Program]:
    """The gradient of the sum of squares of each function, at one point."""

    def program(name: str) -> Program:
        def run(at: Library) -> Any:
            np, f = at("numpy"), getattr(at(module), name)
            return at("").grad(lambda x: np.sum(np.abs(f(x)) ** 2))(x)

        return run

    return {f"{module}.{name}": program(name) for name in names.split()}


def _network(at: Library) -> Any:
    np = at("numpy")

    def loss(params: Any, inputs: Any) -> Any:
        for weights in params["layers"]:
            inputs = np.tanh(np.dot(inputs, weights["w"]) + weights["b"])
        return np.mean(np.logaddexp(0.0, -inputs)) + 0.1 * np.sum(params["scale"] ** 2)

    layers = [{"w": M, "b": onp.ones(3)}, {"w": -M[:, :2], "b": onp.zeros(2)}]
    return at("").value_and_grad(loss)({"layers": layers, "scale": 0.7}, S)


def _primitive(at: Library) -> Any:
    np, extend, grad = at("numpy"), at("extend"), at("").grad

    @extend.primitive
    def logsumexp(x: Any) -> Any:
        biggest = onp.max(x)
        total = 0.0
        for number in x:
            total += onp.exp(float(number) - biggest)
        return biggest + onp.log(total)

    extend.defvjp(
        logsumexp, lambda ans, x: lambda g: np.full(x.shape, g) * np.exp(x - np.full(x.shape, ans))
    )
    f = lambda y: logsumexp(y**2)
    return f(X), grad(f)(X), at("").hessian(f)(X)


def _both_rules(at: Library) -> Any:
    extend, ag = at("extend"), at("")
    f = extend.primitive(lambda x, y, power=2: x**power * y)
    extend.defvjp(
        f,
        lambda ans, x, y, power=2: lambda g: g * power * x ** (power - 1) * y,
        lambda ans, x, y, power=2: lambda g: g * x**power,
    )
    extend.defjvp(
        f,
        lambda g, ans, x, y, power=2: g * power * x ** (power - 1) * y,
        lambda g, ans, x, y, power=2: f(x, g, power=power),
    )
    h = lambda x, y: f(x, y, power=3)
    return ag.grad(h, (0, 1))(2.0, 3.0), ag.deriv(h, 1)(2.0, 3.0), ag.grad(ag.grad(h))(2.0, 3.0)


def _argnum_rules(at: Library) -> Any:
    extend, ag = at("extend"), at("")
    f = extend.primitive(lambda x, y: x * y)
    extend.defvjp_argnum(f, lambda argnum, ans, args, kwargs: lambda g: g * args[1 - argnum])
    extend.defjvp_argnum(f, lambda argnum, g, ans, args, kwargs: g * args[1 - argnum])
    return ag.grad(f, [0, 1])(2.0, 3.0), ag.make_jvp(f, 1)(2.0, 3.0)(5.0)


def _complex(at: Library) -> Any:
    np, ag = at("numpy"), at("")
    vjp, value = ag.make_vjp(lambda z: z**2 * (1.0 + 2.0j))(Z)
    return (
        ag.grad(lambda z: np.sum(np.abs(z) ** 3 + np.real(z**2)))(Z),
        ag.holomorphic_grad(lambda z: np.exp(z))(0.3 + 0.4j),
        (vjp(onp.array([1.0 + 1.0j, 2.0])), value),
        ag.make_jvp(lambda z: z**2)(Z)(onp.array([1.0j, 1.0 + 0.0j])),
    )


def _products(at: Library) -> Any:
    np, ag = at("numpy"), at("")
    f = lambda x, w: np.sum(np.sin(x) ** 2 * w**3) + np.prod(x)
    g = lambda x, w: np.outer(x, x)[:, 1] * w
    hvp, gradient = ag.make_hvp(f)(X, X[::-1])
    return {
        "hessian": ag.hessian(f)(X, X),
        "hvp": (hvp(onp.ones(6)), gradient),
        "hessian_vector_product": ag.hessian_vector_product(f)(X, X, onp.arange(6.0)),
        "hessian_tensor_product": ag.hessian_tensor_product(f, 1)(X, X, onp.arange(6.0)),
        "jacobian": ag.jacobian(g)(X, X),
        "jacobian_of_matrix": ag.jacobian(lambda a: a @ M)(M),
        "tensor_jacobian_product": ag.tensor_jacobian_product(g)(X, X, onp.arange(6.0)),
        "ggnvp": ag.make_ggnvp(lambda x: np.tanh(x) * x)(X)(onp.arange(6.0)),
        "jvp_reversemode": at("differential_operators").make_jvp_reversemode(lambda x: g(x, X))(X)(
            onp.arange(6.0)
        ),
        "elementwise_grad": ag.elementwise_grad(np.tanh)(X),
        "nested": ag.elementwise_grad(ag.elementwise_grad(np.tanh))(X),
        "deriv": ag.deriv(lambda x: np.exp(x) * x)(0.5),
        "grad_named": ag.grad_named(f, "w")(X, X),
        "grad_and_aux": ag.grad_and_aux(lambda x: (np.sum(x**3), x + 1.0))(X),
        "checkpoint": ag.grad(ag.checkpoint(lambda x: np.sum(np.exp(np.sin(x)))))(X),
    }


def _optimizers(at: Library) -> Any:
    np, optimizers = at("numpy"), at("misc.optimizers")
    loss = lambda p: np.sum((p["a"] - 1.0) ** 2) + p["b"][0] ** 4
    start = {"a": onp.zeros(2), "b": [3.0, 0.0]}
    results = {}
    for name in ("sgd", "rmsprop", "adam"):
        seen: list[Any] = []
        run = getattr(optimizers, name)
        step = at("").grad(lambda p, i: loss(p) + 0.01 * i * p["b"][1])
        end = run(step, start, lambda x, i, g, seen=seen: seen.append(g["b"][0]), 7, 0.05)
        results[name] = (end, seen)
    return results


def _misc(at: Library) -> Any:
    np, ag, flatten = at("numpy"), at(""), at("misc").flatten
    fixed_point = at("misc.fixed_points").fixed_point
    vector, unflatten = flatten(({"b": X[:2], "a": 1.5}, [M[0]]))
    f = lambda v: unflatten(v)[0]["a"] * np.sum(unflatten(v)[0]["b"] ** 2)
    heron = lambda a: lambda x: 0.5 * (x + a / x)
    root = lambda a: fixed_point(heron, a, 1.0, lambda x, y: np.abs(x - y), 1e-12)
    return vector, ag.grad(f)(vector), root(3.0), ag.grad(root)(3.0), ag.grad(ag.grad(root))(3.0)


def _joined(at: Library) -> Any:
    np, grad = at("numpy"), at("").grad
    weights = onp.arange(1.0, 7.0)
    return {
        "array": grad(lambda x: np.sum(np.array([x, [x**2, 1.0][0], 3.0]) ** 2))(1.5),
        "r_": grad(lambda x: np.dot(np.r_[x[:3], 1:3, x[0]], weights))(X),
        "c_": grad(lambda x: np.sum(np.c_[x, x**2] ** 2))(X),
        "where": grad(lambda x: np.sum(np.where(x > 0.0, x**2, -x)))(X),
        "stack": grad(lambda x: np.sum(np.stack([x, x * 2.0]) ** 2))(X),
        "vstack": grad(lambda x: np.sum(np.vstack([x, x * 2.0])[1] ** 2))(X),
        "select": grad(lambda x: np.sum(np.select([x < 0.0, x > 1.0], [x, x**2], 0.0)))(X),
        "append": grad(lambda x: np.sum(np.append(x, x[0]) ** 2))(X),
        "einsum": grad(lambda a: np.sum(np.einsum("ij,kj->ik", a, a) ** 2))(M),
        "eigh": grad(lambda a: np.linalg.eigh(a)[0][1])(S),
        "mask": grad(lambda x: np.sum(x[x > 0.0] ** 2))(X),
        "sort": grad(lambda x: np.dot(np.sort(x), weights))(X[::-1]),
    }


def _science(at: Library) -> Any:
    np, grad, norm = at("numpy"), at("").grad, at("scipy.stats.norm")
    normal, odeint = at("scipy.stats.multivariate_normal"), at("scipy.integrate").odeint
    tuple_, convolve = at("builtins").tuple, at("scipy.signal").convolve
    t, beta = at("scipy.stats.t"), at("scipy.stats.beta")
    linalg, special = at("scipy.linalg"), at("scipy.special")
    ode = lambda k: np.sum(odeint(lambda y, t, k: -k * y * t, onp.ones(2), X[2:], tuple_((k,)))[-1])
    return {
        "norm": grad(lambda m: np.sum(norm.logpdf(X, m, 2.0) + norm.cdf(X, m, 2.0)))(0.3),
        "t": grad(lambda m: np.sum(t.logpdf(X, 4.0, m, 2.0)))(0.3),
        "beta": grad(lambda a: np.sum(beta.logpdf(onp.array([0.2, 0.6]), a, 2.0)))(1.3),
        "normal": grad(lambda m: normal.logpdf(X[:3], m, S))(onp.ones(3)),
        "entropy": grad(lambda s: normal.entropy(onp.ones(3), s))(S),
        "logsumexp": grad(special.logsumexp)(X),
        "gammaln": at("").elementwise_grad(special.gammaln)(X + 2.0),
        "solve_triangular": grad(lambda a: np.sum(linalg.solve_triangular(a, X[:3]) ** 2))(M),
        "odeint": onp.round(grad(ode)(onp.array([1.2, 0.7])), 6),
        "convolve": grad(lambda b: np.sum(convolve(X, b, mode="same") ** 2))(X[:3]),
        "convolve_axes": grad(
            lambda b: np.sum(convolve(S[None], b, [[1, 2], [1, 2]], [[0], [0]], "valid") ** 2)
        )(onp.stack([M[:2, :2]])),
    }


PROGRAMS: Mapping[str, Program] = {
    **_grads("sin exp tanh square cumsum max mean var std prod sort ravel flipud", X + 1.7),
    **_grads("sqrt reciprocal log1p arctan diff tril", S + 1.0),
    **_grads("inv det norm", S, "numpy.linalg"),
    **_grads("fft ifft rfft", X, "numpy.fft"),
    **_grads("erf expit digamma j0", X + 1.7, "scipy.special"),
    "network": _network,
    "primitive": _primitive,
    "both rules": _both_rules,
    "argnum rules": _argnum_rules,
    "complex": _complex,
    "products": _products,
    "optimizers": _optimizers,
    "misc": _misc,
    "joined": _joined,
    "science": _science,
}

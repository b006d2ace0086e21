"""Sparse derivatives and matrices: processor time, beside evaluations of the function and SciPy.

Each row is the least of several runs, and what it is divided by was measured in the same round::

    python -m tests.tools.benchmarks.sparse
    python -m tests.tools.benchmarks.sparse --large

Where JAX, asdex and CasADi are installed (``pip install jax asdex casadi``), their times are shown
beside ours, in turns with them, on one core. JAX alone gets our colors, as sparsejac would.
"""

import argparse
import os
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from time import process_time
from typing import Any

import numpy as np
import scipy.sparse
import scipy.sparse.linalg

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import nn, sparse
from funcgrad.scipy.sparse.linalg import spsolve
from funcgrad.sparse.compression import Compression
from tests.tools.benchmarks.measured import seconds


def brusselator(n: int, xp: Any = fnp) -> tuple[Callable[[Any], Any], np.ndarray]:
    """The right-hand side on a periodic grid, and a state of it."""

    def laplacian(x: Any) -> Any:
        across = xp.roll(x, 1, 1) + xp.roll(x, -1, 1)
        return (xp.roll(x, 1, 0) + xp.roll(x, -1, 0) + across - 4 * x) * (n - 1) ** 2

    def f(w: Any) -> Any:
        u, v = w[0], w[1]
        product = u * u * v
        return xp.stack(
            [1 + product - 4.4 * u + 10 * laplacian(u), 3.4 * u - product + 10 * laplacian(v)]
        )

    return f, np.random.default_rng(0).uniform(size=(2, n, n))


def rosenbrock(x: Any) -> Any:
    return terms(x).sum()


def terms(x: Any) -> Any:
    return 100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2


def shown(name: str, time: float, other: str = "", base: float = 0.0) -> None:
    ratio = f"{time / base:8.2f} of {other}" if other else ""
    print(f"{name:44s} {1e3 * time:10.3f} ms {ratio}")


def jacobians(n: int) -> None:
    f, w = brusselator(n)
    name = f"Brusselator, {w.size:,} unknowns"
    fg.jit(lambda x: 2.0 * x)(1.0)  # loads the compiler, which takes longer than all the rest
    shown(f"{name}: pattern and colors", seconds(lambda: sparse.pattern(f)(w).colors()))
    shown(f"{name}: first Jacobian", seconds(lambda: sparse.jacobian(f)(w), repeats=3))
    jacobian, compiled = sparse.jacobian(f), fg.jit(f)
    state = fg.tensor(w)
    elements = fg.jit(lambda x: jacobian(x).data)
    jacobian(state), compiled(state), elements(state)
    base = seconds(lambda: compiled(state), 50)
    shown(f"{name}: Jacobian", seconds(lambda: jacobian(state), 50), "a function", base)
    shown(f"{name}: under jit", seconds(lambda: elements(state), 50), "a function", base)


def hessians() -> None:
    x = fg.tensor(np.random.default_rng(0).uniform(size=10_000))
    slope = fg.grad(rosenbrock)
    prepare = seconds(lambda: sparse.pattern(slope)(x).colors("star"))
    shown("Rosenbrock, 10,000: pattern and colors", prepare)
    hessian, compiled = sparse.hessian(rosenbrock), fg.jit(slope)
    hessian(x), compiled(x)
    base = seconds(lambda: compiled(x), 50)
    shown("Rosenbrock, 10,000: Hessian", seconds(lambda: hessian(x), 50), "a gradient", base)


def in_turns(name: str, ours: Callable[[], Any], others: dict[str, Callable[[], Any]]) -> None:
    """The least times of several rounds, and their ratios."""
    works = [ours, *others.values()]
    rounds = [[seconds(work, 30, 0.05) for work in works] for _ in range(15)]
    mine, *bases = np.min(rounds, axis=0)
    for other, base in zip(others, bases, strict=True):
        shown(name, mine, other, base)


def colored_by_jax(jax: Any, jnp: Any, f: Any, how: Compression) -> Any:
    """The elements of a Jacobian by JAX: products in all colors, from which elements are taken."""
    seeds = how.columns == np.arange(how.forward_count)[:, None]

    def elements(x: Any) -> Any:
        directions = jnp.asarray(seeds, x.dtype).reshape(-1, *x.shape)
        products = jax.vmap(lambda t: jax.jvp(f, (x,), (t,))[1])(directions)
        return products.reshape(-1)[how.places]

    return jax.jit(elements)


def beside_casadi(n: int) -> None:
    """A Jacobian by both kinds of CasADi's expressions, and a Hessian."""
    casadi: Any = import_module("casadi")

    class Arrays:
        @staticmethod
        def roll(x: Any, shift: int, axis: int) -> Any:
            parts = (x[-shift:, :], x[:-shift, :]) if axis == 0 else (x[:, -shift:], x[:, :-shift])
            return (casadi.horzcat if axis else casadi.vertcat)(*parts)

        @staticmethod
        def stack(arrays: Any) -> Any:
            return casadi.vertcat(*[casadi.vec(array.T) for array in arrays])

    f, w = brusselator(n, Arrays)
    g, x = brusselator(n)[0], np.random.default_rng(0).uniform(size=10_000)
    jacobian, hessian = sparse.jacobian(g), sparse.hessian(rosenbrock)
    pairs: list[Any] = []
    for kind in ("SX", "MX"):
        begun = process_time()
        unknowns = getattr(casadi, kind).sym("w", w.size)
        out = f([casadi.reshape(unknowns[k * n * n : (k + 1) * n * n], n, n).T for k in (0, 1)])
        colors = casadi.Function("f", [unknowns], [out]).jac_sparsity(0, 0).uni_coloring()
        colored = process_time()
        theirs = casadi.Function("J", [unknowns], [casadi.jacobian(out, unknowns)])
        ended, name = process_time(), f"CasADi's {kind}, {colors.size2()} colors"
        shown(f"{name}: pattern and colors", colored - begun)
        shown(f"{name}: first Jacobian", ended - begun)
        pairs.append((f"Jacobian, CasADi's {kind}", jacobian, w, theirs))
    begun, unknowns = process_time(), casadi.SX.sym("x", x.size)
    second = casadi.hessian(casadi.sum1(terms(unknowns)), unknowns)[0]
    theirs = casadi.Function("H", [unknowns], [second])
    shown("CasADi's SX: first Hessian", process_time() - begun)
    pairs.append(("Hessian, CasADi's SX", hessian, x, theirs))
    for name, ours, point, other in pairs:
        state, there = fg.tensor(point), casadi.DM(point.reshape(-1))
        assert np.allclose(ours(state).toarray(), other(there).full())
        in_turns(name, partial(ours, state), {"CasADi's": partial(other, there)})


def beside_asdex(n: int) -> None:
    """A Jacobian and a Hessian, each with its pattern, beside those of asdex."""
    asdex, jax, jnp = map(import_module, ("asdex", "jax", "jax.numpy"))

    jax.config.update("jax_enable_x64", True)
    w, x = brusselator(n)[1], np.random.default_rng(0).uniform(size=10_000)

    def compare(name: str, make: Any, f: Any, make_there: Any, there: Any, color: Any) -> None:
        at = w if name == "Jacobian" else x
        prepared = seconds(lambda: make(f).products(at))
        shown(
            f"{name}: pattern and colors",
            prepared,
            "asdex's",
            seconds(lambda: color(there, at), repeats=2),
        )
        derivative = make(f)
        ours, theirs = fg.jit(lambda y: derivative(y).data), jax.jit(make_there(there, at))
        state, their_state = fg.tensor(at), jnp.asarray(at)
        elements = np.asarray(theirs(their_state).todense())
        assert np.allclose(np.sort(ours(state)), np.sort(elements[elements != 0]))
        others = {"asdex's": lambda: theirs(their_state).data.block_until_ready()}
        if name == "Jacobian":
            by_jax = colored_by_jax(jax, jnp, there, derivative._prepared((state,), {})[0].how)
            assert np.allclose(ours(state), by_jax(their_state))
            others["JAX's, with our colors"] = lambda: by_jax(their_state).block_until_ready()
        in_turns(f"{name}: elements", lambda: ours(state), others)

    f, g = [brusselator(n, xp)[0] for xp in (fnp, jnp)]
    compare("Jacobian", sparse.jacobian, f, asdex.jacobian, g, asdex.jacobian_coloring)
    slope = rosenbrock, asdex.hessian, rosenbrock, asdex.hessian_coloring
    compare("Hessian", sparse.hessian, *slope)


def matrices(n: int) -> None:
    line = scipy.sparse.diags_array([-1.0, 2.1, -1.0], offsets=[-1, 0, 1], shape=(n, n))
    theirs = scipy.sparse.kronsum(line, line).tocsr()
    A, b = sparse.from_scipy(theirs), np.random.default_rng(0).normal(size=n * n)
    columns = theirs.tocsc()
    base = seconds(lambda: scipy.sparse.linalg.splu(columns).solve(b))
    slope = fg.grad(lambda A, b: fnp.sum(fnp.sin(spsolve(A, b))), (0, 1))
    compiled = fg.jit(slope)
    compiled(A, b)
    name = f"{n * n:,} equations"
    shown(f"{name}: spsolve", seconds(lambda: spsolve(A, b)), "SciPy's", base)
    shown(f"{name}: with its gradient", seconds(lambda: slope(A, b)), "SciPy's", base)
    shown(f"{name}: the same under jit", seconds(lambda: compiled(A, b)), "SciPy's", base)
    x, X = fg.tensor(b), fg.tensor(np.stack([b] * 8, axis=1))
    slopes = fg.grad(lambda A, x: fnp.sum((A @ x) ** 2), (0, 1))
    for what, f, v, by_scipy in (
        ("A @ x", lambda A, x: A @ x, x, lambda: theirs @ b),
        ("x @ A", lambda A, x: x @ A, x, lambda: b @ theirs),
        ("A @ X, 8 columns", lambda A, x: A @ x, X, lambda: theirs @ np.asarray(X)),
        ("A @ x and its gradients", slopes, x, lambda: theirs @ b),
    ):
        compiled = fg.jit(f)
        compiled(A, v)
        other = {"SciPy's": by_scipy}
        in_turns(f"{name}: {what}", partial(f, A, v), other)
        in_turns(f"{name}: {what} under jit", partial(compiled, A, v), other)


def segments() -> None:
    draws = np.random.default_rng(0)
    data, ids = draws.uniform(size=1_000_000), draws.integers(0, 1000, 1_000_000)
    add = fg.jit(lambda data, ids: nn.segment_sum(data, ids, 1000))
    values, places = fg.tensor(data), fg.tensor(ids)
    add(values, places)
    base = seconds(lambda: np.bincount(ids, data, 1000))
    shown("segment_sum of 1,000,000", seconds(lambda: add(values, places)), "np.bincount", base)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true", help="a million unknowns, too")
    large = parser.parse_args().large
    jacobians(71)
    if large:
        jacobians(707)
    hessians()
    if find_spec("jax") and find_spec("asdex"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        beside_asdex(71)
    if find_spec("casadi"):
        beside_casadi(71)
    for n in (71, 400) if large else (71,):
        matrices(n)
    segments()


if __name__ == "__main__":
    main()

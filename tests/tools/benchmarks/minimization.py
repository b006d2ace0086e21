"""How often ``optim.lbfgs`` evaluates an objective and how long it takes, to SciPy's L-BFGS-B.

Both begin at one place and end where no number of the gradient exceeds a tolerance. SciPy calls the
jitted objective and gradient, and here the whole minimization is jitted. The rounds are
interleaved, and the least processor times are compared::

    python -m tests.tools.benchmarks.minimization
    python -m tests.tools.benchmarks.minimization --backend numpy
"""

import argparse
from collections.abc import Callable, Mapping
from functools import partial
from time import process_time
from typing import Any, NamedTuple

import numpy as np
import scipy.optimize

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import optim

TOLERANCE = 1e-6


class Problem(NamedTuple):
    objective: Callable[[Any], Any]
    start: np.ndarray


def rosenbrock(x: Any) -> Any:
    return fnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def logistic_regression() -> Problem:
    draws = np.random.default_rng(0)
    features = draws.standard_normal((500, 30)) * np.linspace(0.2, 3.0, 30)
    signs = np.sign(features @ draws.standard_normal(30) + draws.standard_normal(500))

    def loss(w: Any) -> Any:
        return fnp.mean(fnp.logaddexp(0.0, -signs * (features @ w))) + 1e-3 * fnp.sum(w * w)

    return Problem(loss, np.zeros(30))


def small_net() -> Problem:
    draws = np.random.default_rng(1)
    x = np.linspace(-2.0, 2.0, 60)[:, None]
    y = np.sin(3.0 * x) + 0.5 * x

    def loss(w: Any) -> Any:
        first, bias, second = w[:16].reshape(1, 16), w[16:32], w[32:48].reshape(16, 1)
        outputs = fnp.tanh(x @ first + bias) @ second + w[48]
        return fnp.mean((outputs - y) ** 2) + 1e-3 * fnp.sum(w * w)

    return Problem(loss, draws.standard_normal(49))


PROBLEMS: Mapping[str, Problem] = {
    "Rosenbrock, n = 2": Problem(rosenbrock, np.array([-1.2, 1.0])),
    "Rosenbrock, n = 100": Problem(rosenbrock, np.tile([-1.2, 1.0], 50)),
    "logistic regression": logistic_regression(),
    "small net": small_net(),
}


def minimizer(objective: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """From a start to the minimum and the state of ``optim.lbfgs`` there."""
    optimizer = optim.lbfgs()

    def is_steep(carry: Any) -> Any:
        return (fnp.max(abs(carry[1].grads)) > TOLERANCE) & (carry[1].count < 2000)

    def step(carry: Any) -> Any:
        x, state = carry
        return optimizer.step(state.grads, state, x, value=state.value, objective=objective)

    return lambda x: fg.while_loop(is_steep, step, (x, optimizer.init(x)))


def with_scipy(function: Callable[[Any], Any], start: np.ndarray) -> Any:
    options = {"gtol": TOLERANCE, "ftol": 0.0, "maxiter": 2000, "maxfun": 10_000}
    return scipy.optimize.minimize(function, start, jac=True, method="L-BFGS-B", options=options)


def seconds(work: Callable[[], object]) -> float:
    start = process_time()
    work()
    return process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", help="the default one if not given")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    backend = {"backend": options.backend} if options.backend else {}
    print(f"{'':22} {'evaluations':>11} {'to SciPy':>9} {'ms':>8} {'to SciPy':>9}")
    for name, (objective, start) in PROBLEMS.items():
        whole = fg.jit(minimizer(objective), **backend)
        function = fg.jit(fg.value_and_grad(objective), **backend)
        x = fg.tensor(start)
        _, state = whole(x)
        evaluations = int(state.evaluations)
        theirs = with_scipy(function, start)
        works = (partial(whole, x), partial(with_scipy, function, start))
        times = [[seconds(work) for work in works] for _ in range(options.rounds)]
        mine, scipys = (min(column) for column in zip(*times, strict=True))
        print(
            f"{name:22} {evaluations:11} {evaluations / theirs.nfev:9.2f} {1e3 * mine:8.2f}"
            f" {mine / scipys:9.2f}   {float(state.value):.3e} {theirs.fun:.3e}"
        )


if __name__ == "__main__":
    main()

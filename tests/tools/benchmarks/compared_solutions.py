"""Rows of the comparison for solvers, sparse derivatives, imported layers and property tests.

``python -m tests.tools.benchmarks.compared_solutions NAME ROW`` prints one cell: each experiment
runs in a process of its own, where JAX computes in float64. For JAX the experiments use libraries
on top of it: asdex, diffrax, equinox, lineax and optimistix.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any, Final

import numpy as np

Cell = Callable[[], str]
NO: Final = "no"

DRAWS = np.random.default_rng(0)
MATRIX = 4.0 * np.eye(30) + DRAWS.normal(size=(30, 30)) / 30
RIGHT = DRAWS.normal(size=30)
STATE = DRAWS.normal(size=2000)
TIMES = np.linspace(0.0, 4.0, 50)
AMPLITUDES, RATES = DRAWS.uniform(1.0, 3.0, (100, 1)), DRAWS.uniform(0.5, 1.5, (100, 1))
SERIES = AMPLITUDES * np.exp(-RATES * TIMES) + 0.01 * DRAWS.normal(size=(100, 50))
WEIGHT, BIAS, INPUTS = DRAWS.normal(size=(4, 4)), DRAWS.normal(size=4), DRAWS.normal(size=4)


def milliseconds(work: Callable[[], Any], calls: int) -> str:
    """The least processor time of a call, of five rounds of calls."""
    work()
    work()
    times = []
    for _ in range(5):
        start = process_time()
        for _ in range(calls):
            np.asarray(work())
        times.append(process_time() - start)
    return f"{1e3 * min(times) / calls:.2g} ms"


def close(found: Any, known: Any, tolerance: float) -> None:
    """Refuse a result that is not right."""
    np.testing.assert_allclose(np.asarray(found), known, rtol=tolerance, atol=tolerance)


# ------------------------------------------------------------------------------- sparse derivatives


def neighbours(xp: Any, x: Any) -> Any:
    return (x[1:] - x[:-1] ** 2) * xp.sin(x[1:])


def _sparse(jacobian: Callable[[Any], Any], values: Callable[[Any], Any], name: str) -> str:
    start = process_time()
    matrix = jacobian(STATE)
    first = process_time() - start
    close(matrix.todense()[5, 5:7], _slopes(5), 1e-9)
    time = milliseconds(lambda: values(STATE), 20)
    return f"{name}: {1e3 * first:,.0f} ms at first, then {time}"


def _slopes(row: int) -> list[float]:
    x, y = STATE[row], STATE[row + 1]
    return [-2 * x * np.sin(y), np.sin(y) + (y - x**2) * np.cos(y)]


def sparse_here() -> str:
    fg = import_module("funcgrad")
    jacobian = fg.sparse.jacobian(partial(neighbours, import_module("funcgrad.numpy")))
    jitted = fg.jit(jacobian)
    return _sparse(jacobian, lambda x: jitted(x).data, "`sparse.jacobian`")


def sparse_by_asdex() -> str:
    jax, asdex = import_module("jax"), import_module("asdex")
    f = partial(neighbours, import_module("jax.numpy"))
    made: list[Any] = []

    def first(x: Any) -> Any:
        made.append(jax.jit(asdex.jacobian(f, x)))
        return made[0](x)

    return _sparse(first, lambda x: made[0](x).data, "asdex")


# ------------------------------------------------------------------------------- implicit solutions


def _newton(xp: Any, jacobian: Any, f: Any, x: Any) -> Any:
    for _ in range(10):
        x = x - xp.linalg.solve(jacobian(f)(x), f(x))
    return x


def _two_orders(grad: Any, xp: Any, solution: Callable[[Any], Any]) -> None:
    """Check the first and second derivatives of a solution, by reverse mode over reverse mode."""

    def loss(b: Any) -> Any:
        return xp.sum(solution(b) ** 2)

    def slope(b: Any) -> Any:
        return grad(loss)(b)[0]

    def known(b: Any) -> Any:
        x = _newton(np, lambda _: lambda x: MATRIX + np.diag(np.cos(x)), _equation(np, b), 0 * b)
        return np.linalg.solve((MATRIX + np.diag(np.cos(x))).T, 2 * x)[0]

    step = 1e-5 * np.eye(30)[0]
    curvature = (known(RIGHT + step) - known(RIGHT - step)) / 2e-5
    close(slope(RIGHT), known(RIGHT), 1e-5)
    close(grad(slope)(RIGHT)[0], curvature, 1e-4)


def _equation(xp: Any, b: Any) -> Callable[[Any], Any]:
    return lambda x: MATRIX @ x + xp.sin(x) - b


def root_here() -> str:
    fg, fnp = import_module("funcgrad"), import_module("funcgrad.numpy")
    solve = fg.implicit.root(
        lambda x, b: _equation(fnp, b)(x),
        partial(_newton, fnp, fg.jacfwd),
        lambda matvec, y: fg.implicit.gmres(matvec, y, rtol=1e-10)[0],
    )
    _two_orders(fg.grad, fnp, lambda b: solve(fnp.zeros(30), b))
    return "yes"


def root_by_jax() -> str:
    jax, jnp = import_module("jax"), import_module("jax.numpy")
    gmres = import_module("jax.scipy.sparse.linalg").gmres

    def by_jax(b: Any) -> Any:
        newton = partial(_newton, jnp, jax.jacfwd)
        return jax.lax.custom_root(
            _equation(jnp, b), jnp.zeros(30), newton, lambda g, y: gmres(g, y, tol=1e-10)[0]
        )

    try:
        _two_orders(jax.grad, jnp, by_jax)
    except Exception as error:
        told = f"{type(error).__name__}; "
    else:
        return "yes"
    optimistix, gmres = import_module("optimistix"), import_module("lineax").GMRES

    def by_optimistix(b: Any) -> Any:
        return optimistix.root_find(
            lambda x, b: _equation(jnp, b)(x),
            optimistix.Newton(rtol=1e-10, atol=1e-10),
            jnp.zeros(30),
            args=b,
            adjoint=optimistix.ImplicitAdjoint(gmres(rtol=1e-10, atol=1e-10)),
        ).value

    _two_orders(jax.grad, jnp, by_optimistix)
    return told + "yes by optimistix and lineax"


# ------------------------------------------------------------------------------------------ solvers


def _fits(fit: Callable[[Any], Any], name: str) -> str:
    curve_fit = import_module("scipy.optimize").curve_fit
    known = [
        curve_fit(lambda t, a, k: a * np.exp(-k * t), TIMES, y, p0=[1.0, 1.0])[0]
        for y in SERIES[:3]
    ]
    close(fit(SERIES)[:3], known, 1e-5)
    return f"{name}: {milliseconds(lambda: fit(SERIES), 20)}"


def fits_here() -> str:
    fg, fnp = import_module("funcgrad"), import_module("funcgrad.numpy")

    def fit(y: Any) -> Any:
        start = np.ones(2)
        return fg.optimize.curve_fit(lambda t, a, k: a * fnp.exp(-k * t), TIMES, y, p0=start)[0]

    return _fits(fg.jit(fg.vmap(fit)), "`optimize.curve_fit`")


def fits_by_optimistix() -> str:
    jax, jnp, optimistix = map(import_module, ("jax", "jax.numpy", "optimistix"))

    def fit(y: Any) -> Any:
        return optimistix.least_squares(
            lambda p, _: p[0] * jnp.exp(-p[1] * TIMES) - y,
            optimistix.LevenbergMarquardt(rtol=1e-8, atol=1e-8),
            jnp.ones(2),
        ).value

    return _fits(jax.jit(jax.vmap(fit)), "optimistix")


def robertson(xp: Any, y: Any, rate: Any) -> Any:
    first, second = rate * y[0] - 1e4 * y[1] * y[2], 3e7 * y[1] ** 2
    return xp.stack([-first, first - second, second])


def _stiff(end: Any, grad: Any, jit: Any, name: str) -> str:
    value, slope = jit(end), jit(grad(end))
    close(value(0.04), 0.107300, 1e-4)
    close(slope(0.04), -3.437817, 1e-3)
    times = milliseconds(lambda: value(0.04), 20), milliseconds(lambda: slope(0.04), 5)
    return f"{name}: {times[0]}, gradient {times[1]}"


def stiff_here() -> str:
    fg, fnp = import_module("funcgrad"), import_module("funcgrad.numpy")

    def end(rate: Any) -> Any:
        return fg.integrate.solve_ivp(
            lambda _, y: robertson(fnp, y, rate),
            (0.0, 1e4),
            np.array([1.0, 0.0, 0.0]),
            "Radau",
            t_eval=(1e4,),
            rtol=1e-6,
            atol=1e-10,
        ).y[0, -1]

    return _stiff(end, fg.grad, fg.jit, "`solve_ivp`, Radau")


def stiff_by_diffrax() -> str:
    jax, jnp, diffrax = map(import_module, ("jax", "jax.numpy", "diffrax"))

    def end(rate: Any) -> Any:
        return diffrax.diffeqsolve(
            diffrax.ODETerm(lambda _, y, rate: robertson(jnp, y, rate)),
            diffrax.Kvaerno5(),
            0.0,
            1e4,
            None,
            jnp.array([1.0, 0.0, 0.0]),
            rate,
            saveat=diffrax.SaveAt(t1=True),
            stepsize_controller=diffrax.PIDController(rtol=1e-6, atol=1e-10),
        ).ys[0, 0]

    return _stiff(end, jax.grad, jax.jit, "diffrax, Kvaerno5")


# --------------------------------------------------------------------------------- PyTorch's layers


def layers_here() -> str:
    io, nn = import_module("funcgrad.io"), import_module("funcgrad.nn")
    like = nn.Linear(np.zeros((4, 4)), np.zeros(4))
    with TemporaryDirectory() as folder, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        path = str(Path(folder) / "layer.safetensors")
        content = {"weight": WEIGHT, "bias": BIAS}
        import_module("safetensors.numpy").save_file(content, path)
        close(io.load(path, like, layout="torch")(INPUTS), WEIGHT @ INPUTS + BIAS, 1e-12)
        assert not told
        io.load(path, like)
        assert told
    return 'right with `layout="torch"`, a warning without'


def layers_by_equinox() -> str:
    jnp, equinox, random = map(import_module, ("jax.numpy", "equinox", "jax.random"))
    layer = equinox.nn.Linear(4, 4, key=random.key(0))
    weights = (jnp.asarray(WEIGHT), jnp.asarray(BIAS))
    layer = equinox.tree_at(lambda layer: (layer.weight, layer.bias), layer, weights)
    close(layer(INPUTS), WEIGHT @ INPUTS + BIAS, 1e-12)
    return "right in equinox, by hand"


def layers_in_torch() -> str:
    torch = import_module("torch")
    layer = torch.nn.Linear(4, 4, dtype=torch.float64)
    weights = {"weight": WEIGHT, "bias": BIAS}
    layer.load_state_dict({name: torch.tensor(value) for name, value in weights.items()})
    close(layer(torch.tensor(INPUTS)).detach(), WEIGHT @ INPUTS + BIAS, 1e-12)
    return "right"


# --------------------------------------------------------------------------- failing property tests


def _failing(test: Callable[[], Any]) -> str:
    start = process_time()
    try:
        test()
    except (AssertionError, RuntimeError):
        return f"{process_time() - start:.1f} s"
    return "not found"


def _drawn(check: Callable[[float], Any]) -> Callable[[], Any]:
    """A test of a property at points that Hypothesis draws, by its default settings."""
    hypothesis = import_module("hypothesis")
    points = hypothesis.given(hypothesis.strategies.floats(-3.0, 3.0))
    return hypothesis.settings(database=None, deadline=None)(points(check))


def _wrong_sine(custom_jvp: Any, xp: Any) -> Any:
    @custom_jvp
    def sine(x: Any) -> Any:
        return xp.sin(x)

    @sine.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        return sine(*primals), 1.01 * xp.cos(primals[0]) * tangents[0]

    return sine


def failing_here() -> str:
    fg, testing = import_module("funcgrad"), import_module("funcgrad.testing")
    hypothesis = import_module("hypothesis")
    at = testing.strategies.tensors(shape=())
    settings = hypothesis.settings(database=None, deadline=None)
    wrong = _wrong_sine(fg.custom_jvp, import_module("funcgrad.numpy"))
    laws = testing.laws
    test = testing.holds(laws.taylor, at=at, settings=settings)(wrong)
    return f"`holds`: {_failing(lambda: test(laws.taylor))}"


def failing_by_jax() -> str:
    jax, check = import_module("jax"), import_module("jax.test_util").check_grads
    wrong = _wrong_sine(jax.custom_jvp, import_module("jax.numpy"))
    return f"`check_grads`: {_failing(_drawn(lambda x: check(wrong, (x,), 1)))}"


def failing_by_autograd() -> str:
    xp, check = import_module("autograd.numpy"), import_module("autograd.test_util").check_grads
    extend = import_module("autograd.extend")
    wrong = extend.primitive(lambda x: xp.sin(x))
    extend.defvjp(wrong, lambda _, x: lambda g: 1.01 * g * xp.cos(x))
    return f"`check_grads`: {_failing(_drawn(lambda x: check(wrong, modes=['rev'], order=1)(x)))}"


def failing_by_torch() -> str:
    torch = import_module("torch")

    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return torch.sin(x)

    def backward(ctx: Any, g: Any) -> Any:
        return 1.01 * g * torch.cos(ctx.saved_tensors[0])

    rules = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    wrong: Any = type("Wrong", (torch.autograd.Function,), rules)

    def check(x: float) -> None:
        point = torch.tensor(x, dtype=torch.float64, requires_grad=True)
        torch.autograd.gradcheck(wrong.apply, (point,))

    return f"`gradcheck`: {_failing(_drawn(check))}"


ROWS: Final[Mapping[str, Mapping[str, Cell]]] = {
    "sparse Jacobian, 1999 × 2000, of a function of neighbours": {
        "funcgrad": sparse_here,
        "jax": sparse_by_asdex,
    },
    "reverse mode, twice, through a root whose linear system GMRES solves": {
        "funcgrad": root_here,
        "jax": root_by_jax,
    },
    "100 curves fitted at once by `vmap`": {"funcgrad": fits_here, "jax": fits_by_optimistix},
    "stiff equations: Robertson's to t = 10⁴": {"funcgrad": stiff_here, "jax": stiff_by_diffrax},
    "weights of a square `torch.nn.Linear`, imported": {
        "funcgrad": layers_here,
        "jax": layers_by_equinox,
        "torch": layers_in_torch,
    },
    "a property test fails: a derivative of `sin` is wrong by 1 %": {
        "funcgrad": failing_here,
        "autograd": failing_by_autograd,
        "jax": failing_by_jax,
        "torch": failing_by_torch,
    },
}
"""For each row, the experiments by the names of modules; the others have nothing of the kind."""

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(ROWS[sys.argv[2]][sys.argv[1]]())

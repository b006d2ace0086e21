"""The cost of linear algebra, as a multiple of the same call of NumPy or SciPy.

For each function of ``numpy.linalg`` and of ``funcgrad.scipy.linalg`` at matrices of 200 x 200: its
value, over NumPy's or SciPy's own call; and value and gradient together of a weighted sum of its
results, eager and jitted, over that sum by NumPy or SciPy, with the memory that the gradient takes
at most, in arrays of the argument's size. Then stacks of 1,000 matrices of 4 x 4:
the function on the stack, and ``fg.vmap`` of it. A mark is at what takes more than 4 times the
function (6 where there are singular vectors or eigenvectors of any matrix), or 1.5 times for
stacks. The calls are timed by turns, and the least of each counts, with memory that is used
again::

    python -m tests.tools.benchmarks.linear_algebra  # all
    python -m tests.tools.benchmarks.linear_algebra det cholesky # those with a word in their name
    python -m tests.tools.benchmarks.linear_algebra --size 1000 norm
    python -m tests.tools.benchmarks.linear_algebra --second  # second derivatives along a direction

What stays above, and why. In units of the function, on one core at 200 x 200:

- ``det`` and ``slogdet``: 5.7 at least. The gradient is an inverse; NumPy has no call that goes on
  from factors, and its ``inv`` takes 4.7 of its ``det`` (8/3 n^3 operations, of which 2 n^3 are
  substitutions at a third of a product's speed, to 2/3 n^3). LAPACK's own getri would take 2.1: in
  all 3.2, if the determinant came from SciPy, too, with other bits where that is installed.
- ``cholesky``: 2/3 n^3 operations backwards to 1/3 n^3, in a hundred calls of NumPy with 2 to 8 us
  each, as LAPACK has no such routine: about 6. Of larger matrices less: 4 at 500.
- ``scipy lu``: two substitutions with n columns (1.2 each) and two products (0.6 each), though the
  factors take 2/3 n^3 operations alone: about 6.
- ``qr r``: the derivative needs Q, which takes as long as R, so both are computed: the value 2.
- ``lstsq`` with all results: singular values are a function of their own, with an own derivative.
- ``scipy logm``: the derivative is a block of the logarithm of a matrix of twice the size, which
  has 8 times the operations, less what does not grow so: 6. So is the second one of ``expm``.
- Norms, products of vectors and parts of matrices, which take 1 to 20 us: a gradient is some 50 us
  of Python, and it writes an array where the function only reads one.
- ``fg.vmap`` itself takes 20 us, and 5 us for each operation.
"""

import argparse
import importlib
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import funcgrad as fg
import funcgrad.numpy as fnp
import funcgrad.scipy.linalg as fsl
from tests.tools.benchmarks.measured import peak, seconds

scipy_linalg = importlib.import_module("scipy.linalg")

MOST, MOST_OF_VECTORS, MOST_OF_STACKS = 4.0, 6.0, 1.5
MEMORY = 31 << 20
"""In bytes. Having freed an array of this size, glibc's allocator keeps what is smaller."""
WITHOUT = frozenset({"LinAlgError", "matrix_rank"})
"""What has no derivative."""

Array = np.ndarray[Any, Any]


class Subject(NamedTuple):
    """A function of one matrix, ours and NumPy's or SciPy's, and a point."""

    name: str
    own: Callable[..., Any]
    other: Callable[..., Any]
    point: Array
    most: float = MOST


def pair(name: str, point: Array, label: str = "", scipy: bool = False, **more: Any) -> Subject:
    """The functions of NumPy or SciPy and ours, by name."""
    modules: tuple[Any, Any] = (fsl, scipy_linalg) if scipy else (fnp.linalg, np.linalg)
    own, other = (partial(getattr(module, name), **more) for module in modules)
    most = MOST_OF_VECTORS if name in ("svd", "eig", "eigvals") else MOST
    return Subject(("scipy " if scipy else "") + name + label, own, other, point, most)


def with_second(name: str, point: Array, second: Array, label: str, scipy: bool = False) -> Subject:
    """The functions of such a name, of the point and of something else."""
    subject = pair(name, point, label, scipy)
    held = fg.tensor(second)
    return subject._replace(
        own=lambda x: subject.own(x, held), other=lambda x: subject.other(x, second)
    )


def matrices(*shape: int, seed: int = 0) -> dict[str, Array]:
    """Matrices, positive definite ones, and others to the right of 0."""
    rng = np.random.default_rng(seed)
    general = rng.standard_normal(shape)
    n = shape[-1]
    return {
        "general": general,
        "positive": general @ np.swapaxes(general, -1, -2) / n + np.eye(n),
        "right": general * 0.5 / np.sqrt(n) + 2 * np.eye(n),
        "lower": np.tril(general) / n + np.eye(n),
        "other": rng.standard_normal(shape),
    }


def of_numpy(given: Mapping[str, Array]) -> Iterator[Subject]:
    """Calls of ``numpy.linalg`` that take stacks of matrices, too."""
    x, right, positive = given["general"], given["right"], given["positive"]
    for name in ("det", "slogdet"):
        yield pair(name, right)
    yield pair("inv", x)
    yield with_second("solve", x, given["other"], " (n columns)")
    yield with_second("solve", x, given["other"][..., :1], " (one column)")
    yield pair("cholesky", positive)
    yield pair("eigh", positive)
    yield pair("eigvalsh", positive)
    yield pair("eig", x)
    yield pair("eigvals", x)
    yield pair("qr", x)
    yield pair("qr", x, " r", mode="r")
    yield pair("svd", x)
    yield pair("svdvals", x)
    yield pair("pinv", x)
    yield pair("matrix_power", right, " 5", n=5)
    yield pair("cond", x)
    yield pair("cond", x, " 1", p=1)
    yield pair("matrix_norm", x)
    for order in (1, np.inf, 2, -2, "nuc"):
        yield pair("matrix_norm", x, f" {order}", ord=order)
    yield with_second("matmul", x, given["other"], "")
    yield pair("matrix_transpose", x)
    yield pair("diagonal", x)
    yield pair("trace", x)


def of_one_matrix(given: Mapping[str, Array]) -> Iterator[Subject]:
    """The other calls of ``numpy.linalg``."""
    x, other = given["general"], given["other"]
    n = x.shape[-1]
    yield pair("norm", x)
    for order in (1, 2, 3, np.inf):
        yield pair("norm", x, f" {order} of rows", ord=order, axis=1)
    yield pair("vector_norm", x)
    whole = with_second("lstsq", x, other[:, :2], " all results")
    yield whole
    yield whole._replace(
        name="lstsq", own=lambda x: whole.own(x)[0], other=lambda x: whole.other(x)[0]
    )
    yield pair("qr", x[:, : n // 2], " tall")
    yield pair("qr", x[: n // 2], " wide")
    yield pair("svd", x[:, : n // 2], " tall, reduced", full_matrices=False)
    yield with_second("tensordot", x, other, "")
    yield with_second("outer", x[0], other[0], "")
    yield with_second("vecdot", x, other, "")
    yield with_second("cross", x[:, :3], other[:, :3], "")
    many = [other, given["lower"]]
    held = [fg.tensor(each) for each in many]
    yield Subject(
        "multi_dot",
        lambda x: fnp.linalg.multi_dot([x, *held, x]),
        lambda x: np.linalg.multi_dot([x, *many, x]),
        x,
    )
    sizes = (2, n // 2) * 2
    yield pair("tensorinv", x.reshape(sizes))
    yield with_second("tensorsolve", x.reshape(sizes), other[0].reshape(sizes[:2]), "")


def of_scipy(given: Mapping[str, Array]) -> Iterator[Subject]:
    """Calls of ``scipy.linalg``."""
    x, other, lower, right = (given[name] for name in ("general", "other", "lower", "right"))
    made = partial(pair, scipy=True)
    yield made("cholesky", given["positive"], lower=True)
    yield made("cho_factor", given["positive"])
    held = (fg.tensor(np.tril(lower)), True)
    yield Subject(
        "scipy cho_solve",
        lambda b: fsl.cho_solve(held, b),
        lambda b: scipy_linalg.cho_solve((lower, True), b),
        other,
    )
    columns = fg.tensor(other)
    yield Subject(
        "scipy solve_triangular",
        lambda a: fsl.solve_triangular(a, columns, lower=True),
        lambda a: scipy_linalg.solve_triangular(a, other, lower=True),
        lower,
    )
    yield made("lu", x)
    for name in ("expm", "logm", "sqrtm", "cosm", "sinm", "tanm", "coshm", "sinhm", "tanhm"):
        yield made(name, right)
    yield made("fractional_matrix_power", right, " 0.3", t=0.3)
    yield made("det", right)
    for name in ("inv", "eig", "eigvals", "svd", "svdvals", "pinv", "polar", "qr", "rq"):
        yield made(name, x)
    for name in ("eigh", "eigvalsh", "pinvh"):
        yield made(name, given["positive"])
    yield with_second("solve", right, other, "", scipy=True)
    yield with_second("lstsq", x, other[:, :2], "", scipy=True)
    second = (fg.tensor(right.T), columns)
    yield Subject(
        "scipy solve_sylvester",
        lambda a: fsl.solve_sylvester(a, *second),
        lambda a: scipy_linalg.solve_sylvester(a, right.T, other),
        right,
    )
    for name in ("solve_continuous_lyapunov", "solve_discrete_lyapunov"):
        yield with_second(name, right, given["positive"], "", scipy=True)
    yield Subject(
        "scipy block_diag",
        lambda x: fsl.block_diag(x, columns),
        lambda x: scipy_linalg.block_diag(x, other),
        x,
    )
    yield made("toeplitz", x[0])


def every_subject(size: int) -> Iterator[Subject]:
    """All subjects that are measured at one matrix."""
    given = matrices(size, size)
    yield from of_numpy(given)
    yield from of_one_matrix(given)
    yield from of_scipy(given)


def missing(names: set[str]) -> set[str]:
    """Functions that no subject calls."""
    wanted = {name for name in fnp.linalg.__all__ if name not in WITHOUT}
    wanted |= {f"scipy {name}" for name in fsl.__all__}
    return {name for name in wanted if not any(f"{own} ".startswith(f"{name} ") for own in names)}


class Totals(NamedTuple):
    """A number that depends on every result of a function, for ours and for NumPy's."""

    own: Callable[[Any], Any]
    other: Callable[[], Any]


def totals(subject: Subject) -> Totals:
    """Weighted sums, with different weights."""
    outs = [np.asarray(out) for out in numbers(subject.own(fg.tensor(subject.point)))]
    rng = np.random.default_rng(1)
    weights = [rng.uniform(0.5, 1.5, out.shape) if out.ndim else np.float64(1) for out in outs]
    held = [fg.tensor(weight) for weight in weights]

    def own(x: Any) -> Any:
        parts = zip(held, numbers(subject.own(x)), strict=True)
        return sum(fnp.vdot(weight, out.real) if out.ndim else out for weight, out in parts)

    def other() -> Any:
        found = numbers(subject.other(subject.point))
        return sum(np.vdot(w, out.real) for w, out in zip(weights, found, strict=False))

    return Totals(own, other)


def numbers(found: Any) -> list[Any]:
    """The inexact results of a call."""
    return [
        out for out in fg.tree.leaves(found) if getattr(out, "dtype", np.dtype(int)).kind in "fc"
    ]


def by_turns(works: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """The least processor time of each of some pieces of work, in seconds, but for the first."""
    for work in works.values():
        work()
    taken = {name: [seconds(work, most=0.03)] for name, work in works.items()}
    for _ in range(rounds - 1):
        for name, work in works.items():
            taken[name].append(seconds(work, most=0.03))
    return {name: min(each) for name, each in taken.items()}


def costs(subject: Subject, rounds: int) -> dict[str, float]:
    """The seconds of NumPy's call, and the times of ours as multiples of it."""
    f, x = totals(subject), fg.tensor(subject.point)
    works: dict[str, Callable[[], Any]] = {
        "numpy": partial(subject.other, subject.point),
        "value": partial(subject.own, x),
    }
    gradients: dict[str, Callable[[], Any]] = {
        "sum": f.other,
        "eager": partial(fg.value_and_grad(f.own), x),
        "jit": partial(fg.jit(fg.value_and_grad(f.own)), x),
    }
    taken = by_turns(works | gradients, rounds)
    of_sum = taken["sum"]
    return {
        "us": taken["numpy"] * 1e6,
        "value": taken["value"] / taken["numpy"],
        "eager": taken["eager"] / of_sum,
        "jit": taken["jit"] / of_sum,
        "arrays": peak(gradients["eager"]) / subject.point.nbytes,
    }


def second_costs(subject: Subject, rounds: int) -> dict[str, float]:
    """The cost of second derivatives along a direction, and how many arrays they hold at once."""
    f, x = totals(subject), fg.tensor(subject.point)
    direction = fg.tensor(np.random.default_rng(2).standard_normal(subject.point.shape))

    def along(x: Any) -> Any:
        return fg.hvp(f.own, (x,), (direction,))

    taken = by_turns(
        {
            "numpy": f.other,
            "gradient": partial(fg.value_and_grad(f.own), x),
            "eager": partial(along, x),
            "jit": partial(fg.jit(along), x),
        },
        rounds,
    )
    return _ratios(taken) | {"arrays": peak(partial(along, x)) / subject.point.nbytes}


def stack_costs(subject: Subject, rounds: int) -> dict[str, float]:
    """The cost for a stack of matrices: the function on it, and ``vmap`` of the function."""
    x = fg.tensor(subject.point)
    works = {"numpy": partial(subject.other, subject.point), "value": partial(subject.own, x)}
    if "solve" not in subject.name and subject.name != "matmul":
        works["vmap"] = partial(fg.vmap(subject.own), x)
    return _ratios(by_turns(works, rounds))


def _ratios(taken: dict[str, float]) -> dict[str, float]:
    unit = taken.pop("numpy")
    return {"us": unit * 1e6} | {name: each / unit for name, each in taken.items()}


def show(title: str, found: Mapping[str, dict[str, float]], most: Mapping[str, float]) -> None:
    """Print a table, with marks at costs that are too high."""
    print(f"\n{title}")
    for name, row in found.items():
        unit, *_ = row.values()
        texts = [
            f"{key} {ratio:6.2f}{'!' if key != 'arrays' and ratio > most[name] else ' '}"
            for key, ratio in row.items()
            if key != "us"
        ]
        print(f"{name:34s}{unit:9.0f} us   {'  '.join(texts)}")


def keep_memory() -> None:
    """Let the allocator keep freed memory, so that times do not depend on when it is returned."""
    np.empty(MEMORY, np.uint8)


def main() -> None:
    warnings.simplefilter("ignore")
    keep_memory()
    parser = argparse.ArgumentParser(description="What linear algebra costs, over NumPy and SciPy.")
    parser.add_argument("words", nargs="*")
    parser.add_argument("--size", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--second", action="store_true")
    options = parser.parse_args()

    def chosen(subject: Subject) -> bool:
        return not options.words or any(word in subject.name for word in options.words)

    subjects = [each for each in every_subject(options.size) if chosen(each)]
    measure = second_costs if options.second else costs
    most = {each.name: 15.0 if options.second else each.most for each in subjects}
    found = {each.name: measure(each, options.rounds) for each in subjects}
    show(f"{options.size} x {options.size}", found, most)
    if not options.second:
        stacks = [each for each in of_numpy(matrices(1000, 4, 4)) if chosen(each)]
        found = {each.name: stack_costs(each, options.rounds) for each in stacks}
        show("1,000 of 4 x 4", found, dict.fromkeys(found, MOST_OF_STACKS))
    if not options.words:
        print(f"not measured: {', '.join(sorted(missing({each.name for each in subjects})))}")


if __name__ == "__main__":
    main()

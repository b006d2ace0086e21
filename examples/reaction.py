"""Let a chemical reaction grow a pattern
=======================================

A stiff equation with thousands of unknowns is integrated with a sparse Jacobian.

In the Brusselator two substances react and diffuse, and one of them diffuses faster:
``u' = a - (b + 1) u + u² v + D ∇²u``, ``v' = b u - u² v + E ∇²v``. Turing (1952) found that the
uniform state ``u = a``, ``v = b / a`` is then unstable, and that waves of the number
``k² = a / sqrt(D E)`` grow first. The script starts with small noise, and
``fg.integrate.solve_ivp`` integrates by BDF, a method for stiff equations. It needs the Jacobian of
4,608 unknowns, and finds by itself that the matrix is sparse: the 27,648 elements that are not zero
take a few products.

Run it with ``python examples/reaction.py``. It prints the wave number of the pattern beside
Turing's, and draws the pattern to ``reaction.png``.
"""

# sphinx_gallery_thumbnail_number = 2

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

import funcgrad as fg
import funcgrad.numpy as fnp

A, B = 3.0, 9.0
SLOW, FAST = 5.0, 12.0  # the constants of diffusion
# %%
# The equations
# -------------

CELLS = 48  # along each side; the distance between two cells is 1


def laplacian(x: fg.Tensor) -> fg.Tensor:
    across = fnp.roll(x, 1, 1) + fnp.roll(x, -1, 1)
    return fnp.roll(x, 1, 0) + fnp.roll(x, -1, 0) + across - 4.0 * x


def slope(state: fg.Tensor) -> fg.Tensor:
    """The right-hand side, for the vector of both substances."""
    u, v = fnp.reshape(state, (2, CELLS, CELLS))
    made = u * u * v
    return fnp.concatenate(
        [
            fnp.ravel(A - (B + 1.0) * u + made + SLOW * laplacian(u)),
            fnp.ravel(B * u - made + FAST * laplacian(v)),
        ]
    )


# %%
# The pattern
# -----------
#
# ``solve_ivp`` finds out by itself that the Jacobian is sparse.


class Grown(NamedTuple):
    """The pattern, and how it was found.

    Attributes
    ----------
    pattern : numpy.ndarray, shape (CELLS, CELLS)
        The first substance at the end.
    number : float
        The mean wave number, weighted by the power of the waves.
    jacobian : Pattern
    products : int
        The number of products for each Jacobian.
    factored : int
        How often a matrix was factored.
    """

    pattern: np.ndarray
    number: float
    jacobian: fg.sparse.Pattern
    products: int
    factored: int


def wave_number(pattern: np.ndarray) -> float:
    power = abs(np.fft.fft2(pattern - pattern.mean())) ** 2
    waves = 2.0 * np.pi * np.fft.fftfreq(CELLS)
    return float(np.sum(power * np.hypot(waves[:, None], waves)) / np.sum(power))


def grown(seed: int, time: float) -> Grown:
    noise = 0.1 * np.random.default_rng(seed).standard_normal((2, CELLS, CELLS))
    start = (np.array([A, B / A])[:, None, None] + noise).ravel()
    solution = fg.integrate.solve_ivp(
        lambda _, state: slope(state),
        (0.0, time),
        start,
        method="BDF",
        t_eval=[time],
        rtol=1e-4,
        atol=1e-6,
    )
    pattern = np.reshape(np.asarray(solution.y)[: CELLS * CELLS, -1], (CELLS, CELLS))
    jacobian = fg.sparse.jacobian(slope)
    products = sum(jacobian.products(start))
    return Grown(
        pattern, wave_number(pattern), jacobian.pattern(start), products, int(solution.nlu)
    )


# %%
# The result
# ----------


def plot(result: Grown, path: Path) -> None:
    figure = Figure(figsize=(9, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.imshow(result.pattern, cmap="viridis")
    left.set(title="The first substance", xticks=[], yticks=[])
    result.jacobian.plot(right)
    right.set(title=f"{result.jacobian.nnz:,} nonzeros of the Jacobian", xlabel="", ylabel="")
    figure.savefig(path)


def main(arguments: Sequence[str] | None = None) -> Grown:
    parser = argparse.ArgumentParser(description="Let a chemical reaction grow a pattern.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--time", type=float, default=100.0)
    parser.add_argument("--out", type=Path, default=Path(), help="the folder for the picture")
    options = parser.parse_args(arguments)

    result = grown(options.seed, options.time)
    options.out.mkdir(parents=True, exist_ok=True)
    plot(result, options.out / "reaction.png")
    turing = np.sqrt(A / np.sqrt(SLOW * FAST))
    print(f"wave number {result.number:.3f}, by Turing {turing:.3f}")
    print(
        f"Jacobian of {result.jacobian.shape[0]:,} unknowns: {result.jacobian.nnz:,} nonzeros by"
        f" {result.products} products; {result.factored} matrices were factored"
    )
    return result


if __name__ == "__main__":
    main()

"""Solve Burgers' equation by a neural network
===========================================

The velocity u(x, t) of a simple fluid obeys Burgers' equation, ∂u/∂t + u ∂u/∂x = ν ∂²u/∂x², for x
from -1 to 1, with u = -sin(πx) at the beginning and u = 0 at both ends. The flow from both sides
becomes steep in the middle. A network is trained to obey the equation, without any data of the
solution (Raissi, Perdikaris and Karniadakis, "Physics-informed neural networks", Journal of
Computational Physics 378, 2019).

``fg.grad`` differentiates the network with respect to x and t at one point, ``fg.vmap`` does so at
all points, and the gradient with respect to the weights goes through all of it. The network is a
factor in a form that has the right values at the beginning and at the ends. SciPy's L-BFGS finds
the weights.

The exact solution is a quotient of two integrals (Cole, 1951; Hopf, 1950), and is computed by
Gauss-Hermite quadrature.

Run it with ``python examples/pinn.py``. It prints the error, and draws both solutions to
``pinn.png``.
"""

# sphinx_gallery_thumbnail_number = 2

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import nn, random

# %%
# The equation
# ------------
#
# Derivatives of the network by ``fg.grad``, at one point.

VISCOSITY = 0.1 / math.pi
WIDTHS = (2, 20, 20, 20, 1)


def velocity(network: nn.MLP, x: fg.Tensor, t: fg.Tensor) -> fg.Tensor:
    """The velocity at a place and a time; it is right at t = 0, at x = -1 and at x = 1."""
    correction: fg.Tensor = network(fnp.stack([x, 2 * t - 1]))[0]
    return -fnp.sin(math.pi * x) + t * (1 - x**2) * correction


def residual(network: nn.MLP, x: fg.Tensor, t: fg.Tensor) -> fg.Tensor:
    """How far the velocity is from obeying the equation."""
    along_x = fg.grad(velocity, argnums=1)
    u, in_time = velocity(network, x, t), fg.grad(velocity, argnums=2)(network, x, t)
    slope, curvature = fg.value_and_grad(along_x, argnums=1)(network, x, t)
    rest: fg.Tensor = in_time + u * slope - VISCOSITY * curvature
    return rest


# %%
# The exact solution
# ------------------


def exact(x: np.ndarray, t: np.ndarray) -> np.ndarray:
    """The solution by Cole and Hopf."""
    nodes, weights = np.polynomial.hermite.hermgauss(100)
    places = x[..., None] - 2 * np.sqrt(VISCOSITY * t[..., None]) * nodes
    logs = -np.cos(math.pi * places) / (2 * math.pi * VISCOSITY)
    factors = weights * np.exp(logs - logs.max(axis=-1, keepdims=True))
    return np.asarray(-np.sum(np.sin(math.pi * places) * factors, -1) / np.sum(factors, -1))


# %%
# The training
# ------------
#
# ``fg.vmap`` takes the residual at all points.


class Result(NamedTuple):
    """The trained network, beside the solution.

    Attributes
    ----------
    network : nn.MLP
    x, t, exact, found : numpy.ndarray
        Places, times, and velocities there.
    losses : list of float
        Mean squares of the residual, after each step.
    """

    network: nn.MLP
    x: np.ndarray
    t: np.ndarray
    exact: np.ndarray
    found: np.ndarray
    losses: list[float]

    @property
    def error(self) -> float:
        """The relative error in the root mean square."""
        return float(np.linalg.norm(self.found - self.exact) / np.linalg.norm(self.exact))


def train(points: int, steps: int, seed: int) -> tuple[nn.MLP, list[float]]:
    network_key, points_key = random.split(random.key(seed))
    network = nn.MLP.init(network_key, WIDTHS, activation=fnp.tanh)
    places = random.sobol(points_key, points, 2)  # spread evenly
    x, t = 2 * places[:, 0] - 1, places[:, 1]
    at_all_points = fg.vmap(residual, in_axes=(None, 0, 0))

    @fg.jit
    def loss(network: nn.MLP) -> fg.Tensor:
        return fnp.mean(at_all_points(network, x, t) ** 2)

    losses: list[float] = []
    solution = fg.scipy.optimize.minimize(
        loss,
        network,
        method="L-BFGS-B",
        options={"maxiter": steps, "maxfun": 2 * steps, "maxcor": 50},
        callback=lambda network: losses.append(float(loss(network))),
        progress=True,
    )
    return solution.x, losses


# %%
# The result
# ----------


def plot(result: Result, path: Path) -> None:
    figure = Figure(figsize=(11, 3.6), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    shades = left.pcolormesh(result.t, result.x, result.found, cmap="coolwarm", shading="auto")
    left.set(xlabel="t", ylabel="x", title="Velocity by the network")
    figure.colorbar(shades, ax=left)
    for k in (1, result.t.shape[1] // 4, result.t.shape[1] // 2, -1):
        (line,) = middle.plot(result.x[:, k], result.found[:, k], label=f"t = {result.t[0, k]:.2f}")
        middle.plot(result.x[::4, k], result.exact[::4, k], ".", color=line.get_color())
    middle.set(xlabel="x", ylabel="u", title="Network, and exact values (dots)")
    middle.legend(fontsize="small")
    right.semilogy(result.losses)
    right.set(xlabel="step", ylabel="mean square of the residual", title="Training")
    figure.savefig(path)


def main(arguments: Sequence[str] | None = None) -> Result:
    parser = argparse.ArgumentParser(description="Solve Burgers' equation by a neural network.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--points", type=int, default=512)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--out", type=Path, default=Path(), help="the folder for the picture")
    options = parser.parse_args(arguments)

    network, losses = train(options.points, options.steps, options.seed)
    x, t = np.meshgrid(np.linspace(-1, 1, 81), np.linspace(0.0, 1.0, 51), indexing="ij")
    at_all = fg.vmap(fg.vmap(velocity, in_axes=(None, 0, 0)), in_axes=(None, 0, 0))
    result = Result(network, x, t, exact(x, t), np.asarray(at_all(network, x, t)), losses)
    options.out.mkdir(parents=True, exist_ok=True)
    plot(result, options.out / "pinn.png")
    print(f"mean square of the residual {losses[0]:.1e} -> {losses[-1]:.1e}")
    print(f"the velocity has an error of {result.error:.2%}")
    assert result.error < 0.05
    return result


if __name__ == "__main__":
    main()

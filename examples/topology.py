"""Find the stiffest beam of a given weight
========================================

A beam that rests on its two ends carries a load in the middle (by symmetry, half of it is
computed). Half of the area may be filled with material. Where should it be, so that the beam is as
stiff as possible? The problem and the reference values come from the programs of 99 and 88 lines:
Sigmund, "A 99 line topology optimization code written in Matlab", Structural and Multidisciplinary
Optimization 21, 2001, and Andreassen, Clausen, Schevenels, Lazarov and Sigmund, "Efficient topology
optimization in MATLAB using 88 lines of code", 43, 2011.

Each of 60 x 20 square elements has a density from 0 to 1. A filter averages it over neighbours
nearer than 2.4 elements; the stiffness is proportional to the cube of the result, so that grey is
bad value. The stiffness matrix of an element is the Hessian of its energy, by ``fg.hessian``. The
displacements solve a banded system, by ``fg.scipy.linalg.solveh_banded``, and the load times its
displacement is the compliance. ``fg.value_and_grad`` differentiates all of it; the classical
programs have these derivatives by hand. The densities follow from the optimality criteria (Bendsøe,
1995).

Run it with ``python examples/topology.py``. It prints the compliance, and draws the beam to
``topology.png``.
"""

# sphinx_gallery_thumbnail_number = 2

import argparse
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from tqdm import tqdm

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.scipy.linalg import solveh_banded

WIDTH, HEIGHT = 60, 20  # elements
# %%
# The beam
# --------
#
# The stiffness of an element is the Hessian of its energy.

FILLED = 0.5  # the part of the area
RADIUS = 2.4  # of the filter, in elements
POISSON = 0.3
SOFTEST = 1e-9  # the stiffness of an empty element
PUBLISHED = 233.71  # by 88 lines, with this filter


def element_stiffness() -> np.ndarray:
    """The matrix of a square element in plane stress, shape (8, 8)."""
    factor = 1 / (1 - POISSON**2)
    elasticity = factor * np.array([[1, POISSON, 0], [POISSON, 1, 0], [0, 0, (1 - POISSON) / 2]])

    def displacement(place: fg.Tensor, corners: fg.Tensor) -> fg.Tensor:
        x, y = place
        shapes = fnp.stack([(1 - x) * (1 - y), x * (1 - y), x * y, (1 - x) * y])
        return shapes @ fnp.reshape(corners, (4, 2))

    def energy(corners: fg.Tensor) -> fg.Tensor:
        total = fnp.zeros(())
        middles = 0.5 - 12**-0.5, 0.5 + 12**-0.5  # the places of Gauss and Legendre
        for place in product(middles, middles):
            (xx, xy), (yx, yy) = fg.jacfwd(displacement)(fg.tensor(place), corners)
            strain = fnp.stack([xx, yy, xy + yx])
            total = total + strain @ elasticity @ strain / 8  # each place stands for a quarter
        return total

    return np.asarray(fg.hessian(energy)(fnp.zeros(8)))


class Beam(NamedTuple):
    """The mesh.

    Attributes
    ----------
    rows, columns : numpy.ndarray, shape (elements, 64)
        Where an element's stiffness belongs in the lower half of the matrix.
    used : numpy.ndarray, shape (elements, 64)
        1 for the numbers that belong there, and 0 for those above the diagonal, and at supports.
    supports, load : numpy.ndarray, shape (unknowns,)
        1 where the beam does not move; the forces.
    weights : numpy.ndarray, shape (elements, elements)
        Of the filter.
    """

    rows: np.ndarray
    columns: np.ndarray
    used: np.ndarray
    supports: np.ndarray
    load: np.ndarray
    weights: np.ndarray


def beam(width: int, height: int) -> Beam:
    x, y = (
        part.ravel() for part in np.meshgrid(np.arange(width), np.arange(height), indexing="ij")
    )
    corner = x * (height + 1) + y  # nodes are counted downwards, then to the right
    right = corner + height + 1
    nodes = np.stack([corner, right, right + 1, corner + 1], axis=1)
    unknowns = (2 * nodes[:, :, None] + [0, 1]).reshape(-1, 8)
    rows, columns = np.repeat(unknowns, 8, axis=1), np.tile(unknowns, (1, 8))

    load = np.zeros(2 * (width + 1) * (height + 1))
    load[1] = -1.0  # at the top of the plane of symmetry
    supports = np.zeros_like(load)
    supports[0 : 2 * (height + 1) : 2] = 1.0  # symmetry: nothing moves to the side
    supports[-1] = 1.0  # the right end rests on the ground
    used = (rows >= columns) & (supports[rows] == 0) & (supports[columns] == 0)

    distance = np.hypot(x[:, None] - x, y[:, None] - y)
    weights = np.maximum(RADIUS - distance, 0)
    weights /= weights.sum(axis=1, keepdims=True)
    return Beam(rows, columns, used.astype(float), supports, load, weights)


# %%
# The compliance
# --------------
#
# Its gradient says where material is worth most.


def compliance(densities: fg.Tensor, beam: Beam, stiffness: np.ndarray) -> fg.Tensor:
    """The load times its displacement: the smaller, the stiffer."""
    filtered = fnp.matmul(beam.weights, densities)
    moduli = SOFTEST + filtered**3 * (1 - SOFTEST)
    entries = moduli[:, None] * stiffness.ravel() * beam.used
    offsets = np.maximum(beam.rows - beam.columns, 0)
    diagonals = fnp.zeros((int(offsets.max()) + 1, len(beam.load)))
    diagonals = diagonals.at[offsets, beam.columns].add(entries).at[0].add(beam.supports)
    displacements = solveh_banded(diagonals, beam.load, lower=True)
    return fnp.sum(beam.load * displacements)


def updated(densities: np.ndarray, slopes: np.ndarray, used: np.ndarray) -> np.ndarray:
    """Densities after a step by the optimality criteria, with the area kept.

    ``slopes`` are derivatives of the compliance, and ``used`` of the area.
    """
    low, high = 0.0, 1e9
    while True:
        price = (low + high) / 2
        factors = np.sqrt(-slopes / used / price)
        bounds = np.maximum(densities - 0.2, 0), np.minimum(densities + 0.2, 1)
        proposal: np.ndarray = np.clip(densities * factors, *bounds)
        if (high - low) / (low + high) < 1e-4:
            return proposal
        if used @ proposal > FILLED * len(densities):
            low = price
        else:
            high = price


# %%
# The optimization
# ----------------


class Result(NamedTuple):
    """The beam that was found.

    Attributes
    ----------
    image : numpy.ndarray, shape (height, width)
        The filtered densities.
    compliances : list of float
        At the start, and after each step.
    """

    image: np.ndarray
    compliances: list[float]


def optimize(width: int, height: int, steps: int) -> Result:
    mesh, stiffness = beam(width, height), element_stiffness()
    objective: Callable[[np.ndarray], tuple[fg.Tensor, fg.Tensor]] = fg.jit(
        fg.value_and_grad(lambda densities: compliance(densities, mesh, stiffness))
    )
    densities = np.full(width * height, FILLED)
    used = mesh.weights.sum(axis=0)
    compliances = []
    progress = tqdm(range(steps), desc="moving material")
    for _ in progress:
        value, slopes = objective(densities)
        compliances.append(float(value))
        densities = updated(densities, np.asarray(slopes), used)
        progress.set_postfix(compliance=f"{compliances[-1]:.2f}")
    compliances.append(float(objective(densities)[0]))
    return Result((mesh.weights @ densities).reshape(width, height).T, compliances)


# %%
# The result
# ----------


def plot(result: Result, path: Path) -> None:
    figure = Figure(figsize=(10, 3), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 1))
    whole = np.hstack([result.image[:, ::-1], result.image])
    left.imshow(whole, cmap="gray_r", vmin=0.0, vmax=1.0)
    left.axis("off")
    right.semilogy(result.compliances)
    right.set(xlabel="step", ylabel="compliance")
    figure.savefig(path)


def main(arguments: Sequence[str] | None = None) -> Result:
    parser = argparse.ArgumentParser(description="Find the stiffest beam of a given weight.")
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--out", type=Path, default=Path(), help="the folder for the picture")
    options = parser.parse_args(arguments)

    result = optimize(WIDTH, HEIGHT, options.steps)
    options.out.mkdir(parents=True, exist_ok=True)
    plot(result, options.out / "topology.png")
    print(f"compliance {result.compliances[0]:.2f} -> {result.compliances[-1]:.2f}", end=", ")
    print(f"published {PUBLISHED}; {np.mean(result.image):.1%} of the area is filled")
    assert abs(result.compliances[-1] / PUBLISHED - 1) < 0.02
    return result


if __name__ == "__main__":
    main()

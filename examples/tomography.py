"""Reconstruct an image from few projections
=========================================

A scanner measures how much the rays through a body are weakened: integrals along parallel lines, in
a number of directions. The body is the phantom of Shepp and Logan ("The Fourier reconstruction of a
head section", IEEE Transactions on Nuclear Science 21, 1974; with the contrasts of Toft, 1996),
which consists of ellipses, so that the integrals are closed forms. They are given noise.

Filtered back-projection, the classical method, filters each projection and smears it back over the
image; smearing back is the transpose of projecting, which ``fg.linear_transpose`` makes. With few
directions it leaves streaks. The image of least total variation that fits the data (Rudin, Osher
and Fatemi, "Nonlinear total variation based noise removal algorithms", Physica D 60, 1992; Sidky
and Pan, Physics in Medicine and Biology 53, 2008) has none: SciPy's L-BFGS-B minimizes the misfit
and the variation, with ``fg.value_and_grad`` of both, over images that are nowhere negative.

Run it with ``python examples/tomography.py``. It prints the errors of both reconstructions, and
draws them to ``tomography.png``.
"""

# sphinx_gallery_thumbnail_number = 5

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.linalg
from matplotlib.figure import Figure

import funcgrad as fg
import funcgrad.numpy as fnp

# %%
# The phantom
# -----------

# Value, half axes, centre, and angle in degrees, in a square from -1 to 1.
ELLIPSES = np.array(
    [
        [1.0, 0.69, 0.92, 0.0, 0.0, 0.0],
        [-0.8, 0.6624, 0.874, 0.0, -0.0184, 0.0],
        [-0.2, 0.11, 0.31, 0.22, 0.0, -18.0],
        [-0.2, 0.16, 0.41, -0.22, 0.0, 18.0],
        [0.1, 0.21, 0.25, 0.0, 0.35, 0.0],
        [0.1, 0.046, 0.046, 0.0, 0.1, 0.0],
        [0.1, 0.046, 0.046, 0.0, -0.1, 0.0],
        [0.1, 0.046, 0.023, -0.08, -0.605, 0.0],
        [0.1, 0.023, 0.023, 0.0, -0.606, 0.0],
        [0.1, 0.023, 0.046, 0.06, -0.605, 0.0],
    ]
)
NOISE = 0.005
VARIATION = 0.001  # the weight of the total variation
EDGE = 1e-3  # differences below this count as smooth


def phantom(side: int) -> np.ndarray:
    """The image: means over the pixels."""
    fine = (np.arange(4 * side) + 0.5) / (2 * side) - 1
    x, y = np.meshgrid(fine, fine, indexing="ij")
    image = np.zeros_like(x)
    for value, a, b, x0, y0, degrees in ELLIPSES:
        cos, sin = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
        along, across = (x - x0) * cos + (y - y0) * sin, (y - y0) * cos - (x - x0) * sin
        image = image + value * ((along / a) ** 2 + (across / b) ** 2 <= 1)
    return np.asarray(image.reshape(side, 4, side, 4).mean(axis=(1, 3)))


# %%
# The projections, and the classical method
# -----------------------------------------
#
# Smearing back is the transpose of projecting.


class Scanner(NamedTuple):
    """Directions (radians), and the distances of the rays from the middle."""

    angles: np.ndarray
    offsets: np.ndarray

    def exact(self) -> np.ndarray:
        """The integrals through the phantom's ellipses, shape (angles, offsets)."""
        angles, total = self.angles[:, None], np.zeros((len(self.angles), len(self.offsets)))
        for value, a, b, x0, y0, degrees in ELLIPSES:
            turned = angles - np.radians(degrees)
            square = (a * np.cos(turned)) ** 2 + (b * np.sin(turned)) ** 2
            distance = self.offsets - x0 * np.cos(angles) - y0 * np.sin(angles)
            total += 2 * value * a * b / square * np.sqrt(np.maximum(square - distance**2, 0))
        return total


class Projector:
    """Integrals along the rays of a scanner, of an image that is linear between pixels."""

    def __init__(self, scanner: Scanner, side: int):
        self.side, self.spacing = side, 2 / side
        along = (np.arange(3 * side // 2) + 0.5) * self.spacing - 1.5
        cos, sin = np.cos(scanner.angles)[:, None, None], np.sin(scanner.angles)[:, None, None]
        offsets = scanner.offsets[:, None]
        places = np.stack([offsets * cos - along * sin, offsets * sin + along * cos])
        places = (places + 1) / self.spacing - 0.5  # in pixels
        corner = np.floor(places).astype(int)
        indices, weights = [], []
        for step in np.ndindex(2, 2):
            pixel = corner + np.reshape(step, (2, 1, 1, 1))
            inside = np.all((pixel >= 0) & (pixel < side), axis=0)
            weight = np.prod(1 - np.abs(places - pixel), axis=0)
            indices.append(np.where(inside, pixel[0] * side + pixel[1], 0))
            weights.append(np.where(inside, weight * self.spacing, 0.0))
        self.indices, self.weights = np.stack(indices), np.stack(weights)

    def __call__(self, image: fg.Tensor) -> fg.Tensor:
        return fnp.sum(self.weights * fnp.ravel(image)[self.indices], axis=(0, 3))

    def back(self, projections: np.ndarray) -> np.ndarray:
        """Smear projections back over the image."""
        transposed = fg.linear_transpose(self, np.zeros((self.side, self.side)))
        return np.asarray(transposed(projections)[0])


def filtered_back_projection(data: np.ndarray, scanner: Scanner, side: int) -> np.ndarray:
    """The reconstruction by the filter of Ramachandran and Lakshminarayanan (1971)."""
    steps = np.arange(len(scanner.offsets))
    odd = steps % 2 == 1
    kernel = np.where(odd, -1 / (np.pi * np.maximum(steps, 1)) ** 2, np.where(steps == 0, 0.25, 0))
    filtered = data @ scipy.linalg.toeplitz(kernel) / (scanner.offsets[1] - scanner.offsets[0])
    projector = Projector(scanner, side)
    return np.pi / len(scanner.angles) * projector.back(filtered) / projector.spacing


# %%
# Least total variation
# ---------------------


def total_variation(image: fg.Tensor) -> fg.Tensor:
    right = fnp.diff(image, axis=0, append=image[-1:])
    up = fnp.diff(image, axis=1, append=image[:, -1:])
    return fnp.sum(fnp.sqrt(right**2 + up**2 + EDGE**2))


def least_variation(data: np.ndarray, scanner: Scanner, side: int, steps: int) -> np.ndarray:
    projector = Projector(scanner, side)

    @fg.jit
    def objective(image: fg.Tensor) -> fg.Tensor:
        misfit = fnp.sum((projector(image) - data) ** 2) / 2
        return misfit + VARIATION * total_variation(image)

    solution = fg.scipy.optimize.minimize(
        objective,
        np.zeros((side, side)),
        method="L-BFGS-B",
        bounds=(0.0, None),
        options={"maxiter": steps, "maxfun": 2 * steps},
        progress=True,
    )
    return np.asarray(solution.x)


# %%
# The result
# ----------


class Result(NamedTuple):
    """The phantom, its noisy projections, and the reconstructions."""

    truth: np.ndarray
    data: np.ndarray
    filtered: np.ndarray
    smooth: np.ndarray

    def error(self, image: np.ndarray) -> float:
        """The relative error in the root mean square."""
        return float(np.linalg.norm(image - self.truth) / np.linalg.norm(self.truth))


def plot(result: Result, path: Path) -> None:
    figure = Figure(figsize=(11, 3.4), layout="constrained")
    grid = figure.subplots(1, 4)
    grid[0].imshow(result.data, cmap="gray", aspect="auto")
    grid[0].set(title="Projections", xlabel="ray", ylabel="direction")
    images = {
        "Phantom": result.truth,
        f"Back-projection, error {result.error(result.filtered):.0%}": result.filtered,
        f"Least variation, error {result.error(result.smooth):.0%}": result.smooth,
    }
    for axes, (title, image) in zip(grid[1:], images.items(), strict=True):
        axes.imshow(image.T, cmap="gray", origin="lower", vmin=0.0, vmax=0.5)
        axes.set_title(title, fontsize="medium")
        axes.axis("off")
    figure.savefig(path)


def main(arguments: Sequence[str] | None = None) -> Result:
    parser = argparse.ArgumentParser(description="Reconstruct an image from few projections.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--side", type=int, default=64, help="of the image, in pixels")
    parser.add_argument("--directions", type=int, default=24)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--out", type=Path, default=Path(), help="the folder for the picture")
    options = parser.parse_args(arguments)

    side = options.side
    angles = np.pi * np.arange(options.directions) / options.directions
    scanner = Scanner(angles, (np.arange(side) + 0.5) * 2 / side - 1)
    exact = scanner.exact()
    data = exact + np.random.default_rng(options.seed).normal(scale=NOISE, size=exact.shape)
    filtered = filtered_back_projection(data, scanner, side)
    smooth = least_variation(data, scanner, side, options.steps)
    result = Result(phantom(side), data, filtered, smooth)
    options.out.mkdir(parents=True, exist_ok=True)
    plot(result, options.out / "tomography.png")
    print(f"filtered back-projection has an error of {result.error(filtered):.1%}")
    print(f"least total variation has an error of {result.error(smooth):.1%}")
    assert result.error(smooth) < result.error(filtered) / 2
    return result


if __name__ == "__main__":
    main()

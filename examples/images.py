"""Sharpen a blurred photograph
============================

A photograph of a Chinese temple, which comes with scikit-learn, is blurred by a Gaussian and given
noise. The original is reconstructed in two ways.

The first minimizes half the squares of the misfit and of the brightness times a small weight. That
is a linear system, with the transpose of the blur, which ``fg.linear_transpose`` makes, and
``fg.implicit.cg`` solves it by conjugate gradients. In Fourier space the same solution is a closed
form, the filter of Wiener (1949), with which it is compared.

The second weighs the total variation instead (Rudin, Osher and Fatemi, "Nonlinear total variation
based noise removal algorithms", Physica D 60, 1992). There is no closed form; SciPy's L-BFGS-B
minimizes it along the gradient. Edges stay sharp, and the noise is not amplified.

Run it with ``python examples/images.py``. It prints the ratios of signal to noise, and draws the
images to ``images.png``.
"""

# sphinx_gallery_thumbnail_number = 2

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_sample_image

import funcgrad as fg
import funcgrad.numpy as fnp

# %%
# The photograph, and its blur
# ----------------------------
#
# The blur is linear: ``fg.linear_transpose`` makes its transpose.

WIDTH = 1.5  # the standard deviation of the blur, in pixels
NOISE = 0.01  # of a brightness from 0 to 1
BRIGHTNESS = 5e-3  # the weight of squares
VARIATION = 4e-4  # the weight of the total variation
EDGE = 1e-2  # differences below this count as smooth


def photograph(side: int) -> np.ndarray:
    """A part of the photograph in grey, of half its resolution."""
    grey = load_sample_image("china.jpg").mean(axis=2) / 255
    part = grey[100 : 100 + 2 * side, 140 : 140 + 2 * side]
    return np.asarray(part.reshape(side, 2, side, 2).mean(axis=(1, 3)))


def transfer(side: int) -> np.ndarray:
    """The factors by which the blur weakens frequencies."""
    frequencies = np.fft.fftfreq(side)
    squares = frequencies[:, None] ** 2 + frequencies**2
    return np.asarray(np.exp(-2 * (np.pi * WIDTH) ** 2 * squares))


def blur(image: fg.Tensor) -> fg.Tensor:
    """A Gaussian blur, by which the image is continued periodically."""
    return fnp.fft.ifft2(transfer(len(image)) * fnp.fft.fft2(image)).real


# %%
# The linear solution
# -------------------
#
# By conjugate gradients, and by the closed form.


def least_squares(data: np.ndarray) -> np.ndarray:
    """The image of the least squares of misfit and brightness, by conjugate gradients."""
    transposed = fg.linear_transpose(blur, data)

    def normal(image: fg.Tensor) -> fg.Tensor:
        back: fg.Tensor = transposed(blur(image))[0]
        return back + BRIGHTNESS * image

    (right,) = transposed(data)
    return np.asarray(fg.implicit.cg(normal, right, rtol=1e-10)[0])


def wiener(data: np.ndarray) -> np.ndarray:
    """The same image by its closed form."""
    factors = transfer(len(data))
    filtered = factors / (factors**2 + BRIGHTNESS) * np.fft.fft2(data)
    return np.asarray(np.fft.ifft2(filtered).real)


# %%
# The solution with sharp edges
# -----------------------------


def total_variation(image: fg.Tensor) -> fg.Tensor:
    down = fnp.roll(image, -1, axis=0) - image
    right = fnp.roll(image, -1, axis=1) - image
    return fnp.sum(fnp.sqrt(down**2 + right**2 + EDGE**2))


def least_variation(data: np.ndarray, steps: int) -> np.ndarray:
    @fg.jit
    def objective(image: fg.Tensor) -> fg.Tensor:
        return fnp.sum((blur(image) - data) ** 2) / 2 + VARIATION * total_variation(image)

    solution = fg.scipy.optimize.minimize(
        objective, data, method="L-BFGS-B", options={"maxiter": steps}, progress=True
    )
    return np.asarray(solution.x)


# %%
# The result
# ----------


class Result(NamedTuple):
    """The images."""

    truth: np.ndarray
    data: np.ndarray
    squares: np.ndarray
    variation: np.ndarray

    def decibels(self, image: np.ndarray) -> float:
        """The ratio of the greatest signal to the error."""
        return float(-10 * np.log10(np.mean((image - self.truth) ** 2)))


def plot(result: Result, path: Path) -> None:
    figure = Figure(figsize=(11, 3.2), layout="constrained")
    titles = "Photograph", "Blurred", "Least squares", "Least variation"
    for axes, title, image in zip(figure.subplots(1, 4), titles, result, strict=True):
        axes.imshow(image, cmap="gray", vmin=0.0, vmax=1.0)
        decibels = "" if image is result.truth else f", {result.decibels(image):.1f} dB"
        axes.set_title(title + decibels)
        axes.axis("off")
    figure.savefig(path)


def main(arguments: Sequence[str] | None = None) -> Result:
    parser = argparse.ArgumentParser(description="Sharpen a blurred photograph.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--side", type=int, default=96, help="of the image, in pixels")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--out", type=Path, default=Path(), help="the folder for the picture")
    options = parser.parse_args(arguments)

    truth = photograph(options.side)
    noise = np.random.default_rng(options.seed).normal(scale=NOISE, size=truth.shape)
    data = np.asarray(blur(fg.tensor(truth))) + noise
    result = Result(truth, data, least_squares(data), least_variation(data, options.steps))
    options.out.mkdir(parents=True, exist_ok=True)
    plot(result, options.out / "images.png")
    difference = float(np.max(np.abs(result.squares - wiener(data))))
    print(f"blurred {result.decibels(data):.1f} dB")
    print(f"least squares {result.decibels(result.squares):.1f} dB", end=", ")
    print(f"Wiener's filter differs by {difference:.0e}")
    print(f"least variation {result.decibels(result.variation):.1f} dB")
    assert difference < 1e-6
    assert result.decibels(result.variation) > result.decibels(result.squares) > 20
    return result


if __name__ == "__main__":
    main()

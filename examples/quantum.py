"""Compute the bond of the hydrogen molecule
=========================================

Two protons and two electrons: energy, force, bond length and vibration of H₂ from first principles,
in atomic units. The orbitals are sums of three Gaussians around each proton (STO-3G; Hehre, Stewart
and Pople, Journal of Chemical Physics 51, 1969), for which all integrals are closed forms (Szabo
and Ostlund, "Modern quantum chemistry", 1989, appendix A). By symmetry there are two molecular
orbitals, and the electrons are together in the even one or in the odd one:

    state(θ) = cos θ (both in the even orbital) + sin θ (both in the odd orbital).

This is the state that a variational quantum eigensolver prepares for H₂ (O'Malley et al., "Scalable
quantum simulation of molecular energies", Physical Review X 6, 2016). With θ = 0 its energy is the
Hartree-Fock energy; the least energy over all θ is exact for these orbitals.

The energy is a function of the distance R and of θ, so that one minimization finds the bond length
and the state, by ``fg.grad`` through every integral. The Hessian at the minimum gives the force
constant of the bond: θ follows R by the implicit function theorem.

Run it with ``python examples/quantum.py``. It prints energies beside published ones, and draws the
energy over the distance to ``quantum.png``.
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
from funcgrad.scipy import special

# %%
# The integrals
# -------------

ANGSTROM = 1 / 0.529177210903  # in Bohr radii
PER_CENTIMETRE = 219474.63  # a Hartree, as a wave number
REDUCED_MASS = 1836.15267 / 2  # of two protons, in masses of the electron

EXPONENTS = np.tile([3.42525091, 0.62391373, 0.16885540], 2)  # of both protons' orbitals
COEFFICIENTS = np.array([0.15432897, 0.53532814, 0.44463454])
WEIGHTS = np.tile(COEFFICIENTS, 2) * (2 * EXPONENTS / math.pi) ** 0.75
FIRST = np.repeat([1.0, 0.0], 3)  # which Gaussians stand around the first proton
SECOND = 1 - FIRST

SZABO_OSTLUND = -1.1167  # Hartree and Fock's energy at 1.4 Bohr radii, in Hartree
QISKIT = -1.137306035753  # at 0.735 Å, by the tutorial of Qiskit Nature


def boys(t: fg.Tensor) -> fg.Tensor:
    """The integral of exp(-t x²) for x from 0 to 1."""
    return special.hyp1f1(0.5, 1.5, -t)


class Integrals(NamedTuple):
    """Energies of electrons in the even orbital g and the odd orbital u.

    Attributes
    ----------
    even, odd : Tensor
        Of one electron.
    even_pair, odd_pair : Tensor
        Of the repulsion of two electrons in the same orbital.
    exchange : Tensor
        Between the pairs.
    """

    even: fg.Tensor
    odd: fg.Tensor
    even_pair: fg.Tensor
    odd_pair: fg.Tensor
    exchange: fg.Tensor


def integrals(distance: fg.Tensor) -> Integrals:
    """The integrals for two protons at 0 and at the distance."""
    b = fg.tensor(EXPONENTS)
    a = b[:, None]
    place = distance * SECOND
    total, reduced = a + b, a * b / (a + b)
    center = (a * place[:, None] + b * place) / total  # of the product of two Gaussians
    square = (place[:, None] - place) ** 2
    product = WEIGHTS[:, None] * WEIGHTS * fnp.exp(-reduced * square)

    overlap = (math.pi / total) ** 1.5 * product
    kinetic = reduced * (3 - 2 * reduced * square) * overlap
    near = boys(total * center**2) + boys(total * (center - distance) ** 2)
    one = kinetic - 2 * math.pi / total * product * near

    left, right = total[:, :, None, None], total
    apart = (center[:, :, None, None] - center) ** 2
    scale = 2 * math.pi**2.5 / (left * right * fnp.sqrt(left + right))
    repulsion = scale * product[:, :, None, None] * product
    repulsion = repulsion * boys(left * right / (left + right) * apart)

    def orbital(sign: float) -> fg.Tensor:
        weights = fg.tensor(FIRST + sign * SECOND)
        return weights / fnp.sqrt(weights @ overlap @ weights)

    g, u = orbital(1.0), orbital(-1.0)
    gg, uu, gu = fnp.outer(g, g), fnp.outer(u, u), fnp.outer(g, u)

    def two(x: fg.Tensor, y: fg.Tensor) -> fg.Tensor:
        return fnp.einsum("ij,ijkl,kl", x, repulsion, y)

    return Integrals(g @ one @ g, u @ one @ u, two(gg, gg), two(uu, uu), two(gu, gu))


# %%
# The energy
# ----------
#
# The best angle has a closed form, and so the exact energy.


def energy(distance: fg.Tensor, angle: fg.Tensor) -> fg.Tensor:
    """The energy of the molecule, in Hartree."""
    parts = integrals(distance)
    even, odd = 2 * parts.even + parts.even_pair, 2 * parts.odd + parts.odd_pair
    cos, sin = fnp.cos(angle), fnp.sin(angle)
    return cos**2 * even + sin**2 * odd + 2 * cos * sin * parts.exchange + 1 / distance


def best_angle(distance: fg.Tensor) -> fg.Tensor:
    """The θ of the least energy, of two states that mix."""
    parts = integrals(distance)
    gap = 2 * (parts.odd - parts.even) + parts.odd_pair - parts.even_pair
    return -fnp.arctan2(2 * parts.exchange, gap) / 2


def exact_energy(distance: fg.Tensor) -> fg.Tensor:
    return energy(distance, best_angle(distance))


# %%
# The bond
# --------
#
# The force is minus the gradient; the vibration follows from the second derivative.


class Bond(NamedTuple):
    """The molecule at rest.

    Attributes
    ----------
    length : float
        In Bohr radii.
    angle : float
    energy : float
        In Hartree.
    force_constant : float
        In Hartree per square Bohr radius.
    """

    length: float
    angle: float
    energy: float
    force_constant: float

    @property
    def wave_number(self) -> float:
        """Of the vibration, per centimetre."""
        return math.sqrt(self.force_constant / REDUCED_MASS) * PER_CENTIMETRE


def relax() -> Bond:
    """Minimize the energy over the distance and the state."""

    def objective(unknowns: fg.Tensor) -> fg.Tensor:
        return energy(unknowns[0], unknowns[1])

    start = np.array([2.0, 0.0])
    solution = fg.scipy.optimize.minimize(objective, start, method="trust-exact", tol=1e-9)
    hessian = np.asarray(fg.hessian(objective)(solution.x))
    force_constant = hessian[0, 0] - hessian[0, 1] ** 2 / hessian[1, 1]
    length, angle = (float(number) for number in solution.x)
    return Bond(length, angle, float(solution.fun), float(force_constant))


# %%
# The result
# ----------


def plot(bond: Bond, path: Path) -> None:
    distances = np.linspace(0.6, 6.0, 109)
    plain = fg.vmap(lambda distance: energy(distance, fnp.zeros(())))(distances)
    exact, force = fg.vmap(fg.value_and_grad(exact_energy))(distances)
    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot(distances, plain, label="Hartree and Fock, θ = 0")
    left.plot(distances, exact, label="exact for these orbitals")
    left.plot(bond.length, bond.energy, "ko", label="at rest")
    left.axhline(2 * -0.466581849, color="0.6", linewidth=0.8, label="two atoms")
    left.set(xlabel="distance (Bohr radii)", ylabel="energy (Hartree)", ylim=(-1.2, -0.6))
    left.legend()
    right.plot(distances, -np.asarray(force))
    right.axhline(0.0, color="0.6", linewidth=0.8)
    right.set(xlabel="distance (Bohr radii)", ylabel="force (Hartree / Bohr radius)")
    right.set_ylim(-0.15, 0.4)
    figure.savefig(path)


def main(arguments: Sequence[str] | None = None) -> Bond:
    parser = argparse.ArgumentParser(description="Compute the bond of the hydrogen molecule.")
    parser.add_argument("--out", type=Path, default=Path(), help="the folder for the picture")
    options = parser.parse_args(arguments)

    bond = relax()
    options.out.mkdir(parents=True, exist_ok=True)
    plot(bond, options.out / "quantum.png")
    plain = float(energy(fg.tensor(1.4), fg.tensor(0.0)))
    exact = float(exact_energy(fg.tensor(0.735 * ANGSTROM)))
    print(f"energy of Hartree and Fock {plain:.4f} Hartree, published {SZABO_OSTLUND:.4f}")
    print(f"exact energy {exact:.9f} Hartree, published {QISKIT:.9f}")
    print(f"bond length {bond.length / ANGSTROM:.4f} Å, θ = {bond.angle:.4f}")
    print(f"the bond vibrates with {bond.wave_number:.0f} waves per centimetre")
    assert abs(plain - SZABO_OSTLUND) < 1e-4
    assert abs(exact - QISKIT) < 1e-7
    return bond


if __name__ == "__main__":
    main()

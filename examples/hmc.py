"""Draw from a posterior by Hamiltonian Monte Carlo
=================================================

Eight schools coached their pupils for a test. The effect of the coaching in school j was measured
as y_j points, with a standard error σ_j (Rubin, "Estimation in parallel randomized experiments",
Journal of Educational Statistics 6, 1981). How much do the schools really differ? In the
hierarchical model, the true effects θ_j are normal with mean μ and standard deviation τ. The priors
are as in Stan and TensorFlow Probability: μ is normal with standard deviation 5, and τ half Cauchy
with scale 5.

Hamiltonian Monte Carlo (Duane, Kennedy, Pendleton and Roweth, "Hybrid Monte Carlo", Physics Letters
B 195, 1987; Neal, "MCMC using Hamiltonian dynamics", 2011) moves a particle through the posterior
by the gradient of its logarithm. The chains run side by side by ``fg.vmap``. The unknowns are
scaled such that none depends strongly on another: μ / 5, log τ and (θ_j - μ) / τ.

Each chain finds its step size during the warm-up, by dual averaging (Hoffman and Gelman, "The
No-U-Turn sampler", 2014): it is made smaller as long as too few proposals are accepted. Two values
for each unknown tell whether the draws suffice (Vehtari and others, "Rank-normalization, folding,
and localization", 2021). R-hat compares the spread of all draws with the spread within halves of
chains, and is 1 if the chains have forgotten their starts. The effective sample size is the number
of independent draws that would be as exact. It is larger than the number of draws here, because
neighbours lie on opposite sides of the mean.

For a fixed τ everything is normal. So the exact answer is one integral over τ, and the chains are
compared with it.

Run it with ``python examples/hmc.py``. It prints the posterior means beside the exact ones, with
R-hat and the effective sample size, and draws the chains to ``hmc.png``.
"""

# sphinx_gallery_thumbnail_number = 2

import argparse
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from tqdm import tqdm

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import random

# %%
# The model
# ---------

SCHOOLS = "ABCDEFGH"
EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])  # points
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
PRIOR = 5.0  # the standard deviation of μ, and the scale of τ

STEP_SIZE = 0.1  # at first
STEPS = 8  # of the leapfrog method, for a draw
ACCEPTED = 0.95  # the part of the proposals for which step sizes are tuned
DRAWS_AT_ONCE = 100


@fg.pytree
class Unknowns:
    """The scaled unknowns, which are of the size of 1."""

    mean: fg.Tensor
    log_spread: fg.Tensor
    effects: fg.Tensor

    def values(self) -> tuple[fg.Tensor, fg.Tensor, fg.Tensor]:
        """μ, τ and the θ_j, in points."""
        mean, spread = PRIOR * self.mean, fnp.exp(self.log_spread)
        return mean, spread, mean + spread * self.effects


def log_posterior(unknowns: Unknowns) -> fg.Tensor:
    """The logarithm of the density, up to a constant."""
    _, spread, effects = unknowns.values()
    likelihood = -fnp.sum(((EFFECTS - effects) / ERRORS) ** 2) / 2
    normal_priors = -(unknowns.mean**2 + fnp.sum(unknowns.effects**2)) / 2
    spread_prior = unknowns.log_spread - fnp.log1p((spread / PRIOR) ** 2)  # τ is exp(log τ)
    return likelihood + normal_priors + spread_prior


# %%
# One chain
# ---------
#
# A draw follows the gradient of the logarithm of the density for some steps.


@fg.pytree
class Tuning:
    """Dual averaging of the logarithm of the step size.

    Attributes
    ----------
    count, shortage : Tensor
        How many draws have been made, and how many acceptances they lacked in total.
    log_size, mean : Tensor
        The logarithm of the step size for the next draw, and its mean, in which later draws have
        more weight.
    """

    count: fg.Tensor
    shortage: fg.Tensor
    log_size: fg.Tensor
    mean: fg.Tensor

    def after(self, probability: fg.Tensor) -> "Tuning":
        """The tuning after a draw that was accepted with a probability."""
        count, shortage = self.count + 1, self.shortage + ACCEPTED - probability
        middle = math.log(10 * STEP_SIZE)
        log_size = middle - 20 * fnp.sqrt(count) * shortage / (count + 10)
        weight = count**-0.75
        return Tuning(count, shortage, log_size, weight * log_size + (1 - weight) * self.mean)


def draw(
    log_density: Callable[[fg.Tensor], fg.Tensor],
    position: fg.Tensor,
    step_size: fg.Tensor,
    key: fg.Tensor,
) -> tuple[fg.Tensor, fg.Tensor]:
    """One step of the chain: the next position, and with which probability it was accepted."""
    momentum_key, size_key, accept_key = random.split(key, 3)
    momentum = random.normal(momentum_key, position.shape)
    size = step_size * random.uniform(size_key, minval=0.7, maxval=1.3)  # against periodic orbits
    force = fg.grad(log_density)

    def leap(_: fg.Tensor, state: tuple[fg.Tensor, fg.Tensor]) -> tuple[fg.Tensor, fg.Tensor]:
        position, momentum = state
        momentum = momentum + size / 2 * force(position)
        position = position + size * momentum
        return position, momentum + size / 2 * force(position)

    def energy(position: fg.Tensor, momentum: fg.Tensor) -> fg.Tensor:
        return fnp.sum(momentum**2) / 2 - log_density(position)

    proposal, end = fg.fori_loop(0, STEPS, leap, (position, momentum))
    gain = energy(position, momentum) - energy(proposal, end)
    probability = fnp.nan_to_num(fnp.exp(fnp.minimum(gain, 0.0)))  # steps may be far too long
    accepted = random.uniform(accept_key) < probability
    return fnp.where(accepted, proposal, position), probability


# %%
# Many chains
# -----------
#
# ``fg.vmap`` runs the chains side by side.


class Chains(NamedTuple):
    """The draws of all chains.

    Attributes
    ----------
    mean, spread : numpy.ndarray, shape (chains, draws)
        μ and τ.
    effects : numpy.ndarray, shape (chains, draws, 8)
        The θ_j.
    accepted : float
        The mean probability with which a proposal was accepted.
    step_sizes : numpy.ndarray, shape (chains,)
    """

    mean: np.ndarray
    spread: np.ndarray
    effects: np.ndarray
    accepted: float
    step_sizes: np.ndarray

    @property
    def draws(self) -> np.ndarray:
        """The draws of μ, τ and the θ_j, of shape (chains, draws, 10)."""
        return np.concatenate([self.mean[..., None], self.spread[..., None], self.effects], axis=2)

    def estimates(self) -> tuple[np.ndarray, np.ndarray]:
        """The posterior means of μ, τ and the θ_j, and the standard errors of these estimates."""
        by_chain = self.draws.mean(axis=1)  # chains are independent of each other
        return by_chain.mean(axis=0), by_chain.std(axis=0, ddof=1) / math.sqrt(len(by_chain))


def r_hat(draws: np.ndarray) -> np.ndarray:
    """The square root of the variance of all draws over the one within halves of chains."""
    count = draws.shape[1] // 2
    halves = np.concatenate([draws[:, :count], draws[:, -count:]])
    within = halves.var(axis=1, ddof=1).mean(axis=0)
    between = halves.mean(axis=1).var(axis=0, ddof=1)
    return np.asarray(np.sqrt((count - 1) / count + between / within))


def effective_size(draws: np.ndarray) -> np.ndarray:
    """The number of independent draws whose mean is as exact."""
    chains, count = draws.shape[:2]
    spectrum = np.fft.rfft(draws - draws.mean(axis=1, keepdims=True), 2 * count, axis=1)
    covariances = np.fft.irfft(abs(spectrum) ** 2, axis=1)[:, :count].mean(axis=0) / count
    within = covariances[0] * count / (count - 1)
    variance = covariances[0] + draws.mean(axis=1).var(axis=0, ddof=1)
    correlations = 1 - (within - covariances) / variance
    even = count - count % 2
    pairs = correlations[0:even:2] + correlations[1:even:2]
    # Sums of two neighbours are positive, and fall (Geyer, 1992); noise is left out from there on.
    positive = np.cumprod(pairs > 0, axis=0)
    sums = np.sum(np.minimum.accumulate(pairs, axis=0) * positive, axis=0)
    return np.asarray(chains * count / (2 * sums - 1))


def sample(chains: int, draws: int, seed: int) -> Chains:
    zeros = Unknowns(fnp.zeros(()), fnp.zeros(()), fnp.zeros(8))
    vector, unravel = fg.tree.ravel(zeros)

    def chain(
        tuning: Tuning, position: fg.Tensor, key: fg.Tensor, is_warm: bool
    ) -> tuple[Any, ...]:
        """Many steps of a chain."""

        def step(state: tuple[Tuning, fg.Tensor], key: fg.Tensor) -> tuple[Any, Any]:
            tuning, position = state
            size = fnp.exp(tuning.mean if is_warm else tuning.log_size)
            position, probability = draw(lambda v: log_posterior(unravel(v)), position, size, key)
            tuning = tuning if is_warm else tuning.after(probability)
            return (tuning, position), (*unravel(position).values(), probability)

        keys = random.split(key, DRAWS_AT_ONCE)
        (tuning, position), outputs = fg.scan(step, (tuning, position), keys)
        return tuning, position, *outputs

    advance = fg.jit(fg.vmap(chain, in_axes=(0, 0, 0, None)), static_argnums=3)
    start_key, key = random.split(random.key(seed))
    positions = random.normal(start_key, (chains, len(vector)))
    zero = fnp.zeros(chains)
    tuning = Tuning(zero, zero, zero + math.log(STEP_SIZE), zero)
    pieces = []
    warm_up = 5  # pieces in which chains forget their starting points, and find their step sizes
    for number in tqdm(range(warm_up + draws // DRAWS_AT_ONCE), desc="sampling"):
        keys = random.split(random.fold_in(key, number), chains)
        tuning, positions, *piece = advance(tuning, positions, keys, number >= warm_up)
        pieces.append([np.asarray(output) for output in piece])
    mean, spread, effects, accepted = (
        np.concatenate(outputs, axis=1) for outputs in zip(*pieces[warm_up:], strict=True)
    )
    sizes = np.exp(np.asarray(tuning.mean))
    return Chains(mean, spread, effects, float(accepted.mean()), sizes)


# %%
# The exact answer
# ----------------
#
# With τ fixed, all is normal, so one integral over τ remains.


class Exact(NamedTuple):
    """The posterior by an integral over τ.

    Attributes
    ----------
    means : numpy.ndarray, shape (10,)
        Of μ, τ and the θ_j.
    spreads, density : numpy.ndarray
        Values of τ, and the density there.
    """

    means: np.ndarray
    spreads: np.ndarray
    density: np.ndarray


def exact() -> Exact:
    logs = np.linspace(math.log(1e-4), math.log(1e4), 4001)  # the integral is a sum over log τ
    spreads = np.exp(logs)
    weights, means = np.empty(len(logs)), np.empty((len(logs), 10))
    for k, spread in enumerate(spreads):
        variances = ERRORS**2 + spread**2  # of the y_j around μ
        precision = np.sum(1 / variances) + 1 / PRIOR**2
        mean = np.sum(EFFECTS / variances) / precision
        shrunk = (EFFECTS * spread**2 + mean * ERRORS**2) / variances
        means[k] = mean, spread, *shrunk
        surprise = np.sum(np.log(variances) + EFFECTS**2 / variances) - precision * mean**2
        weights[k] = np.exp(-(surprise + math.log(precision)) / 2) / (1 + (spread / PRIOR) ** 2)
    weights *= spreads  # dτ = τ d(log τ)
    weights /= weights.sum()
    return Exact(weights @ means, spreads, weights / (spreads * (logs[1] - logs[0])))


# %%
# The result
# ----------


def plot(chains: Chains, answer: Exact, path: Path) -> None:
    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.hist(chains.spread.ravel(), np.linspace(0, 20, 81), density=True, alpha=0.4, label="drawn")
    near = answer.spreads < 20
    left.plot(answer.spreads[near], answer.density[near], color="0.2", label="exact")
    left.set(xlabel="τ: how much schools differ (points)", ylabel="density")
    left.legend()
    places = np.arange(8)
    middle, width = chains.effects.mean(axis=(0, 1)), chains.effects.std(axis=(0, 1))
    right.errorbar(places - 0.1, EFFECTS, ERRORS, fmt=".", color="0.6", label="measured")
    right.errorbar(places + 0.1, middle, width, fmt="o", label="posterior")
    right.plot(places + 0.1, answer.means[2:], "k_", zorder=3, label="exact mean")
    right.set(xticks=places, xticklabels=list(SCHOOLS), xlabel="school", ylabel="effect (points)")
    right.legend()
    figure.savefig(path)


def main(arguments: Sequence[str] | None = None) -> tuple[Chains, Exact]:
    parser = argparse.ArgumentParser(description="Draw from a posterior by Hamiltonian dynamics.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--chains", type=int, default=64)
    parser.add_argument("--draws", type=int, default=1000, help="how many for each chain")
    parser.add_argument("--out", type=Path, default=Path(), help="the folder for the picture")
    options = parser.parse_args(arguments)

    chains = sample(options.chains, options.draws, options.seed)
    answer = exact()
    options.out.mkdir(parents=True, exist_ok=True)
    plot(chains, answer, options.out / "hmc.png")
    means, errors = chains.estimates()
    low, high = chains.step_sizes.min(), chains.step_sizes.max()
    print(f"{chains.accepted:.0%} of the proposals were accepted, with steps of {low:.2f}", end=" ")
    print(f"to {high:.2f}; {chains.draws.shape[0] * chains.draws.shape[1]:,} draws")
    columns = means, errors, answer.means, r_hat(chains.draws), effective_size(chains.draws)
    for name, *values in zip(("μ", "τ", *SCHOOLS), *columns, strict=True):
        row = "{}  {:6.3f} ± {:.3f} points, exactly {:6.3f}; R-hat {:.4f}, effective size {:6.0f}"
        print(row.format(name, *values))
    assert np.all(np.abs(means - answer.means) < 4 * errors)
    assert np.all(r_hat(chains.draws) < 1.01)
    return chains, answer


if __name__ == "__main__":
    main()

"""Price options, and calibrate Heston's model
===========================================

The sensitivities of a price, which traders call greeks, are derivatives: ``fg.grad`` of the formula
of Black and Scholes ("The pricing of options and corporate liabilities", Journal of Political
Economy 81, 1973) gives the greeks of textbooks, also of second order.

In the market, the volatility that this formula needs depends on the strike. Heston's model ("A
closed-form solution for options with stochastic volatility", Review of Financial Studies 6, 1993)
lets the variance v move at random around v̄, with the speed κ, the volatility σ, and the correlation
ρ with the price. The price of an option is an integral of the characteristic function of the
logarithm of the price, which is complex. It is compared with numbers that Fang and Oosterlee
published ("A novel pricing method for European options based on Fourier-cosine series expansions",
SIAM Journal on Scientific Computing 31, 2008).

The calibration looks for the model that has given prices, by least squares. Cui, del Baño Rollin
and Germano ("Full and fast calibration of the Heston stochastic volatility model", European Journal
of Operational Research 263, 2017) derive the gradient by hand. Here ``fg.jacfwd`` does, and their
model is found again from their starting point.

Run it with ``python examples/options.py``. It prints greeks, prices and parameters, and draws the
implied volatilities to ``options.png``.
"""

# sphinx_gallery_thumbnail_number = 2

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.optimize
from matplotlib.figure import Figure
from scipy.stats import norm

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.scipy import special

# %%
# The formula of Black and Scholes
# --------------------------------
#
# Its derivatives are the greeks, which textbooks list as formulas of their own.


def black_scholes(
    spot: fg.Tensor, strike: fg.Tensor, time: fg.Tensor, rate: fg.Tensor, volatility: fg.Tensor
) -> fg.Tensor:
    """The price of a call. The time is in years, the rate and the volatility are per year."""
    width = volatility * fnp.sqrt(time)
    d1 = (fnp.log(spot / strike) + rate * time) / width + width / 2
    return spot * special.ndtr(d1) - strike * fnp.exp(-rate * time) * special.ndtr(d1 - width)


def greeks(*market: float) -> dict[str, float]:
    """Derivatives of the price by ``fg.grad`` and ``fg.hessian``."""
    first = fg.grad(black_scholes, argnums=(0, 1, 2, 3, 4))(*market)
    second = fg.hessian(black_scholes, argnums=(0, 4))(*market)
    values = {
        "delta": first[0],
        "theta": -first[2],  # the time to the end becomes shorter
        "rho": first[3],
        "vega": first[4],
        "gamma": second[0][0],
        "vanna": second[0][1],
        "volga": second[1][1],
    }
    return {name: float(value) for name, value in values.items()}


def textbook_greeks(
    spot: float, strike: float, time: float, rate: float, volatility: float
) -> dict[str, float]:
    """The closed forms, as in Hull, "Options, futures, and other derivatives"."""
    root, paid = math.sqrt(time), strike * math.exp(-rate * time)
    d1 = (math.log(spot / strike) + (rate + volatility**2 / 2) * time) / (volatility * root)
    d2 = d1 - volatility * root
    density, below1, below2 = float(norm.pdf(d1)), float(norm.cdf(d1)), float(norm.cdf(d2))
    vega = spot * density * root
    return {
        "delta": below1,
        "theta": -spot * density * volatility / (2 * root) - rate * paid * below2,
        "rho": time * paid * below2,
        "vega": vega,
        "gamma": density / (spot * volatility * root),
        "vanna": -density * d2 / volatility,
        "volga": vega * d1 * d2 / volatility,
    }


def implied_volatility(
    prices: np.ndarray, spot: float, strikes: np.ndarray, times: np.ndarray, rate: float
) -> np.ndarray:
    """The volatilities for which the formula has some prices, by Newton's method."""

    def price(volatility: fg.Tensor, strike: fg.Tensor, time: fg.Tensor) -> fg.Tensor:
        return black_scholes(fg.tensor(spot), strike, time, fg.tensor(rate), volatility)

    value_and_vega = fg.jit(fg.vmap(fg.value_and_grad(price)))
    volatility = np.full(len(prices), 0.3)
    for _ in range(20):
        value, vega = map(np.asarray, value_and_vega(volatility, strikes, times))
        volatility = volatility - (value - prices) / vega
    return volatility


# %%
# Heston's model
# --------------
#
# The integrand is complex; the price and its derivatives are real.


@fg.pytree
class Heston:
    """The parameters of the model: v is the variance at the start."""

    speed: fg.Tensor  # κ, per year
    level: fg.Tensor  # v̄, per year
    volatility: fg.Tensor  # σ
    correlation: fg.Tensor  # ρ
    start: fg.Tensor  # v


NAMES = ("κ", "v̄", "σ", "ρ", "v")
PUBLISHED = Heston(*map(fg.tensor, (1.5768, 0.0398, 0.5751, -0.5711, 0.0175)))
PUBLISHED_PRICES = np.array([5.785155450, 22.318945791])  # spot and strike 100, 1 and 10 years
TRUTH = Heston(*map(fg.tensor, (3.0, 0.1, 0.25, -0.8, 0.08)))
GUESS = Heston(*map(fg.tensor, (1.2, 0.2, 0.3, -0.6, 0.2)))
NODES, NODE_WEIGHTS = np.polynomial.legendre.leggauss(256)
FREQUENCIES, WEIGHTS = 100 * (NODES + 1), 100 * NODE_WEIGHTS  # from 0 to 200


def log_characteristic(model: Heston, u: fg.Tensor, time: np.ndarray) -> fg.Tensor:
    """log E exp(i u x), where x is the logarithm of the price divided by the forward price."""
    square = model.volatility**2
    xi = model.speed - 1j * model.volatility * model.correlation * u
    d = fnp.sqrt(xi**2 + square * (u**2 + 1j * u))
    ratio = (xi - d) / (xi + d)
    decay = fnp.exp(-d * time)
    drift = (xi - d) * time - 2 * fnp.log((1 - ratio * decay) / (1 - ratio))
    slope = (xi - d) * (1 - decay) / (1 - ratio * decay)
    return (model.speed * model.level * drift + model.start * slope) / square


def heston(
    model: Heston, spot: float, strikes: np.ndarray, times: np.ndarray, rate: float
) -> fg.Tensor:
    """Prices of calls, by Lewis's integral ("A simple option formula", 2001)."""
    u, times, strikes = fg.tensor(FREQUENCIES), times[:, None], strikes[:, None]
    forward = np.log(spot / strikes) + rate * times
    characteristic = fnp.exp(log_characteristic(model, u - 0.5j, times) + 1j * u * forward)
    integral = fnp.sum(WEIGHTS * characteristic.real / (u**2 + 0.25), axis=1)
    scale = fg.tensor(np.sqrt(spot * strikes) * np.exp(-rate * times / 2))
    return spot - scale[:, 0] / math.pi * integral


SPOT, RATE = 1.0, 0.02
STRIKES, TIMES = (  # 40 options, as Cui and others have
    array.ravel()
    for array in np.meshgrid([0.8, 0.9, 1.0, 1.1, 1.2], [0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0])
)


# %%
# The calibration
# ---------------


class Result(NamedTuple):
    """Greeks, the prices that are published, and the calibration.

    Attributes
    ----------
    greeks, textbook : dict
    prices : numpy.ndarray, shape (2,)
    model : Heston
    errors : list of float
        The largest relative error of a parameter, after each step.
    """

    greeks: dict[str, float]
    textbook: dict[str, float]
    prices: np.ndarray
    model: Heston
    errors: list[float]


def calibrate(prices: np.ndarray) -> tuple[Heston, list[float]]:
    """The model that has some prices."""
    vector, unravel = fg.tree.ravel(GUESS)
    truth = np.asarray(fg.tree.ravel(TRUTH)[0])

    def residuals(values: fg.Tensor) -> fg.Tensor:
        return heston(unravel(values), SPOT, STRIKES, TIMES, RATE) - prices

    errors = []
    jacobian = fg.jit(fg.jacfwd(residuals))

    def observed(values: np.ndarray) -> np.ndarray:  # once for each step
        errors.append(float(np.max(np.abs(values / truth - 1))))
        return np.asarray(jacobian(values))

    jac: Any = observed  # which SciPy expects to be a text
    solution = scipy.optimize.least_squares(
        fg.jit(residuals),
        np.asarray(vector),
        jac=jac,
        method="lm",
        x_scale="jac",
        xtol=1e-12,
        ftol=1e-15,
        gtol=1e-15,
    )
    return unravel(solution.x), errors


# %%
# The result
# ----------


def plot(result: Result, prices: np.ndarray, path: Path) -> None:
    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    market = implied_volatility(prices, SPOT, STRIKES, TIMES, RATE)
    strikes = np.linspace(0.75, 1.25, 51)
    for time in (0.25, 1.0, 3.0):
        times = np.full(len(strikes), time)
        smile = np.asarray(heston(result.model, SPOT, strikes, times, RATE))
        (line,) = left.plot(
            strikes, implied_volatility(smile, SPOT, strikes, times, RATE), label=f"{time:g} years"
        )
        quoted = time == TIMES
        left.plot(STRIKES[quoted], market[quoted], "o", color=line.get_color())
    left.set(xlabel="strike / spot", ylabel="implied volatility", title="Market and model")
    left.legend()
    right.semilogy(result.errors, ".-")
    right.set(xlabel="step", ylabel="largest relative error", title="Calibration")
    figure.savefig(path)


def main(arguments: Sequence[str] | None = None) -> Result:
    parser = argparse.ArgumentParser(description="Price options, and calibrate Heston's model.")
    parser.add_argument("--out", type=Path, default=Path(), help="the folder for the picture")
    options = parser.parse_args(arguments)

    market = 100.0, 110.0, 0.5, 0.03, 0.25
    at_spot = np.asarray(heston(PUBLISHED, 100.0, np.full(2, 100.0), np.array([1.0, 10.0]), 0.0))
    prices = np.asarray(heston(TRUTH, SPOT, STRIKES, TIMES, RATE))
    result = Result(greeks(*market), textbook_greeks(*market), at_spot, *calibrate(prices))
    options.out.mkdir(parents=True, exist_ok=True)
    plot(result, prices, options.out / "options.png")
    for name, value in result.greeks.items():
        print(f"{name} {value:11.6f}, by the textbook {result.textbook[name]:11.6f}")
    for price, published in zip(result.prices, PUBLISHED_PRICES, strict=True):
        print(f"Heston's price {price:.7f}, published {published:.7f}")
    for name, *values in zip(NAMES, *map(fg.tree.leaves, (result.model, TRUTH)), strict=True):
        print("{} = {:.10f}, truly {:g}".format(name, *map(float, values)))
    assert all(math.isclose(result.greeks[key], result.textbook[key]) for key in result.greeks)
    assert np.all(np.abs(result.prices - PUBLISHED_PRICES) < 1e-7)
    assert result.errors[-1] < 1e-6
    return result


if __name__ == "__main__":
    main()

"""Examples from the sciences find what a closed form says, or what is published."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from tests.test_examples import load

pytestmark = pytest.mark.slow


def is_picture(path: Path) -> bool:
    return path.read_bytes().startswith(b"\x89PNG")


def test_curve_fit_has_the_certified_digits(tmp_path, capsys):
    module = load("curve_fit")
    result = module.main(["--out", str(tmp_path)])
    np.testing.assert_allclose(result.parameters, module.CERTIFIED[:, 0], rtol=1e-7)
    np.testing.assert_allclose(result.deviations, module.CERTIFIED[:, 1], rtol=1e-6)
    residuals = module.MOBILITY - np.asarray(result.curve(module.LOG_DENSITY))
    assert np.sum(residuals**2) == pytest.approx(5.6427082397e3, rel=1e-10)  # certified as well
    quantile = 2.0423  # of Student's distribution with 30 degrees of freedom; the curve is b1 at 0
    assert result.band(np.zeros(1)) == pytest.approx(quantile * result.deviations[0], rel=1e-4)
    assert "digits are right" in capsys.readouterr().out
    assert is_picture(tmp_path / "curve-fit.png")
    fg.testing.check_grads(lambda curve: curve(module.LOG_DENSITY), (result.curve,), order=2)


def test_hmc_draws_from_the_posterior_of_eight_schools(tmp_path, capsys):
    module = load("hmc")
    chains, answer = module.main(["--chains", "32", "--draws", "300", "--out", str(tmp_path)])
    assert chains.effects.shape == (32, 300, 8)
    assert 0.9 < chains.accepted < 1.0
    means, errors = chains.estimates()
    assert np.all(errors < 0.1)
    assert np.all(np.abs(means - answer.means) < 4 * errors)
    assert answer.means[:2] == pytest.approx([4.4, 3.6], abs=0.05)  # published, by Stan
    step = np.diff(answer.spreads)
    assert np.sum(answer.density[1:] * step) == pytest.approx(1.0, abs=1e-2)
    assert "of the proposals were accepted" in capsys.readouterr().out
    assert chains.accepted == pytest.approx(module.ACCEPTED, abs=0.02)  # by the tuned step sizes
    assert np.ptp(chains.step_sizes) < 0.2
    assert is_picture(tmp_path / "hmc.png")


def test_hmc_counts_independent_draws():
    module = load("hmc")
    noise = np.random.default_rng(0).normal(size=(16, 4000, 2))
    draws = noise.copy()
    for k in range(1, 4000):  # neighbours correlate by 0.8 and -0.5
        draws[:, k] += draws[:, k - 1] * [0.8, -0.5]
    expected = np.array([0.2 / 1.8, 1.5 / 0.5]) * 16 * 4000
    np.testing.assert_allclose(module.effective_size(draws), expected, rtol=0.1)
    assert np.all(abs(module.r_hat(draws) - 1) < 0.01)
    draws[0] += 5.0  # a chain that stays elsewhere
    assert np.all(module.r_hat(draws) > 1.1)
    assert np.all(module.effective_size(draws) < 200)


def test_inverse_ode_finds_what_stan_finds(tmp_path, capsys):
    module = load("inverse_ode")
    result = module.main(["--out", str(tmp_path)])
    assert result.slope < 1e-3
    distances = np.abs(result.values - module.STAN_MEANS) / module.STAN_DEVIATIONS
    assert np.all(distances[:6] < 0.3)
    assert np.all(distances < 1.0)
    assert result.deviations == pytest.approx(module.STAN_DEVIATIONS, rel=0.3)
    assert 9 < result.period < 10
    # At the first year the band is that of the starting populations.
    expected = result.deviations[4:6] / result.values[4:6]
    np.testing.assert_allclose(result.band(module.YEARS[:2])[:, 0], expected)
    assert "a cycle takes 9.6 years" in capsys.readouterr().out
    assert is_picture(tmp_path / "inverse-ode.png")


def test_heat_finds_the_flaw_and_conducts_as_closed_forms_say(tmp_path, capsys):
    module = load("heat")
    result = module.main(["--out", str(tmp_path)])
    assert result.error < 0.03
    assert result.covered > 0.9
    assert "the flaw lies at 11.8 cm" in capsys.readouterr().out
    assert is_picture(tmp_path / "heat.png")
    # In the end, u is the flux times the resistance up to the cold end.
    conductivity = module.CONDUCTIVITY
    end = module.temperatures(fg.tensor(conductivity), step=60.0, steps=1000)[-1]
    resistance = np.cumsum((module.WIDTH / conductivity)[::-1])[::-1]
    resistance -= module.WIDTH / 2 / conductivity
    np.testing.assert_allclose(end, module.FLUX * resistance, rtol=1e-6)
    # As long as the cold end is far, the hot one warms up by 2 q sqrt(t / (π k ρ c)).
    uniform = module.temperatures(fnp.full(module.CELLS, 40.0), step=1.0, steps=200)[-1]
    hot = uniform[0] + module.FLUX * module.WIDTH / 2 / 40.0
    expected = 2 * module.FLUX * np.sqrt(200 / (np.pi * 40.0 * module.CAPACITY))
    assert float(hot) == pytest.approx(expected, rel=1e-2)


def test_ilqr_swings_the_pole_up_and_balances_it_as_riccati_says(tmp_path, capsys):
    module = load("ilqr")
    result = module.main(["--iterations", "160", "--out", str(tmp_path)])
    assert all(later < earlier for earlier, later in pairwise(result.costs))
    assert result.costs[-1] == pytest.approx(6.5548, abs=1e-3)
    assert result.slope < 1e-3
    np.testing.assert_allclose(result.gain, result.riccati_gain, rtol=1e-8)
    assert "Riccati's differ by" in capsys.readouterr().out
    assert is_picture(tmp_path / "ilqr.png")

    def energy(state):  # of the cart and the pole, which no force changes
        _, angle, speed, turning = np.asarray(state)
        along = module.LENGTH * turning * np.array([np.cos(angle), -np.sin(angle)])
        kinetic = module.CART * speed**2 + module.POLE * ((speed + along[0]) ** 2 + along[1] ** 2)
        return kinetic / 2 + module.POLE * module.GRAVITY * module.LENGTH * np.cos(angle)

    state = start = fg.tensor([0.0, 2.0, 0.5, -1.0])
    for _ in range(20):
        state = module.move(state, fnp.zeros(1))
    assert energy(state) == pytest.approx(energy(start), abs=1e-3)


def test_options_has_the_greeks_of_textbooks_and_calibrates_heston(tmp_path, capsys):
    module = load("options")
    result = module.main(["--out", str(tmp_path)])
    assert result.greeks == pytest.approx(result.textbook, rel=1e-10)
    np.testing.assert_allclose(result.prices, module.PUBLISHED_PRICES, atol=1e-7)
    assert result.errors[0] > 0.9
    assert result.errors[-1] < 1e-6
    assert len(result.errors) < 20
    assert "Heston's price 5.7851554, published 5.785155" in capsys.readouterr().out
    assert is_picture(tmp_path / "options.png")
    # With a volatility that hardly moves, Heston's price is that of Black and Scholes.
    still = module.Heston(*map(fg.tensor, (2.0, 0.04, 1e-4, 0.0, 0.04)))
    strikes, times = np.array([0.9, 1.0, 1.1]), np.array([0.5, 1.0, 2.0])
    market = np.ones(3), strikes, times, np.full(3, 0.02), np.full(3, 0.2)
    plain = fg.vmap(module.black_scholes)(*market)
    np.testing.assert_allclose(module.heston(still, 1.0, strikes, times, 0.02), plain, atol=1e-7)
    volatilities = module.implied_volatility(np.asarray(plain), 1.0, strikes, times, 0.02)
    np.testing.assert_allclose(volatilities, 0.2)


def test_quantum_has_the_published_energies_of_hydrogen(tmp_path, capsys):
    module = load("quantum")
    bond = module.main(["--out", str(tmp_path)])
    assert bond.length / module.ANGSTROM == pytest.approx(0.735, abs=1e-3)
    assert "exact energy -1.137306036 Hartree" in capsys.readouterr().out
    assert is_picture(tmp_path / "quantum.png")
    # by Szabo and Ostlund
    published = -1.2528, -0.4756, 0.6746, 0.6975, 0.1813
    assert module.integrals(fg.tensor(1.4)) == pytest.approx(published, abs=6e-5)
    # Far apart there are two atoms, of -0.4666 Hartree in this basis.
    assert float(module.exact_energy(fg.tensor(40.0))) == pytest.approx(-0.9331637, abs=1e-6)
    # There is no force at rest; the force constant is the second derivative of the least energy.
    assert float(fg.grad(module.exact_energy)(bond.length)) == pytest.approx(0.0, abs=1e-9)
    curvature = float(fg.grad(fg.grad(module.exact_energy))(bond.length))
    assert bond.force_constant == pytest.approx(curvature)
    assert float(module.best_angle(fg.tensor(bond.length))) == pytest.approx(bond.angle)


def test_tomography_reconstructs_the_phantom_better_than_back_projection(tmp_path, capsys):
    module = load("tomography")
    arguments = ["--side", "32", "--directions", "16", "--steps", "60", "--out", str(tmp_path)]
    result = module.main(arguments)
    assert result.smooth.shape == (32, 32)
    assert result.smooth.min() >= 0
    assert result.error(result.smooth) < 0.25
    assert result.error(result.smooth) < result.error(result.filtered) / 2
    assert "least total variation has an error of" in capsys.readouterr().out
    assert is_picture(tmp_path / "tomography.png")
    # A round hill has the same projections from everywhere, which filtering brings back.
    middles = (np.arange(48) + 0.5) / 24 - 1
    x, y = np.meshgrid(middles, middles, indexing="ij")
    hill = np.exp(-((x - 0.2) ** 2 + (y + 0.3) ** 2) / (2 * 0.15**2))
    scanner = module.Scanner(np.pi * np.arange(32) / 32, middles)
    centres = 0.2 * np.cos(scanner.angles) - 0.3 * np.sin(scanner.angles)
    distances = middles - centres[:, None]
    exact = 0.15 * np.sqrt(2 * np.pi) * np.exp(-(distances**2) / (2 * 0.15**2))
    projected = module.Projector(scanner, 48)(fg.tensor(hill))
    np.testing.assert_allclose(projected, exact, atol=0.02 * exact.max())
    filtered = module.filtered_back_projection(exact, scanner, 48)
    np.testing.assert_allclose(filtered, hill, atol=0.05)


def test_topology_finds_a_beam_as_stiff_as_the_published_one(tmp_path, capsys):
    module = load("topology")
    result = module.main(["--steps", "45", "--out", str(tmp_path)])
    assert result.compliances[0] == pytest.approx(1007.02, abs=0.01)  # of the program of 99 lines
    assert result.compliances[-1] == pytest.approx(module.PUBLISHED, rel=0.02)
    assert result.image.shape == (20, 60)
    assert np.mean(result.image) == pytest.approx(module.FILLED, abs=1e-3)
    assert "of the area is filled" in capsys.readouterr().out
    assert is_picture(tmp_path / "topology.png")
    stiffness = module.element_stiffness()
    closed = np.array([1 / 2 - module.POISSON / 6, (1 + module.POISSON) / 8])
    np.testing.assert_allclose(stiffness[0, :2], closed / (1 - module.POISSON**2))
    turning = np.array([0.0, 0.0, 0.0, 1.0, -1.0, 1.0, -1.0, 0.0])  # needs no force
    np.testing.assert_allclose(stiffness @ turning, 0.0, atol=1e-12)
    fg.testing.check_grads(
        lambda densities: module.compliance(densities, module.beam(4, 3), stiffness),
        (np.linspace(0.3, 0.9, 12),),
        order=1,
        rtol=1e-4,
    )


def test_pinn_has_the_velocity_of_cole_and_hopf(tmp_path, capsys):
    module = load("pinn")
    result = module.main(["--points", "128", "--steps", "160", "--out", str(tmp_path)])
    assert result.error < 0.05
    assert result.losses[-1] < result.losses[0] / 20
    assert "the velocity has an error of" in capsys.readouterr().out
    assert is_picture(tmp_path / "pinn.png")
    # The exact solution begins as a sine, and obeys the equation.
    x, t, step = np.array([-0.7, -0.2, 0.1, 0.5]), np.array([0.1, 0.3, 0.6, 0.9]), 1e-4
    start = module.exact(x, np.full(4, 1e-12))
    np.testing.assert_allclose(start, -np.sin(np.pi * x), atol=1e-5)
    u, left, right = (module.exact(x + shift, t) for shift in (0.0, -step, step))
    in_time = (module.exact(x, t + step) - module.exact(x, t - step)) / (2 * step)
    curvature = (left + right - 2 * u) / step**2
    expected = module.VISCOSITY * curvature - u * (right - left) / (2 * step)
    np.testing.assert_allclose(in_time, expected, atol=1e-4)
    # At the borders, no weights of the network matter.
    ends = [
        float(module.velocity(result.network, fg.tensor(x), fg.tensor(0.4))) for x in (-1.0, 1.0)
    ]
    assert ends == pytest.approx([0.0, 0.0], abs=1e-15)


def test_images_are_sharper_and_least_squares_are_wieners(tmp_path, capsys):
    module = load("images")
    result = module.main(["--side", "48", "--steps", "40", "--out", str(tmp_path)])
    np.testing.assert_allclose(result.squares, module.wiener(result.data), atol=1e-6)
    before, squares, variation = (result.decibels(image) for image in result[1:])
    assert before + 0.5 < squares < variation
    assert "Wiener's filter differs by" in capsys.readouterr().out
    assert is_picture(tmp_path / "images.png")
    # The blur of a spike is a Gaussian of the same sum.
    spike = np.zeros((48, 48))
    spike[24, 24] = 1.0
    away = np.arange(48) - 24.0
    bell = np.exp(-(away**2) / (2 * module.WIDTH**2)) / (module.WIDTH * np.sqrt(2 * np.pi))
    blurred = np.asarray(module.blur(fg.tensor(spike)))
    np.testing.assert_allclose(blurred, np.outer(bell, bell), atol=1e-6)


def test_reaction_grows_the_waves_that_turing_found(tmp_path, capsys):
    module = load("reaction")
    result = module.main(["--time", "60", "--out", str(tmp_path)])
    assert result.number == pytest.approx(np.sqrt(3.0 / np.sqrt(60.0)), rel=0.08)
    assert np.std(result.pattern) > 0.3
    assert result.jacobian.nnz == 6 * 2 * 48**2
    assert result.products < 14
    assert "nonzeros by" in capsys.readouterr().out
    assert is_picture(tmp_path / "reaction.png")


def test_bouncing_ball_lands_in_the_hole(tmp_path, capsys):
    module = load("bouncing_ball")
    throw = module.main(["--out", str(tmp_path)])
    assert len(throw.angles) < 8
    assert float(module.landing(throw.angles[-1], module.AIR)) == pytest.approx(20.0, abs=1e-8)
    assert "by the formula:" in capsys.readouterr().out
    assert is_picture(tmp_path / "bouncing-ball.png")
    # With air the slope is the one of differences, and the ball comes less far.
    step = 1e-4
    ends = [float(module.landing(0.4 + shift, module.AIR)) for shift in (-step, step)]
    slope = float(fg.grad(module.landing)(0.4, module.AIR))
    assert slope == pytest.approx((ends[1] - ends[0]) / (2 * step), rel=1e-5)
    assert ends[0] < float(module.without_air(0.4))


def test_graph_divides_the_club_as_history_did(tmp_path, capsys):
    module = load("graph")
    assert len(module.SENDERS) == 2 * 78 + 34
    result = module.main(["--out", str(tmp_path)])
    assert result.right >= 30
    assert result.losses[-1] < 0.2 * result.losses[0]
    assert "of 34 members" in capsys.readouterr().out
    assert is_picture(tmp_path / "graph.png")

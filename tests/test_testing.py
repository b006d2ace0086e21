"""`funcgrad.testing`: right derivatives pass, wrong ones fail with a report of the place."""

from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import ArgumentError, CheckError, DifferentiationError, LeafError
from funcgrad.scipy import special
from funcgrad.testing import check_grads, check_jvp, check_vjp
from tests.together import together

# ------------------------------------------------------------------------ functions with known bugs


@fg.custom_jvp
def cube(x):
    return x * x * x


@cube.defjvp
def _(primals, tangents):
    (x,), (t,) = primals, tangents
    return cube(x), 3.001 * x * x * t


@fg.custom_vjp
def product(x, y):
    return x * y


product.defvjp(lambda x, y: (x * y, (x, y)), lambda xy, ct: (ct * xy[1], ct * xy[1]))


@fg.custom_jvp
def detached(x):
    """A function whose first derivative is right, and whose second treats it as a constant."""
    return x * x


@detached.defjvp
def _(primals, tangents):
    (x,), (t,) = primals, tangents
    return detached(x), 2 * fg.stop_gradient(x) * t


@fg.custom_jvp
def shifted(x):
    return x * x


@shifted.defjvp
def _(primals, tangents):
    (x,), (t,) = primals, tangents
    return x * x + 1, 2 * x * t


@fg.custom_vjp
def conjugated(z):
    """A holomorphic function with the gradient of the other convention."""
    return z * z


conjugated.defvjp(lambda z: (z * z, z), lambda z, ct: (2 * z * ct,))

MATRIX = np.array([[0.3, -1.2], [2.0, 0.7]])


def report(f: Any, *args: Any, **options: Any) -> str:
    with pytest.raises(CheckError) as caught:
        check_grads(f, args, **options)
    return str(caught.value)


# ------------------------------------------------------------------------------------- what passes


@together(
    "f",
    [
        lambda x: x**3,
        lambda x: fnp.sin(x) * fnp.exp(-x),
        lambda x: abs(x) + x,
        lambda x: {"a": x.T @ x, "b": (x[0], 3)},
        lambda x: fnp.sin(1000 * x),
        lambda x: x + 1e6,
        lambda x: 1e-9 * x**3,
        lambda x: fnp.exp(1j * x),
        lambda x: np.tanh(x) @ MATRIX,
        lambda x: x * 1e-7 * abs(x) + x,
    ],
)
def test_right_derivatives_pass(f):
    check_grads(f, (MATRIX,))


def test_pytrees_and_keywords():
    def f(params, x, *, power):
        return params["w"] @ x**power + params["b"]

    params = {"w": MATRIX, "b": fg.tensor([0.1, 0.2])}
    check_grads(f, (params, fg.tensor([1.5, 0.5])), kwargs={"power": 2})


def test_integers_and_booleans_are_held_fixed():
    def f(x, labels, flags):
        return fnp.sum(x[labels] * flags), labels

    check_grads(f, (fg.tensor([1.0, 2.0, 3.0]), np.array([0, 2]), np.array([True, False])))


def test_complex_arguments():
    z = np.array([0.5 + 0.2j, -1.0 - 0.7j])
    check_grads(lambda z: z * z, (z,))
    check_grads(lambda z: abs(z) ** 2, (z,))
    check_grads(lambda z, x: fnp.real(z) * x + fnp.conj(z), (z, np.array([1.0, 2.0])))


@pytest.mark.parametrize("dtype", ["float16", "float32", "complex64"])
def test_tolerances_fit_the_dtype(dtype):
    x = fg.tensor([0.5, -0.7], dtype)
    check_grads(lambda x: x * x * x - x, (x,))
    check_grads(lambda x: fnp.sin(x), (x,), order=1)


def test_third_order():
    check_grads(lambda x: fnp.exp(x) * x, (0.7,), order=3)


def test_large_and_tiny_arguments():
    check_grads(lambda x: fnp.log(x), (fg.tensor([1e-3, 1.0, 1e12]),))
    check_grads(lambda x: fnp.log(x), (1e-9,), eps=1e-14, order=1)


def test_empty_arrays_agree():
    check_grads(lambda x: 2 * x, (np.zeros((0, 2)),))


def test_blocks_check_the_first_order_only():
    check_jvp(detached, (2.0,))
    check_vjp(detached, (2.0,))
    with pytest.raises(CheckError, match="check_jvp: forward mode is wrong for cube"):
        check_jvp(cube, (2.0,))
    with pytest.raises(CheckError, match="check_vjp: reverse mode is wrong for product"):
        check_vjp(product, (2.0, 3.0))


def test_complex_step_sees_what_differences_cannot():
    @fg.custom_jvp
    def nearly(x):
        return fnp.exp(x)

    @nearly.defjvp
    def _(primals, tangents):
        return nearly(*primals), fnp.exp(primals[0]) * tangents[0] * (1 + 3e-7)

    assert "complex step" in report(nearly, 1.0, order=1)


# -------------------------------------------------------------------------------------- what fails


@pytest.mark.parametrize(("mode", "name"), [("fwd", "forward"), ("rev", "reverse")])
def test_wrong_rule_fails_in_each_mode(mode, name):
    message = report(cube, 2.0, modes=(mode,))
    assert message.startswith(f"check_grads: {name} mode is wrong for cube (order 1).")


@pytest.mark.parametrize(("mode", "name"), [("fwd", "forward"), ("rev", "reverse")])
def test_wrong_custom_vjp_fails_in_each_mode(mode, name):
    assert f"{name} mode is wrong for product" in report(product, 2.0, 3.0, modes=(mode,))


@pytest.mark.parametrize("first", ["fwd", "rev"])
def test_wrong_second_order_fails(first):
    check_grads(detached, (2.0,), order=1)
    message = report(detached, 2.0, modes=(first,))
    name = {"fwd": "forward mode", "rev": "reverse mode"}[first]
    assert f"{name} over {name} is wrong for detached (order 2)" in message
    assert "The derivatives of lower order agree" in message


def test_report_says_what_is_wrong():
    lines = report(cube, fg.tensor([2.0, 1.0]), modes=("fwd",)).splitlines()
    assert [line.split()[0] for line in lines[1:6]] == [
        "result",
        "analytic",
        "numerical",
        "error",
        "tolerance",
    ]
    values = {line.split()[0]: line.split()[1].rstrip(",") for line in lines[2:6]}
    ratio = float(values["analytic"]) / float(values["numerical"])
    assert ratio == pytest.approx(3.001 / 3)
    assert float(values["error"]) > float(values["tolerance"])


def test_report_names_the_place_in_the_result():
    @fg.custom_jvp
    def rotate(x):
        return x[::-1]

    @rotate.defjvp
    def _(primals, tangents):
        return rotate(*primals), tangents[0][::-1] * np.array([1.0, 1.0, 2.0])

    message = report(lambda x: {"turned": rotate(x)}, np.ones(3), modes=("fwd",))
    assert "result['turned'][2]" in message


@pytest.mark.parametrize("mode", ["fwd", "rev"])
def test_report_names_the_argument(mode):
    def loss(params, x):
        return fnp.sum(product(params["w"], params["v"]) * x)

    params = {"w": fg.tensor([1.0, 2.0]), "v": fg.tensor([3.0, 5.0])}
    lines = report(loss, params, 2.0, modes=(mode,)).splitlines()
    marked = [line.split()[0] for line in lines if "<- differs" in line]
    unmarked = [line.split()[0] for line in lines if line.startswith("    ")]
    assert marked == ["params['v']"]
    assert set(unmarked) == {"params['v']", "params['w']", "x"}


def test_long_lists_of_arguments_are_cut():
    def f(xs):
        return sum(cube(x) for x in xs)

    assert "and 4 more" in report(f, [1.0] * 12)


def test_wrong_value_under_differentiation_fails():
    message = report(shifted, 2.0)
    assert "shifted returns another value under forward mode than without" in message


def test_wrong_complex_convention_fails():
    z = 0.5 + 0.3j
    check_grads(conjugated, (0.5,))
    assert "reverse mode is wrong" in report(conjugated, z, modes=("rev",))


def test_single_wrong_entry_of_many_is_found():
    factors = np.ones(1000)
    factors[537] = 1.01

    @fg.custom_vjp
    def total(x):
        return fnp.sum(x * x)

    total.defvjp(lambda x: (fnp.sum(x * x), x), lambda x, ct: (2 * x * ct * factors,))
    assert "reverse mode is wrong" in report(total, np.linspace(1, 2, 1000), modes=("rev",))


def test_nan_derivative_fails():
    @fg.custom_jvp
    def f(x):
        return x * x

    @f.defjvp
    def _(primals, tangents):
        return f(*primals), tangents[0] * np.nan

    assert "nan" in report(f, 1.0, order=1)


# ------------------------------------------------------------------------------------------- kinks


def test_kinks_are_pointed_out():
    message = report(lambda x: fnp.where(x > 0, x, 0.0), fg.tensor([0.0, 1.0]), modes=("rev",))
    assert "kink" in message
    assert "one-sided differences" in message


def test_smooth_errors_are_not_called_kinks():
    assert "kink" not in report(cube, 2.0)


def test_minimum_norm_subgradients_agree_with_central_differences():
    check_grads(lambda x: abs(x), (0.0,), order=1)
    check_grads(lambda x: fnp.maximum(x, -x), (0.0,), order=1)


def test_edges_of_the_domain_are_pointed_out():
    assert "inside its domain" in report(lambda x: fnp.sqrt(x), 0.0, order=1)


# ------------------------------------------------------------------------------------ determinism


def test_same_seed_same_report():
    x = np.linspace(1, 2, 5)
    assert report(cube, x) == report(cube, x)
    assert report(cube, x, seed=1) != report(cube, x, seed=2)


def test_user_tolerances_count():
    check_grads(cube, (2.0,), rtol=1e-2)
    check_grads(cube, (2.0,), order=1, atol=1.0)
    nearly = fg.custom_jvp(lambda x: fnp.sin(x))
    nearly.defjvp(lambda primals, t: (nearly(*primals), (1 + 1e-9) * fnp.cos(primals[0]) * t[0]))
    check_grads(nearly, (1.0,), order=1)
    report(nearly, 1.0, order=1, rtol=0.0, atol=1e-12)


HARD: dict[str, Any] = {
    "jumps within most steps": (fnp.remainder, (20.7976285688956, 0.012769096208346072)),
    "larger than its scale": (fnp.logaddexp, (1000003.4695111912, 999999.2971507487)),
    "smaller than a step": (special.pseudo_huber, (0.0171904148, 2.5915655639)),
    "waves": (lambda x: special.fresnel(x)[1], (30.0,)),
    "near a zero": (special.beta, (1.3, -2.3)),
    "signs that rounding decides": (
        lambda a: fnp.linalg.eig(a).eigenvectors,
        (np.array([[-0.0, 2.23, 2.17], [-0.62, 2.83, 0.0], [-0.38, 0.93, 3.21]]),),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HARD)
def test_hard_points_raise_no_alarm_and_hide_no_mistake(name):
    f, args = HARD[name]
    wrong = fg.custom_jvp(f)

    @wrong.defjvp
    def rule(primals, tangents):
        value, slope = fg.jvp(f, primals, tangents)
        return value, 1.03 * slope

    for seed in range(4):
        check_grads(f, args, seed=seed)
        report(wrong, *args, order=1, seed=seed)


def test_numpy_global_state_is_left_alone():
    before = repr(np.random.get_state())  # noqa: NPY002 - that state is the subject
    check_grads(lambda x: x * x, (2.0,))
    assert repr(np.random.get_state()) == before  # noqa: NPY002 - that state is the subject


# --------------------------------------------------------------------------------------- bad input


@together(
    ("options", "words"),
    [
        ({"order": 0}, "order has to be from 1 to 10, got 0"),
        ({"order": 1.5}, "order has to be an integer"),
        ({"modes": "fwd"}, "modes has to be a sequence"),
        ({"modes": ()}, "modes has to be a sequence"),
        ({"modes": ("forward",)}, "modes has to be a sequence of 'fwd' and 'rev'"),
        ({"rtol": -1.0}, "rtol has to be at least 0"),
        ({"atol": float("nan")}, "atol has to be at least 0"),
        ({"eps": 0.0}, "eps has to be positive"),
    ],
)
def test_bad_options(options, words):
    with pytest.raises(ArgumentError, match=words):
        check_grads(lambda x: x, (1.0,), **options)


def test_bad_arguments():
    with pytest.raises(DifferentiationError, match="args has to be a tuple"):
        check_grads(lambda x: x, 1.0)  # type: ignore[arg-type]
    with pytest.raises(DifferentiationError, match="no argument is floating-point"):
        check_grads(lambda x: x, (1,))
    with pytest.raises(DifferentiationError, match="returned no floating-point array"):
        check_grads(lambda x: 3, (1.0,))
    with pytest.raises(LeafError, match=r"params\['name'\]"):
        check_grads(lambda params: params["x"], ({"x": 1.0, "name": object()},))


def test_errors_of_the_function_are_its_own():
    with pytest.raises(ZeroDivisionError):
        check_grads(lambda x: 1 / 0, (1.0,))

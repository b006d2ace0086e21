"""Away from declared kinks no right derivative seems wrong: all operations, and random programs."""

import zlib

import numpy as np
import pytest

import funcgrad as fg
from funcgrad._core.primitive import DISCRETE
from funcgrad.errors import ArgumentError, DegenerateError, DifferentiationError
from funcgrad.testing import away_from_kinks, check_grads
from tests.conformance import Case, every_case, every_primitive, strangers
from tests.together import together
from tests.tools.fuzz.generate import SCOPE, BrokenError, generate
from tests.tools.fuzz.subject import Subject, quietly
from tests.tools.fuzz.syntax import function_of

PRIMITIVES = [
    primitive
    for primitive in (
        *every_primitive(),
        *every_primitive(several=True),
        *strangers(),
        *strangers(several=True),
    )
    if primitive.differential is not DISCRETE
]

DRAWS = 4


def is_small(case: Case) -> bool:
    size = sum(np.size(arg) for arg in case.args)
    return case.is_smooth and not case.is_extreme and 0 < size < 40


def drawn(rng: np.random.Generator, x, spread):
    noise = rng.normal(size=np.shape(x))
    if np.iscomplexobj(x):
        noise = noise + 1j * rng.normal(size=np.shape(x))
    return (np.asarray(x) + spread * noise).astype(np.asarray(x).dtype)


@pytest.mark.slow
@together("primitive", PRIMITIVES, ids=str, pieces=2)
def test_no_right_derivative_seems_wrong(primitive):
    cases = [case for case in every_case([primitive]) if is_small(case)]
    if not cases:
        pytest.skip("none of its arguments can be drawn by themselves")
    for number in range(DRAWS):
        case = cases[number % len(cases)]
        rng = np.random.default_rng((zlib.crc32(primitive.name.encode()), number))
        f = case.followed_function(case.differentiable)
        spread = (0.1, 1.0)[number % 2]
        args = [drawn(rng, x, spread) for x in case.point(case.differentiable)]
        with np.errstate(all="ignore"):
            try:
                point = away_from_kinks(f, *args)
                check_grads(f, point, order=1)
            except DifferentiationError:  # it is said that there is no derivative
                return


RULED = ("stop_gradient", "constant_max", "nextafter", "halved", "clipped", "run.cofactors(")
"""Functions whose derivative is not that of their values."""

COARSE = ("float32", "float16", "complex64")


def program_of(seed):
    """A random program in double precision, with arguments, and the function."""
    try:
        program = generate(np.random.default_rng(seed), lambda name: 1.0)
    except BrokenError:
        return None
    subject = Subject(program)
    arrays = [np.asarray(x) for x in (*program.arguments, *program.constants.values())]
    is_double = all(x.dtype.char not in "efF" and np.isfinite(x).all() for x in arrays)
    if any(word in subject.text for word in (*RULED, *COARSE)) or not is_double:
        return None
    if not subject.is_differentiable:
        return None
    args = [x if isinstance(x, (int, float)) else fg.tensor(x) for x in program.arguments]
    return function_of(program, SCOPE), args


@pytest.mark.slow
@together("seed", range(0, 40, 4))
def test_no_right_derivative_of_a_program_seems_wrong(seed):
    with quietly():
        made = program_of(seed)
        if made is None:
            pytest.skip("no program in double precision whose rules are its derivatives")
        f, args = made
        try:
            check_grads(f, away_from_kinks(f, *args), order=1)
        except ArgumentError as error:
            pytest.skip(f"it is at a kink everywhere, as x > x is: {error}")
        except (DegenerateError, DifferentiationError) as error:
            pytest.skip(f"there is no derivative: {error}")

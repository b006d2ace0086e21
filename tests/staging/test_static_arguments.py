"""Static arguments, and the static parts of trees, are told apart exactly."""

import dataclasses

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import funcgrad as fg
from funcgrad._staging.static_arguments import exact
from funcgrad.errors import ArgumentError
from tests.together import together

WHOLE = np.array([1, 2])


@dataclasses.dataclass(frozen=True)
class Power:
    exponent: object


@fg.pytree
class Scaled:
    value: object
    factor: object = fg.static_field(default=1)


class Flattened:
    def __init__(self, value, factor):
        self.value, self.factor = value, factor

    def __tree_flatten__(self):
        return (self.value,), self.factor

    @classmethod
    def __tree_unflatten__(cls, aux, children):
        return cls(children[0], aux)


EQUAL = [(2, 2.0), (1, True), (0.0, -0.0), ((2,), (2.0,)), ((0.0,), (-0.0,))]


def first(value):
    return first(value[0]) if isinstance(value, tuple) else value


@together(("one", "other"), EQUAL)
@together(
    ("wrap", "read"),
    [
        (lambda value: value, first),
        (Power, lambda power: first(power.exponent)),
        (lambda value: (Power(value),), lambda powers: first(powers[0].exponent)),
        (lambda value: frozenset({value}), lambda values: first(next(iter(values)))),
    ],
)
def test_equal_static_arguments_that_are_not_the_same_have_programs_of_their_own(
    one, other, wrap, read
):
    f = lambda x, setting: x * read(setting)  # noqa: E731
    staged = fg.jit(f, static_argnums=1)
    same_as_eagerly(staged, f, [(WHOLE, wrap(one)), (WHOLE, wrap(other))])


@together(("one", "other"), EQUAL)
@together("kind", [Scaled, Flattened])
def test_equal_static_parts_that_are_not_the_same_have_programs_of_their_own(one, other, kind):
    f = lambda scaled: scaled.value * first(scaled.factor)  # noqa: E731
    same_as_eagerly(fg.jit(f), f, [(kind(WHOLE, one),), (kind(WHOLE, other),)])


def test_keys_that_are_equal_are_told_apart():
    f = lambda table: sum(key * value for key, value in table.items())  # noqa: E731
    same_as_eagerly(fg.jit(f), f, [({1: WHOLE},), ({1.0: WHOLE},), ({True: WHOLE},)])


def same_as_eagerly(staged, f, calls):
    for args in calls * 3:
        expected, found = np.asarray(f(*args)), np.asarray(staged(*args))
        assert found.dtype == expected.dtype
        assert_array_equal(found, expected)
        assert_array_equal(np.signbit(found * 1.0), np.signbit(expected * 1.0))


def test_nan_is_itself():
    staged = fg.jit(lambda x, n: x * n, static_argnums=1)
    for _ in range(3):
        staged(1.0, float("nan"))
    assert len(staged._signatures) == 1
    assert exact((float("nan"),)) == exact((float("nan"),))


@together(
    ("options", "message"),
    [
        ({"static_argnums": 5}, "takes 2 positional"),
        ({"static_argnums": -3}, "takes 2 positional"),
        ({"static_argnums": "n"}, "positions of arguments"),
        ({"static_argnums": 1.0}, "positions of arguments"),
        ({"static_argnames": 1}, "names of arguments"),
        ({"static_argnames": ("n", 1)}, "names of arguments"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, message):
    with pytest.raises(ArgumentError, match=message):
        fg.jit(lambda x, n: x * n, **options)

"""Functions of elements and rows: their arguments, and their use under transformations."""

from typing import Any

import numpy as np

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import ArgumentError, FunctionError, ShapeError
from tests.together import refused, together

NO_FUNCTION: Any = 3
MATRIX = np.array([[3.0, 1.0, 2.0], [6.0, 4.0, 5.0]])


def larger(x: Any, y: Any) -> Any:
    """A function that branches."""
    return x if x > y else y * y


def total(x: Any, y: Any) -> Any:
    return (x * y).sum()


@together(
    "call",
    [
        lambda space: space.vectorize(larger)(MATRIX, 3.5),
        lambda space: space.vectorize(larger)(MATRIX, y=np.array([[2.0], [9.0]])),
        lambda space: space.vectorize(lambda x: 1 if x > 2 else 0.5)(MATRIX[0]),
        lambda space: space.vectorize(lambda x: 1 if x > 2 else 0.5, otypes="d")(MATRIX[0]),
        lambda space: space.vectorize(lambda x: x, otypes=["f"])(MATRIX),
        lambda space: space.vectorize(lambda x: (x, x * x))(MATRIX),
        lambda space: space.vectorize(total, signature="(n),(n)->()")(MATRIX, MATRIX[:1]),
        lambda space: space.vectorize(lambda x, p: x**p, excluded={1})(MATRIX, 2),
        lambda space: space.vectorize(lambda x, p: x**p, excluded={"p"})(MATRIX, p=2),
        lambda space: space.vectorize(lambda x: x, otypes="d")(np.zeros((0, 2))),
        lambda space: space.vectorize(lambda x: x[:1] + x, signature=" (n) -> (n) ", otypes="d")(
            np.zeros((0, 2))
        ),
        lambda space: space.vectorize(otypes="d")(larger)(MATRIX, 3.5),
    ],
)
def test_vectorized_functions_are_numpys(call: Any) -> None:
    expected, found = call(np), call(fnp)
    if not isinstance(expected, tuple):
        expected, found = (expected,), (found,)
    for own, other in zip(found, expected, strict=True):
        assert isinstance(own, fg.Tensor)
        assert (own.dtype, own.shape) == (other.dtype, other.shape)
        np.testing.assert_array_equal(own, other)


def test_a_vectorized_function_branches_on_each_number_of_what_is_differentiated() -> None:
    f = fnp.vectorize(larger)
    fg.testing.check_grads(lambda x: f(x, 3.5), (MATRIX,))
    fg.testing.check_grads(lambda y: f(MATRIX, y), (3.5,))
    np.testing.assert_array_equal(fg.jit(lambda x: f(x, 3.5))(MATRIX), f(MATRIX, 3.5))


def test_a_vectorized_function_keeps_its_name_and_words() -> None:
    f = fnp.vectorize(larger)
    assert (f.__name__, f.__doc__) == ("larger", "A function that branches.")
    assert fnp.vectorize(larger, doc="Mine.").__doc__ == "Mine."


test_words = refused(
    [
        (lambda: fnp.vectorize(larger, signature="(n)->"), ArgumentError, "a signature is written"),
        (lambda: fnp.vectorize(total, signature="(n),(n)->()")(MATRIX), ArgumentError, "for 2 arg"),
        (
            lambda: fnp.vectorize(total, signature="(n),(n)->()")(MATRIX, MATRIX[0, :2]),
            ShapeError,
            "core axis n .* the sizes 3 and 2",
        ),
        (
            lambda: fnp.vectorize(total, signature="(n),(n)->()")(MATRIX, 1.0),
            ShapeError,
            "lacks the core axes",
        ),
        (lambda: fnp.vectorize(larger)(np.zeros(0), 1.0), ShapeError, "no elements .* give otypes"),
        (lambda: fnp.vectorize(NO_FUNCTION), FunctionError, "expected a function, got int"),
        (
            lambda: fnp.apply_along_axis(NO_FUNCTION, 0, MATRIX),
            FunctionError,
            "expected a function",
        ),
        (lambda: fnp.apply_along_axis(fnp.sum, 1, np.zeros((0, 2))), ShapeError, "has no row"),
        (
            lambda: fnp.apply_along_axis(lambda x: x[x > 3.5], 1, MATRIX),
            ShapeError,
            "returned different shapes",
        ),
        (
            lambda: fnp.apply_over_axes(lambda x, axis: x.sum(), MATRIX, 0),
            ShapeError,
            "may keep the axis or leave it out",
        ),
    ]
)


def test_rows_are_differentiated_through_numpys_name() -> None:
    def f(x: Any) -> Any:
        return np.apply_along_axis(lambda row: row[0] * row, 1, x)

    fg.testing.check_grads(f, (MATRIX,))

"""NumPy's functions on tensors, and functions of ``funcgrad.numpy`` under NumPy's names."""

import inspect
import math
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import FuncgradError, UnknownFunctionError
from tests.together import refused, together

WRONG: Any = "a"
HALF: Any = 2.5
TRUE: Any = True  # NumPy's stubs take some arguments by name only

MATRIX = np.array([[3.0, 1.0, 2.0], [6.0, 4.0, 5.0]])

# Functions of a varying number of arguments, and those whose first name differs between versions.
OTHERWISE_NAMED = frozenset(
    ["arange", "atleast_1d", "atleast_2d", "atleast_3d", "iinfo", "indices"]
)


def names_of_positions(function):
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    return [parameter.name for parameter in parameters if parameter.kind in kinds]


def comparable():
    for name in fnp.__all__:
        theirs, ours = getattr(np, name, None), getattr(fnp, name)
        if not inspect.isfunction(ours) or theirs is None or isinstance(theirs, np.ufunc):
            continue
        try:
            inspect.signature(theirs)
        except ValueError:  # some of NumPy's versions hide it
            continue
        if name not in OTHERWISE_NAMED:
            yield name


@together("name", list(comparable()))
def test_parameters_have_numpys_names_in_numpys_order(name):
    ours, theirs = names_of_positions(getattr(fnp, name)), names_of_positions(getattr(np, name))
    shared = [parameter for parameter in theirs if parameter in ours]
    assert [parameter for parameter in ours if parameter in theirs] == shared
    if theirs:
        assert ours[0] == theirs[0]


@together(
    "call",
    [
        lambda x: np.concatenate((x, x), axis=None),
        lambda x: np.sort(x, axis=None),
        lambda x: np.argsort(x, axis=None),
        lambda x: np.partition(x, 2, axis=None)[2],
        lambda x: np.take_along_axis(x, np.array([4, 0]), axis=None),
        lambda x: np.add.reduce(x, axis=None),
        lambda x: np.add.reduce(x),
        lambda x: np.maximum.reduce(x, axis=(0, 1), keepdims=True),
        lambda x: np.multiply.accumulate(x, 1),
        lambda x: np.sum(x, 0, None, None, TRUE),
        lambda x: np.std(x, 0, None, None, 1),
        lambda x: np.max(x, 1, None, TRUE),
        lambda x: np.median(a=x, axis=0),
        lambda x: np.take(a=x, indices=[0], axis=1),
        lambda x: np.searchsorted(x[1, 1:], 4.5, "right"),
        lambda x: np.moveaxis(x, source=0, destination=1),
        lambda x: np.reshape(x, (3, 2), "F"),
        lambda x: np.reshape(x, (-1, 3), order="F"),
        lambda x: np.ravel(x, order="F"),
        lambda x: np.sort(x, kind=None, order=None),
        lambda x: np.max(x, axis=1, initial=4),
        lambda x: np.round(x, decimals=1),
    ],
)
def test_numpy_functions_mean_on_tensors_what_they_mean_on_arrays(call):
    expected, found = call(MATRIX), call(fg.tensor(MATRIX))
    assert isinstance(found, fg.Tensor)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("write", ["put", "place", "putmask", "copyto", "fill_diagonal"])
def test_functions_that_write_refuse_tensors(write):
    args = {"put": (0, 1.0), "place": (MATRIX > 2, 0.0), "putmask": (MATRIX > 2, 0.0)}
    with pytest.raises(fg.errors.ImmutableError, match=rf"np.{write} writes into its argument"):
        getattr(np, write)(fg.tensor(MATRIX), *args.get(write, (0.0,)))


def test_put_along_axis_of_numpy_does_not_pass_silently():
    x: Any = fg.tensor(MATRIX)
    with pytest.raises(fg.errors.ImmutableError, match="put_along_axis"):
        np.put_along_axis(x, np.array([[0], [1]]), 0.0, 1)


def test_saving_and_printing_take_tensors(tmp_path):
    x: Any = fg.tensor(MATRIX)
    np.save(tmp_path / "x.npy", x)
    np.savez(tmp_path / "x.npz", x=x)
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), MATRIX)
    np.testing.assert_array_equal(np.load(tmp_path / "x.npz")["x"], MATRIX)
    assert np.array2string(x, precision=1) == np.array2string(MATRIX, precision=1)
    assert np.shares_memory(x, x.T)
    target = np.zeros_like(MATRIX)
    np.copyto(target, x)
    np.testing.assert_array_equal(target, MATRIX)


def test_printing_what_is_differentiated_through_numpy_is_refused():
    with pytest.raises(UnknownFunctionError, match=r"np\.array2string .* fg\.stop_gradient\(t\)"):
        fg.grad(lambda x: len(np.array2string(x)) * x)(1.0)


def test_a_parameter_that_is_not_there_is_numpys_or_is_named():
    def add(x):
        return np.sum(np.add(x, 1.0, dtype=np.float32))

    assert add(fg.tensor(MATRIX)).dtype == np.float32
    with pytest.raises(UnknownFunctionError, match=r"np\.add .* with these arguments: .*'dtype'"):
        fg.grad(add)(MATRIX)


def test_where_without_out_has_undefined_elements():
    for transform in (lambda f: f, fg.grad):
        with pytest.raises(fg.errors.ArgumentError, match=r"np\.add: where= .* fnp\.where\(mask,"):
            transform(lambda x: np.add(x, 1.0, where=MATRIX > 2))(fg.tensor(MATRIX))
    kept = np.zeros(MATRIX.shape)
    np.add(fg.tensor(MATRIX), 1.0, where=MATRIX > 2, out=kept)
    np.testing.assert_array_equal(kept, np.where(MATRIX > 2, MATRIX + 1.0, 0.0))


# ------------------------------------------------------------ the object counts, not its name


class NamedLikeNumpys:
    """A ufunc as other libraries make it: numba's `vectorize` keeps the function's name."""

    __name__ = "sign"
    nout = 1

    def __call__(self, x):
        return np.where(x < 0, -10.0, 10.0)

    def reduce(self, x, axis=0):
        return np.sum(x, axis) + 1000.0


def test_a_ufunc_of_another_library_is_its_own():
    t = fg.tensor([-2.0, 3.0])
    other: Any = NamedLikeNumpys()
    assert t.__array_ufunc__(other, "__call__", t).tolist() == [-10.0, 10.0]
    assert t.__array_ufunc__(other, "reduce", t, axis=0).item() == 1001.0
    for method in ("__call__", "reduce"):
        with pytest.raises(UnknownFunctionError, match=r"test_dispatch\.sign.* not available"):
            fg.grad(lambda x, method=method: x.__array_ufunc__(other, method, x))(1.0)


def test_a_users_ufunc_works_on_concrete_tensors():
    def sign(x):
        return 7.0 * x

    mine = np.frompyfunc(sign, 1, 1)
    assert list(mine(fg.tensor([1.0, 2.0]))) == [7.0, 14.0]
    both = np.frompyfunc(lambda x, y: x + 2.0 * y, 2, 1)
    t = fg.tensor([1.0, 2.0])
    assert both.outer(t, t).tolist() == [[3.0, 5.0], [4.0, 6.0]]
    assert both.reduce(t) == 5.0
    with pytest.raises(UnknownFunctionError, match=r"sign \(vectorized\) is not available"):
        fg.jvp(mine, (1.0,), (1.0,))


def test_a_ufunc_is_called_what_its_users_call_it():
    special = pytest.importorskip("scipy.special")
    assert special.kolmogorov(fg.tensor([0.0, 9.0])).tolist() == [1.0, special.kolmogorov(9.0)]
    with pytest.raises(UnknownFunctionError, match=r"^scipy\.special\.kolmogorov is not availab"):
        fg.grad(special.kolmogorov)(3.0)
    with pytest.raises(UnknownFunctionError, match=r"^np\.hypot\.reduce is not available"):
        fg.grad(lambda x: np.hypot.reduce(x, initial=1.0))(MATRIX[0])
    with pytest.raises(UnknownFunctionError, match=r"^np\.array_repr is not available"):
        fg.grad(lambda x: np.array_repr(x))(MATRIX[0])


def test_stacks_keep_numpys_axes():
    x = np.arange(18.0).reshape(2, 3, 3)
    np.testing.assert_array_equal(np.linalg.trace(fg.tensor(x)), np.linalg.trace(x))
    np.testing.assert_array_equal(
        fg.grad(lambda x: np.linalg.trace(x) @ np.array([1.0, 2.0]))(x),
        np.stack([np.eye(3), 2.0 * np.eye(3)]),
    )
    np.testing.assert_array_equal(
        fg.jvp(np.linalg.diagonal, (x,), (2.0 * x,))[1], 2.0 * np.linalg.diagonal(x)
    )


def test_functions_of_linalg_refuse_what_numpys_refuse():
    for call in (
        lambda t: np.linalg.outer(t, t[0]),
        lambda t: np.linalg.cross(t[:, :2], t[:, :2]),
        lambda t: np.linalg.trace(t[0]),
        lambda t: np.linalg.diagonal(t[0]),
    ):
        with pytest.raises(fg.errors.ShapeError):
            call(fg.tensor(MATRIX))
        with pytest.raises(ValueError, match=r"."):
            call(MATRIX)


# ------------------------------------------------------------------- arrays that are written to


@together("sign", "+ - * / // % **".split())
def test_an_array_is_updated_in_place_with_the_numbers_of_a_tensor(sign):
    change = f"w {sign}= t"
    found = {"w": MATRIX.copy(), "t": fg.tensor([2.0, 3.0, 4.0])}
    expected = {"w": MATRIX.copy(), "t": np.array([2.0, 3.0, 4.0])}
    before = found["w"]
    exec(change, found)
    exec(change, expected)
    assert found["w"] is before
    np.testing.assert_array_equal(before, expected["w"])


@pytest.mark.parametrize("sign", "& | ^ << >>".split())
def test_an_array_of_integers_is_updated_in_place(sign):
    found = {"w": np.array([5, 6]), "t": fg.tensor([3, 1])}
    expected = {"w": np.array([5, 6]), "t": np.array([3, 1])}
    for names in (found, expected):
        exec(f"w {sign}= t", names)
    np.testing.assert_array_equal(found["w"], expected["w"])


@together(
    "transform", [fg.grad, fg.jit, lambda f: fg.vmap(f), lambda f: lambda x: fg.jvp(f, (x,), (x,))]
)
@together("sign", "+ - * / // % ** @".split())
def test_an_array_cannot_hold_a_traced_value(sign, transform):
    def f(x):
        names = {"w": np.ones((2, 2)), "t": x}
        exec(f"w {sign}= t", names)
        return names["w"].sum()

    x = np.ones((2, 2)) if transform is not fg.vmap else np.ones((3, 2, 2))
    with pytest.raises(fg.errors.TracerError) as caught:
        transform(f)(x)
    for words in (f"w {sign}= t:", "cannot hold a traced value", f"Write w = w {sign} t"):
        assert words in str(caught.value)


def test_out_is_the_users_array():
    out = np.zeros((2, 3))
    assert np.add(fg.tensor(MATRIX), 1.0, out=out) is out
    np.testing.assert_array_equal(out, MATRIX + 1.0)
    total: Any = np.zeros(3)
    assert np.sum(fg.tensor(MATRIX), 0, None, total) is total
    np.testing.assert_array_equal(total, MATRIX.sum(0))
    places = np.zeros(3)
    np.add.at(places, fg.tensor([0, 0, 2]), fg.tensor([1.0, 2.0, 3.0]))
    np.testing.assert_array_equal(places, [3.0, 0.0, 3.0])
    for call in (
        lambda x: np.sin(x, out=np.zeros((2, 3))),
        lambda x: np.sum(x, 0, None, np.zeros(3)),
        lambda x: np.add.at(np.zeros(3), [0, 1], x[:, 0]),
        lambda x: np.copyto(np.zeros((2, 3)), x),
        lambda x: np.put(np.zeros(6), [0, 1], x[:, 0]),
    ):
        with pytest.raises(fg.errors.TracerError, match="cannot hold a traced value"):
            fg.vjp(call, MATRIX)


def test_an_array_of_broadcast_arrays_makes_a_tensor_without_a_warning():
    wide = np.broadcast_arrays(MATRIX, np.ones((2, 1)))[1]
    np.testing.assert_array_equal(fg.tensor(wide), np.ones((2, 3)))


def test_arange_keeps_the_derivative_of_its_start_and_step():
    assert fg.grad(lambda x: fnp.arange(x, x + 3.0).sum())(1.0).item() == 3.0
    assert fg.grad(lambda x: fnp.arange(0.0, 3.0, x).sum())(0.9).item() == 6.0
    value, _ = fg.value_and_grad(lambda x: fnp.arange(x, 2.0, 0.5).sum())(0.5)
    assert value.item() == np.arange(0.5, 2.0, 0.5).sum()


@together(
    "function",
    [
        fnp.unique,
        fnp.unique_values,
        lambda x: fnp.unique(x, return_index=True, return_counts=True)[0],
        lambda x: fnp.unique_all(x).values,
        lambda x: fnp.unique_counts(x).values,
        lambda x: fnp.unique_inverse(x).values,
    ],
)
def test_distinct_elements_keep_their_derivative(function):
    weights = np.array([1.0, 10.0, 100.0])
    x = np.array([2.0, 3.0, 2.0, 1.0])
    gradient = fg.grad(lambda v: (function(v) * weights).sum())(x)
    np.testing.assert_array_equal(gradient, [10.0, 100.0, 0.0, 1.0])


def test_distinct_rows_keep_their_derivative():
    x = np.array([[2.0, 1.0], [1.0, 5.0], [2.0, 1.0]])
    gradient = fg.grad(lambda v: fnp.unique(v, axis=0)[1].sum())(x)
    np.testing.assert_array_equal(gradient, [[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]])


def test_an_extremum_with_a_bound_has_the_dtype_of_the_array():
    assert fnp.max(np.array([1, 2]), initial=-9.0).dtype == np.int64
    assert fnp.min(np.array([1, 2], np.float32), initial=np.float64(9.0)).dtype == np.float32


def test_round_and_trunc():
    assert (round(fg.tensor(2.5)), round(fg.tensor(-0.6)), math.trunc(fg.tensor(2.7))) == (2, -1, 2)
    assert isinstance(round(fg.tensor(2.5)), int)
    np.testing.assert_array_equal(round(fg.tensor([1.26, 2.0]), 1), [1.3, 2.0])
    assert fg.grad(lambda x: round(x, 1) + x)(2.26).item() == 1.0


test_bad_arguments_meet_words = refused(
    [
        (
            lambda: fnp.sum(MATRIX, axis=WRONG),
            fg.errors.DtypeError,
            "an axis is an integer, not 'a'",
        ),
        (
            lambda: fnp.sum(MATRIX, axis=HALF),
            fg.errors.DtypeError,
            "an axis is an integer, not 2.5",
        ),
        (lambda: fnp.linspace(0, 1, HALF), fg.errors.DtypeError, "num has to be an integer"),
        (lambda: fnp.arange(0, 1, 0), fg.errors.ArgumentError, "division by zero"),
        (lambda: fnp.tile([1.0], -1), fg.errors.ShapeError, "reps must not be negative"),
        (
            lambda: fnp.roll([1.0], 1.5),  # type: ignore[arg-type]
            fg.errors.DtypeError,
            "shift has to be an integer, not 1.5",
        ),
        (lambda: fnp.ediff1d([True, False]), fg.errors.DtypeError, "subtract"),
        (lambda: fnp.reshape(MATRIX, -1, "K"), fg.errors.ArgumentError, "one of 'C', 'F', not 'K'"),
        (lambda: f"{fg.tensor(MATRIX):.2f}", fg.errors.ShapeError, "is for one number"),
        (
            lambda: fnp.quantile(MATRIX, 0.5, method="x"),
            fg.errors.ArgumentError,
            "the method has to be one of .*, not 'x'",
        ),
    ]
)


def test_a_batched_shape_says_that_it_is_batched():
    with pytest.raises(fg.errors.TracerError, match="one example of a batch"):
        fg.vmap(fnp.zeros, branches=False)(np.array([3, 3]))
    np.testing.assert_array_equal(fg.vmap(fnp.zeros)(np.array([3, 3])), np.zeros((2, 3)))
    with pytest.raises(fg.errors.BatchError, match=r"\(3,\) for example 0 .*\(4,\) for example 1"):
        fg.vmap(fnp.zeros)(np.array([3, 4]))


# ------------------------------------------------------------------------- methods of ufuncs


POSITIVE = np.abs(MATRIX) + 0.5


@together(
    "call",
    [
        lambda x: np.subtract.accumulate(x),
        lambda x: np.divide.accumulate(x, 1),
        lambda x: np.maximum.accumulate(x, axis=1),
        lambda x: np.fmin.accumulate(x, axis=-1),
        lambda x: np.power.accumulate(x),
        lambda x: np.logaddexp.reduce(x, axis=1),
        lambda x: np.logaddexp.reduce(x, axis=None),
        lambda x: np.hypot.reduce(x, axis=(0, 1), keepdims=True),
        lambda x: np.subtract.reduce(x, axis=1),
        lambda x: np.fmax.reduce(x, axis=None),
        lambda x: np.add.reduceat(x, [0, 2, 1], axis=1),
        lambda x: np.multiply.reduceat(x, [0, 1], axis=1),
        lambda x: np.add.reduceat(x, [1]) * np.add.reduceat((x > 1.0).astype("int8"), [1], axis=1),
        lambda x: np.maximum.reduceat(x, [1]),
        lambda x: np.divide.outer(x, x[0]),
        lambda x: np.arctan2.outer(x[1], 2.0),
    ],
)
def test_methods_of_ufuncs_are_differentiated(call: Any) -> None:
    np.testing.assert_allclose(fg.jvp(call, (POSITIVE,), (MATRIX,))[0], call(POSITIVE), rtol=1e-14)
    fg.testing.check_grads(call, (POSITIVE,))
    np.testing.assert_allclose(fg.jit(call)(POSITIVE), call(POSITIVE), rtol=1e-14)
    batch = np.stack([POSITIVE, POSITIVE[:, ::-1]])
    np.testing.assert_allclose(fg.vmap(call)(batch), [call(x) for x in batch], rtol=1e-14)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: np.subtract.reduce(x, axis=None), "the order of elements matters"),
        (lambda x: np.subtract.reduce(x[:0]), "the array is empty"),
        (lambda x: np.add.reduceat(x, [5]), "indices are 1-d, from 0 to 1"),
        (lambda x: np.less.accumulate(x), "the function turns float64 into bool"),
    ],
)
def test_methods_of_ufuncs_refuse_what_they_cannot_do(call: Any, words: str) -> None:
    with pytest.raises(FuncgradError, match=words):
        fg.vjp(call, MATRIX)


def test_nothing_leaves_its_identity() -> None:
    found, _ = fg.vjp(lambda x: np.logaddexp.reduce(x[:0]), MATRIX)
    np.testing.assert_array_equal(found, np.full(3, -np.inf))


# ----------------------------------------------------------------- functions of the same name


def test_functions_of_one_name_are_told_apart_by_where_they_are() -> None:
    t = fg.tensor([1.0, -4.0])
    np.testing.assert_array_equal(np.emath.sqrt(t), [1.0, 2.0j])
    np.testing.assert_array_equal(fnp.emath.sqrt(t), [1.0, 2.0j])
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(np.sqrt(t), [1.0, np.nan])
    assert fg.grad(lambda x: abs(np.emath.sqrt(x)).sum())(t).tolist() == [0.5, -0.25]
    with pytest.raises(fg.errors.TracerError, match=r"np\.emath\.sqrt: whether the result is comp"):
        fg.vmap(np.emath.sqrt, branches=False)(t)
    np.testing.assert_array_equal(fg.vmap(np.emath.sqrt)(t), [1.0, 2.0j])


@pytest.mark.parametrize("brackets", [np.r_, np.c_])
def test_brackets_that_join_say_what_to_write(brackets: Any) -> None:
    with pytest.raises(fg.errors.TracerError, match=r"fnp\.r_\[.* and fnp\.c_\["):
        fg.grad(lambda x: brackets[x, x].sum())(MATRIX)

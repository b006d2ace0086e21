"""Bad input: one clear exception each, and the next call works.

Every case names the exception and the words that a user needs: operation, argument, path, shapes or
dtypes, cause, remedy.
"""

import pickle
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import errors
from funcgrad._core.trace import running_traces
from funcgrad.errors import (
    ArgumentError,
    AxisError,
    BatchError,
    DifferentiationError,
    DtypeError,
    EscapedTracerError,
    FuncgradError,
    FunctionError,
    ImmutableError,
    LeafError,
    ShapeError,
    TracerError,
    TreeError,
    UnknownFunctionError,
)
from tests.together import together

X = np.array([1.0, 2.0, 3.0])


def params() -> dict[str, Any]:
    return {"layers": [{"weight": np.ones((2, 3)), "bias": np.ones(2)}], "scale": 2.0}


def loss(params, x):
    layer = params["layers"][0]
    return fnp.sum(layer["weight"] @ x + layer["bias"]) * params["scale"]


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """Check after every test that the next call works: no level, setting or context has leaked."""
    before = np.geterr()
    yield
    assert np.geterr() == before
    assert running_traces() == []
    assert float(fg.grad(fg.grad(lambda x: x**3))(2.0)) == 12.0
    assert float(fg.jvp(lambda x: x * x, (3.0,), (1.0,))[1]) == 6.0
    assert fg.vmap(lambda x: x * 2)(X).tolist() == [2.0, 4.0, 6.0]


def refuses(kind: type[Exception], *reasons: str) -> Any:
    """A context that expects an exception whose text has all the reasons, in this order."""
    return pytest.raises(kind, match="(?s)" + ".*".join(map(re.escape, reasons)))


# --------------------------------------------------------------------------------- the tree


@together(
    ("kind", "builtin"),
    [
        (ShapeError, ValueError),
        (AxisError, IndexError),
        (AxisError, ValueError),
        (DtypeError, TypeError),
        (DifferentiationError, TypeError),
        (ArgumentError, ValueError),
        (BatchError, ValueError),
        (TreeError, ValueError),
        (LeafError, TypeError),
        (errors.UnsizedError, TypeError),
        (errors.UnsizedError, ShapeError),
        (ImmutableError, TypeError),
        (errors.ImmutableAttributeError, ImmutableError),
        (errors.ImmutableAttributeError, AttributeError),
        (errors.MissingAttributeError, AttributeError),
        (TracerError, TypeError),
        (EscapedTracerError, TracerError),
        (UnknownFunctionError, NotImplementedError),
        (errors.CheckError, AssertionError),
        (errors.FileFormatError, ValueError),
        (errors.StorageError, OSError),
        (errors.MissingFileError, FileNotFoundError),
    ],
)
def test_every_error_is_also_what_python_users_would_catch(kind: Any, builtin: Any) -> None:
    assert issubclass(kind, builtin)
    assert issubclass(kind, FuncgradError)


# --------------------------------------------------------------- what is differentiated


@pytest.mark.parametrize("transform", [fg.grad, fg.value_and_grad], ids=["grad", "value_and_grad"])
@together(
    ("f", "reasons"),
    [
        (lambda x: x, ("has to return one number", "array of shape (3,)", "fnp.sum", "fg.jacrev")),
        (lambda x: x[:1], ("array of shape (1,)",)),
        (lambda x: fnp.sum(x) * 1j, ("has to return a real number", "complex128", ".real")),
        (lambda x: fnp.argmax(x), ("returned int64", "zero everywhere")),
        (lambda x: x[0] > 0, ("returned bool",)),
        (lambda x: 3, ("returned int64",)),
        (lambda x: None, ("has to return one number, but returned NoneType", "has_aux=True")),
        (lambda x: (x[0], x), ("has to return one number, but returned a tuple of 2", "has_aux")),
        (lambda x: {"loss": x[0]}, ("but returned dict",)),
        (lambda x: "text", ("but returned str",)),
    ],
)
def test_what_is_differentiated_is_one_real_number(
    transform: Any, f: Any, reasons: tuple[str, ...]
) -> None:
    with refuses(DifferentiationError, f"{transform.__name__}: the function", *reasons):
        transform(f)(X)


@pytest.mark.parametrize("out", [1.0, [1.0, 2.0], (1.0,), (1.0, 2.0, 3.0), None])
def test_has_aux_needs_a_pair(out: Any) -> None:
    reason = "with has_aux=True the function has to return a pair (value, aux)"
    with refuses(DifferentiationError, "grad: " + reason, type(out).__name__):
        fg.grad(lambda x: out, has_aux=True)(1.0)
    with refuses(DifferentiationError, reason, "but it returned a tensor of shape (3,)"):
        fg.grad(lambda x: x, has_aux=True)(X)
    with refuses(DifferentiationError, "vjp: " + reason):
        fg.vjp(lambda x: out, 1.0, has_aux=True)
    with refuses(DifferentiationError, "jvp: " + reason):
        fg.jvp(lambda x: out, (1.0,), (1.0,), has_aux=True)


DERIVATIVES: dict[str, Callable[..., Any]] = {
    "grad": lambda f, *args: fg.grad(f)(*args),
    "value_and_grad": lambda f, *args: fg.value_and_grad(f)(*args),
    "vjp": lambda f, *args: fg.vjp(f, *args),
    "jvp": lambda f, *args: fg.jvp(f, args, args),
    "linearize": lambda f, *args: fg.linearize(f, *args),
    "linear_transpose": lambda f, *args: fg.linear_transpose(f, *args),
    "jacfwd": lambda f, *args: fg.jacfwd(f)(*args),
    "jacrev": lambda f, *args: fg.jacrev(f)(*args),
}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_integers_and_booleans_are_not_differentiable(name: str) -> None:
    def f(tree):
        return tree["a"][1]

    for leaf, dtype in ((3, "int64"), (True, "bool"), (np.array([1], np.uint8), "uint8")):
        reasons = (f"{name}: tree['a'][1] is of dtype {dtype}", "2.0 rather than 2", "argnums")
        with refuses(DifferentiationError, *reasons):
            DERIVATIVES[name](f, {"a": (1.0, leaf)})


@pytest.mark.parametrize("name", DERIVATIVES)
def test_objects_that_are_no_arrays_are_refused_with_their_path(name: str) -> None:
    def f(tree):
        return tree["a"][1]

    for leaf in ("text", object(), {1}, lambda: 1):
        with refuses(LeafError, f"{name}: tree['a'][1]: expected an array", "static_field()"):
            DERIVATIVES[name](f, {"a": (1.0, leaf)})
    with refuses(DtypeError, f"{name}: tree['a'][1]: the dtype <U1 is not supported"):
        DERIVATIVES[name](f, {"a": (1.0, np.array(["a"]))})


NO_FUNCTIONS: tuple[tuple[Any, str], ...] = (
    (3, "3"),
    (None, "None"),
    ("text", "'text'"),
    (np.ones(2), "an array of shape (2,)"),
    (fg.tensor([1.0, 2.0]), "an array of shape (2,)"),
    ([1.0, 2.0], "a list of 2"),
)

# From a function to a function, or of a function and arguments: what is no function is refused at
# once, not when the result is called.
TRANSFORMATIONS: dict[str, Callable[[Any], Any]] = {
    "grad": fg.grad,
    "value_and_grad": fg.value_and_grad,
    "jacfwd": fg.jacfwd,
    "jacrev": fg.jacrev,
    "hessian": fg.hessian,
    "vmap": fg.vmap,
    "jit": fg.jit,
    "program": fg.program,
    "checkpoint": fg.checkpoint,
    "custom_jvp": fg.custom_jvp,
    "custom_vjp": fg.custom_vjp,
    "vjp": lambda f: fg.vjp(f, 1.0),
    "jvp": lambda f: fg.jvp(f, (1.0,), (1.0,)),
    "hvp": lambda f: fg.hvp(f, (1.0,), (1.0,)),
    "linearize": lambda f: fg.linearize(f, 1.0),
    "linear_transpose": lambda f: fg.linear_transpose(f, 1.0),
    "check_grads": lambda f: fg.testing.check_grads(f, (1.0,)),
}


@pytest.mark.parametrize("name", TRANSFORMATIONS)
@together(("given", "shown"), NO_FUNCTIONS)
def test_what_is_no_function_is_a_type_error_at_once(name: str, given: Any, shown: str) -> None:
    with refuses(FunctionError, f"{name}: expected a function, got {shown}."):
        TRANSFORMATIONS[name](given)
    assert issubclass(FunctionError, TypeError)


SECOND_CALLS: tuple[tuple[str, type[FuncgradError]], ...] = (
    ("grad", DifferentiationError),
    ("value_and_grad", DifferentiationError),
    ("jacfwd", DifferentiationError),
    ("jacrev", DifferentiationError),
    ("hessian", DifferentiationError),
    ("vmap", BatchError),
    ("jit", ArgumentError),
)


@pytest.mark.parametrize(("name", "error"), SECOND_CALLS)
@together(
    "argument",
    [2.0, 1j, X, np.float32(2.0), fg.tensor(X), [1.0, 2.0], {"w": X}, np.array(2), fg.tensor(2)],
    ids=repr,
)
def test_a_forgotten_second_call_is_named_at_once(
    name: str, error: type[FuncgradError], argument: Any
) -> None:
    def f(x):
        return x * x

    with refuses(error, f"{name}: ", f"{name}(f) returns a function; call it: fg.{name}(f)(x)."):
        getattr(fg, name)(f, argument)
    if error is DifferentiationError:
        with refuses(error, f"{name}: has_aux has to be True or False", f"fg.{name}(f)(x)."):
            getattr(fg, name)(f, 0, argument)


@pytest.mark.parametrize("name", ["vjp", "jvp", "linearize", "linear_transpose"])
def test_results_are_trees_of_arrays(name: str) -> None:
    with refuses(LeafError, f"{name}: the function's result['a'][0]: expected an array", "'text'"):
        DERIVATIVES[name](lambda x: {"a": ["text"]}, 1.0)


@pytest.mark.parametrize(
    ("argnums", "reasons"),
    [
        (2, ("argnums=2 is out of range: f was called with 2 positional argument(s)", "keyword")),
        (-3, ("argnums=-3 is out of range",)),
        ((0, 5), ("argnums=5 is out of range",)),
        ((0, 0), ("argnums=(0, 0) names an argument twice",)),
        ((0, -2), ("argnums=(0, -2) names an argument twice",)),
        (1.0, ("argnums has to be an integer or a tuple of integers, got 1.0",)),
        ("x", ("argnums has to be an integer or a tuple of integers, got 'x'",)),
        (None, ("got None",)),
        ((0, 1.0), ("got 1.0",)),
    ],
)
@together("transform", [fg.grad, fg.value_and_grad, fg.jacfwd, fg.jacrev])
def test_argnums_have_to_exist(transform: Any, argnums: Any, reasons: tuple[str, ...]) -> None:
    def f(x, y):
        return x * y

    with refuses(DifferentiationError, f"{transform.__name__}: ", *reasons):
        transform(f, argnums)(1.0, 2.0)


# --------------------------------------------------------------- tangents and cotangents


@pytest.mark.parametrize(
    ("tangent", "kind", "reasons"),
    [
        ([1.0], TreeError, ("tangents[0]: expected a dict", "got a list of 1")),
        ({"layers": [], "scale": 1.0}, TreeError, ("tangents[0]['layers']", "list of 1", "of 0")),
        ({"scale": 1.0}, TreeError, ("tangents[0]: expected a dict with keys", "['scale']")),
        (None, TreeError, ("tangents[0]: expected a dict", "None")),
    ],
)
def test_tangents_have_the_tree_of_the_primals(tangent: Any, kind: Any, reasons: Any) -> None:
    with refuses(kind, "jvp: ", *reasons):
        fg.jvp(lambda p: loss(p, X), (params(),), (tangent,))


@pytest.mark.parametrize(
    ("leaf", "kind", "reasons"),
    [
        (np.ones(3), ShapeError, ("expected shape (2,), got (3,)",)),
        (1.0, ShapeError, ("expected shape (2,), got ()",)),
        (np.ones((1, 2)), ShapeError, ("expected shape (2,), got (1, 2)",)),
        (
            np.ones(2, "f"),
            DtypeError,
            ("expected dtype float64, got float32", ".astype('float64')"),
        ),
        (np.ones(2, "D"), DtypeError, ("expected dtype float64, got complex128",)),
        ("text", LeafError, ("expected an array or a number, got 'text'",)),
    ],
)
def test_tangents_and_cotangents_have_shapes_and_dtypes_of_their_own(
    leaf: Any, kind: type[Exception], reasons: tuple[str, ...]
) -> None:
    wrong = params()
    wrong["layers"][0]["bias"] = leaf
    path = "['layers'][0]['bias']"
    with refuses(kind, f"jvp: tangents[0]{path}", *reasons):
        fg.jvp(lambda p: loss(p, X), (params(),), (wrong,))
    with refuses(kind, f"push: tangents[0]{path}", *reasons):
        fg.linearize(lambda p: loss(p, X), params())[1](wrong)
    with refuses(kind, f"pullback: cotangent{path}", *reasons):
        fg.vjp(lambda p: p, params())[1](wrong)
    with refuses(kind, f"linear_transpose: cotangent{path}", *reasons):
        fg.linear_transpose(lambda p: p, params())(wrong)


@pytest.mark.parametrize("dtype", ["?", "b", "H", "l"])
def test_directions_may_be_integers(dtype: str) -> None:
    direction = np.array([1, 0], dtype)
    x = np.array([2.0, 3.0])
    slope = fg.jvp(fnp.square, (x,), (direction,))[1]
    assert slope.dtype == float
    np.testing.assert_array_equal(slope, [4.0, 0.0])
    np.testing.assert_array_equal(fg.linearize(fnp.square, x)[1](direction), [4.0, 0.0])
    np.testing.assert_array_equal(fg.vjp(fnp.square, x)[1](direction)[0], [4.0, 0.0])
    stacked = fg.vmap(lambda v: fg.jvp(fnp.square, (x,), (v,))[1])(np.eye(2, dtype=dtype))
    np.testing.assert_array_equal(stacked, [[4.0, 0.0], [0.0, 6.0]])


def test_complex_numbers_are_no_tangents_of_real_primals() -> None:
    with refuses(DtypeError, "jvp: tangents[0]: expected dtype float64, got complex128"):
        fg.jvp(lambda x: x, (1.0,), (1j,))


@pytest.mark.parametrize("operation", ["jvp", "hvp"])
def test_primals_and_tangents_are_tuples_of_one_length(operation: str) -> None:
    call = getattr(fg, operation)

    def f(x):
        return fnp.sum(x * x)

    with refuses(DifferentiationError, f"{operation}: primals has to be a tuple", "got ndarray"):
        call(f, X, (X,))
    with refuses(DifferentiationError, f"{operation}: tangents has to be a tuple", "(f, (x,), (t"):
        call(f, (X,), X)
    with refuses(DifferentiationError, f"{operation}: got 1 primals but 2 tangents"):
        call(f, (X,), (X, X))


def test_pushes_take_as_many_tangents_as_there_were_primals() -> None:
    _, push = fg.linearize(lambda x, y: x * y, 1.0, 2.0)
    with refuses(TreeError, "push: tangents: expected a tuple of 2, got a tuple of 1"):
        push(1.0)


def test_cotangents_have_the_tree_of_the_result() -> None:
    _, pullback = fg.vjp(lambda x: (x, {"a": x}), 1.0)
    with refuses(TreeError, "pullback: cotangent: expected a tuple of 2, got a leaf"):
        pullback(1.0)
    with refuses(TreeError, "pullback: cotangent[1]: expected a dict with keys ['a']", "['b']"):
        pullback((1.0, {"b": 1.0}))


# --------------------------------------------------------------------------------- vmap


def two(x, y):
    return x * y


ONE, OTHER, SQUARE = np.ones(3), np.ones(4), np.ones((3, 3))

BAD_AXES: tuple[tuple[Any, Any, str], ...] = (
    # in_axes, the arguments x and y, and what is wrong.
    (0, (ONE, OTHER), "the batch sizes differ: x has 3, but y of shape (4,) has 4 on axis 0"),
    ((0, 1), (ONE, np.ones((3, 4))), "x has 3, but y of shape (3, 4) has 4 on axis 1"),
    (0, ({"w": [ONE]}, OTHER), "x['w'][0] has 3, but y of shape (4,) has 4"),
    (0, (ONE, 2.0), "in_axes says axis 0 for y, whose shape is (). Use None"),
    ((0, 2), (ONE, SQUARE), "in_axes says axis 2 for y, whose shape is (3, 3)"),
    ((0, -3), (ONE, SQUARE), "in_axes says axis -3 for y"),
    ((0,), (ONE, ONE), "in_axes has 1 entries, but the function was called with 2 positional"),
    ((0, 0, 0), (ONE, ONE), "in_axes has 3 entries"),
    ((0, "a"), (ONE, ONE), "in_axes has to be an integer, None, or a tree of them, got 'a'"),
    ((0, 1.0), (ONE, ONE), "got 1.0"),
    ((0, {"a": 0}), (ONE, ONE), "in_axes does not fit the arguments: in_axes[1]: expected a leaf"),
    ((0, {"a": 0}), (ONE, {"b": ONE}), "in_axes[1]: expected a dict with keys ['b']"),
    (None, (1.0, 2.0), "nothing is mapped: every in_axes is None"),
    ((None, None), (ONE, ONE), "pass the size of the batch as axis_size"),
)


@pytest.mark.parametrize(("in_axes", "args", "reason"), BAD_AXES)
def test_axes_and_sizes_have_to_fit(in_axes: Any, args: Any, reason: str) -> None:
    with refuses(BatchError, "vmap: ", reason):
        fg.vmap(two, in_axes=in_axes)(*args)


def test_sizes_of_keyword_arguments_and_axis_size_are_named() -> None:
    with refuses(BatchError, "vmap: the batch sizes differ: x has 3, but y of shape (4,)"):
        fg.vmap(two)(np.ones(3), y=np.ones(4))
    with refuses(BatchError, "vmap: the batch sizes differ: axis_size has 2, but x of shape (3,)"):
        fg.vmap(two, axis_size=2)(X, X)
    for size in (-1, 2.0, "3"):
        with refuses(BatchError, f"axis_size is {size!r}; it has to be a non-negative integer"):
            fg.vmap(lambda: 1.0, axis_size=size)()  # type: ignore[arg-type]
    with refuses(BatchError, "vmap: nothing is mapped"):
        fg.vmap(lambda: 1.0)()


@pytest.mark.parametrize(
    ("out_axes", "reasons"),
    [
        (None, ("out_axes is None for the result['a']", "depends on the batch")),
        ({"a": None, "b": 0}, ("out_axes is None for the result['a']",)),
        (2, ("out_axes is 2 for the result['a'], which with the batch has 1 axes",)),
        (-2, ("out_axes is -2 for the result['a']",)),
        ({"a": 0}, ("out_axes does not fit the function's result: out_axes: expected a dict",)),
        ((0, 0), ("out_axes does not fit the function's result",)),
        ("a", ("out_axes is 'a' for the result['a']",)),
    ],
)
def test_out_axes_have_to_fit(out_axes: Any, reasons: tuple[str, ...]) -> None:
    with refuses(BatchError, "vmap: ", *reasons):
        fg.vmap(lambda x: {"a": x, "b": x}, out_axes=out_axes)(X)


def test_objects_in_the_arguments_and_results_of_vmap_are_refused_with_their_path() -> None:
    with refuses(LeafError, "vmap: y['mode']: expected an array or a number, got 'fast'"):
        fg.vmap(two, in_axes=(0, None))(X, {"mode": "fast"})
    with refuses(LeafError, "vmap: y: expected an array or a number, got 'fast'"):
        fg.vmap(two, in_axes=0)(X, y="fast")
    with refuses(LeafError, "vmap: the function's result[1]: expected an array", "'text'"):
        fg.vmap(lambda x: (x, "text"))(X)


@pytest.mark.parametrize(
    ("use", "words"),
    [
        (bool, "bool(t), or `if`"),
        (int, "int(t)"),
        (float, "float(t)"),
        (complex, "complex(t)"),
        (lambda x: [1, 2][x], "t as an index"),
        (lambda x: range(x), "t as an index"),
        (lambda x: x.item(), "t.item()"),
        (lambda x: x.tolist(), "t.tolist()"),
        (np.asarray, "np.asarray on t"),
        (lambda x: 1 if x > 0 else 2, "bool(t), or `if`"),
        (lambda x: max(x, 0), "bool(t), or `if`"),
        (lambda x: x and True, "bool(t), or `if`"),
    ],
)
def test_one_example_of_a_batch_is_no_number(use: Any, words: str) -> None:
    remedy = "mask elements" if use is np.asarray else "Without branches=False, vmap follows `if`"
    reasons = (
        words,
        "inside vmap this stands for one example",
        remedy,
        "fnp.where",
        "in_axes=None",
    )
    one_run = partial(fg.vmap, branches=False)
    with refuses(TracerError, *reasons):
        one_run(use)(np.array([1, 2]))
    with refuses(TracerError, *reasons):
        one_run(one_run(use))(np.array([[1, 2]]))


def test_control_flow_on_a_value_that_is_batched_and_differentiated() -> None:
    def f(x):
        return x if x > 0 else -x

    with refuses(TracerError, "bool(t), or `if`", "inside vmap"):
        fg.vmap(fg.grad(f), branches=False)(X)
    with refuses(TracerError, "bool(t), or `if`", "inside vmap"):
        fg.grad(lambda x: fnp.sum(fg.vmap(f, branches=False)(x)))(X)


@pytest.mark.parametrize("use", [np.asarray, bytes, lambda x: x.tobytes(), pickle.dumps])
def test_a_batch_is_not_handed_to_other_code_example_by_example(use: Any) -> None:
    with refuses(TracerError, "inside vmap this stands for one example"):
        fg.vmap(use)(np.array([1, 2]))


@pytest.mark.parametrize(
    "use",
    [fnp.argwhere, fnp.unique, fnp.flatnonzero, lambda x: x[x > 1], lambda x: fnp.arange(x[0])],
)
def test_results_whose_shape_depends_on_an_example_need_a_mask_or_a_loop(use: Any) -> None:
    x = np.array([[1, 2], [3, 4]])
    with refuses(TracerError, "fnp.sum(x, where=mask)", "fg.map") as refused:
        fg.vmap(use)(x)
    assert "`if`" not in str(refused.value)
    fg.map(lambda row: fnp.sum(use(row)), x)  # the remedy that the error names


# --------------------------------------------------------------- tracers as numbers


@pytest.mark.parametrize(
    ("use", "words"),
    [
        (float, "float(t)"),
        (complex, "complex(t)"),
        (lambda x: x.item(), "t.item()"),
        (lambda x: x.tolist(), "t.tolist()"),
        (np.asarray, "np.asarray on t"),
        (np.array, "np.asarray on t"),
        (__import__("math").sin, "float(t)"),
        (__import__("pickle").dumps, "pickle"),
    ],
)
def test_a_number_that_is_being_differentiated_does_not_leave_its_trace(
    use: Any, words: str
) -> None:
    def f(x):
        use(x)
        return x

    reasons = (words, "is being differentiated", "would lose the derivative", "fg.stop_gradient(t)")
    for transform in (
        lambda: fg.grad(f)(1.0),
        lambda: fg.jvp(f, (1.0,), (1.0,)),
        lambda: fg.linearize(f, 1.0),
        lambda: fg.grad(fg.checkpoint(f))(1.0),
        lambda: fg.grad(lambda x: fg.jvp(f, (x,), (1.0,))[1])(1.0),
    ):
        with refuses(TracerError, *reasons):
            transform()


# --------------------------------------------------------------------------------- escapes


def escape_by(transform: str) -> Any:
    """A tracer of a transformation that has ended."""
    kept: list[Any] = []

    def keep(x):
        kept.append(x)
        return x

    def f(x):
        return fnp.sum(keep(x) ** 2)

    {
        "grad": lambda: fg.grad(f)(X),
        "vjp": lambda: fg.vjp(f, X),
        "linearize": lambda: fg.linearize(f, X),
        "jvp": lambda: fg.jvp(f, (X,), (X,)),
        "vmap": lambda: fg.vmap(f)(np.stack([X, X])),
        "checkpoint": lambda: fg.grad(fg.checkpoint(f))(X),
        "hessian": lambda: fg.hessian(f)(X),
        "linear_transpose": lambda: fg.linear_transpose(keep, X),
    }[transform]()
    return kept[0]


TRANSFORMS = "grad vjp linearize jvp vmap checkpoint hessian linear_transpose".split()

USES: dict[str, Callable[[Any], Any]] = {
    "multiply": lambda t: t * 2.0,
    "reflected": lambda t: 2.0 * t,
    "with itself": lambda t: t + t,
    "array on the left": lambda t: X - t,
    "with a tensor": lambda t: t / fg.tensor(X),
    "negative": lambda t: -t,
    "abs": abs,
    "square": lambda t: t**2,
    "power": lambda t: t**2.5,
    "matmul": lambda t: t @ t,
    "compare": lambda t: t > 0,
    "equal": lambda t: t == t,
    "floor": lambda t: t // 1,
    "index": lambda t: t[0],
    "advanced index": lambda t: t[[0, 1]],
    "iterate": list,
    "transpose": lambda t: t.T,
    "reshape": lambda t: t.reshape(3, 1),
    "sum": lambda t: t.sum(),
    "sort": lambda t: fnp.sort(t),
    "argmax": lambda t: t.argmax(),
    "isnan": fnp.isnan,
    "where": lambda t: fnp.where(True, t, 0.0),
    "concatenate": lambda t: fnp.concatenate([t, t]),
    "sin": fnp.sin,
    "numpy": np.exp,
    "cast": lambda t: t.astype("f"),
    "cast to int": lambda t: t.astype(int),
    "update": lambda t: t.at[0].set(1.0),
    "stop": fg.stop_gradient,
    "tensor": lambda t: fg.tensor([t, t]),
    "bool": bool,
    "float": float,
    "asarray": np.asarray,
    "item": lambda t: t.item(0),
    "argument of grad": lambda t: fg.grad(lambda y: fnp.sum(y * y))(t),
    "argument of jvp": lambda t: fg.jvp(lambda y: y * y, (t,), (t,)),
    "argument of vmap": lambda t: fg.vmap(lambda y: y * y)(t),
    "argument of checkpoint": lambda t: fg.checkpoint(lambda y: y * y)(t),
    "within grad": lambda t: fg.grad(lambda y: fnp.sum(y * t))(X),
    "within jvp": lambda t: fg.jvp(lambda y: t * y, (X,), (X,)),
    "within vmap": lambda t: fg.vmap(lambda y: y * t, axis_size=3)(X),
    "compared within grad": lambda t: fg.grad(lambda y: fnp.sum(y * (t > y)))(X),
    "within a checkpoint": lambda t: fg.grad(lambda y: fnp.sum(fg.checkpoint(lambda z: z * t)(y)))(
        X
    ),
}


@together("use", USES)
@together("transform", TRANSFORMS)
def test_a_traced_value_is_of_no_use_after_its_transformation(transform: str, use: str) -> None:
    leaked = escape_by(transform)
    for _ in range(2):
        with refuses(
            EscapedTracerError, "used after its transformation had ended", "Return it from"
        ):
            USES[use](leaked)


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_an_escaped_value_can_still_be_looked_at(transform: str) -> None:
    leaked = escape_by(transform)
    assert repr(leaked).startswith("Traced(")
    assert leaked.dtype == np.float64
    assert leaked.shape == (3,)


def test_escapes_through_generators_and_attributes() -> None:
    class Store:
        value: Any = None

    def f(x):
        Store.value = x * 2
        return fnp.sum(x), (v * 2 for v in x)

    _, generator = fg.grad(f, has_aux=True)(X)
    for use in (lambda: next(generator), lambda: Store.value + 1):
        with refuses(EscapedTracerError, "generator for later"):
            use()


def test_escapes_from_an_inner_transformation_into_the_outer_one() -> None:
    kept: list[Any] = []

    def inner(y):
        kept.append(y)
        return y * y

    def outer(x):
        return fg.grad(inner)(x) * kept[-1]

    for transform in (
        lambda: fg.grad(outer)(2.0),
        lambda: fg.jvp(outer, (2.0,), (1.0,)),
        lambda: fg.vmap(outer)(X),
    ):
        with refuses(EscapedTracerError, "used after its transformation had ended"):
            transform()


def test_a_kept_stop_gradient_is_an_ordinary_tensor() -> None:
    kept: list[Any] = []

    def f(x):
        kept.append(fg.stop_gradient(x * 2))
        return fnp.sum(x)

    fg.grad(f)(X)
    fg.jvp(f, (X,), (X,))
    assert (kept[0] + kept[1]).tolist() == [4.0, 8.0, 12.0]


# --------------------------------------------------------------- errors of the function itself


class OwnError(Exception):
    pass


def fails(x):
    y = x * x
    raise OwnError("of the user")
    return y


@pytest.mark.parametrize(
    "transform",
    [
        lambda: fg.grad(fails)(1.0),
        lambda: fg.vjp(fails, 1.0),
        lambda: fg.jvp(fails, (1.0,), (1.0,)),
        lambda: fg.vmap(fails)(X),
        lambda: fg.linearize(fails, 1.0),
        lambda: fg.linear_transpose(lambda x: fails(2.0) * x, 1.0),
        lambda: fg.hessian(fails)(1.0),
        lambda: fg.jacrev(fails)(X),
        lambda: fg.hvp(fails, (1.0,), (1.0,)),
        lambda: fg.grad(fg.checkpoint(fails))(1.0),
        lambda: fg.vmap(fg.grad(lambda x: fg.jvp(fails, (x,), (x,))[1]))(X),
        lambda: fg.grad(fails, probes=("h",))(1.0),
    ],
)
def test_errors_of_the_function_come_through_unchanged(transform: Any) -> None:
    for _ in range(3):
        with pytest.raises(OwnError, match=r"^of the user$"):
            transform()


def test_errors_in_a_pullback_leave_nothing_behind() -> None:
    @fg.custom_vjp
    def f(x):
        return x

    def bwd(residuals, ct):
        raise OwnError("in bwd")

    f.defvjp(lambda x: (x, None), bwd)
    _, pullback = fg.vjp(f, 1.0)
    for call in (lambda: pullback(1.0), lambda: fg.grad(f)(1.0), lambda: fg.vmap(pullback)(X)):
        with pytest.raises(OwnError, match="in bwd"):
            call()


# --------------------------------------------------------------- shapes and dtypes of operations


A, B = np.ones((2, 3)), np.ones((4, 5))

MISFITS: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "add": (lambda a: a + B, ShapeError, "add(float64[2,3], float64[4,5])"),
    "maximum": (lambda a: fnp.maximum(a, B), ShapeError, "maximum(float64[2,3], float64[4,5])"),
    "where": (lambda a: fnp.where(a > 0, a, B), ShapeError, "where("),
    "compare": (lambda a: a < B, ShapeError, "less(float64[2,3], float64[4,5])"),
    "matmul": (lambda a: a @ B, ShapeError, "matmul(float64[2,3], float64[4,5])"),
    "matmul 0-d": (lambda a: a @ 2.0, ShapeError, "matmul("),
    "dot": (
        lambda a: fnp.dot(a, B),
        ShapeError,
        "dot: axis 1 of the first argument, of shape (2, ",
    ),
    "dot of vectors": (lambda a: fnp.dot(a[0], B[0]), ShapeError, "dot: axis 0 of the first"),
    "dot with a vector": (lambda a: fnp.dot(a, B[0]), ShapeError, "dot: axis 1 of the first"),
    "vdot": (lambda a: fnp.vdot(a, B), ShapeError, "vdot: the arguments have different numbers"),
    "inner": (lambda a: fnp.inner(a, B), ShapeError, "inner: axis 1 of the first argument"),
    "tensordot": (lambda a: fnp.tensordot(a, B, 1), ShapeError, "tensordot"),
    "einsum": (lambda a: fnp.einsum("ij,jk", a, B), ShapeError, "einsum"),
    "reshape": (lambda a: a.reshape(4), ShapeError, "reshape"),
    "transpose": (lambda a: a.transpose(0), ShapeError, "1 axes for an array of 2"),
    "squeeze": (lambda a: a.squeeze(0), ShapeError, "squeeze"),
    "broadcast_to": (lambda a: fnp.broadcast_to(a, (3, 2)), ShapeError, "broadcast_to"),
    "concatenate": (lambda a: fnp.concatenate([a, B]), ShapeError, "concatenate"),
    "stack": (lambda a: fnp.stack([a, B]), ShapeError, "stack"),
    "sum": (lambda a: a.sum(2), AxisError, "sum: axis 2 is out of bounds"),
    "max of nothing": (lambda a: a[:0].max(), ShapeError, "max"),
    "cumsum": (lambda a: a.cumsum(5), AxisError, "cumsum: axis 5 is out of bounds"),
    "sort": (lambda a: fnp.sort(a, -3), AxisError, "sort: axis -3 is out of bounds"),
    "index": (lambda a: a[5], IndexError, "out of bounds for axis 0, of size 2"),
    "take": (lambda a: fnp.take(a, 7, axis=1), IndexError, "7"),
    "set": (lambda a: a.at[0].set(np.ones(4)), ShapeError, "(4,)"),
    "flip": (lambda a: fnp.flip(a, 2), AxisError, "flip: axis 2 is out of bounds"),
    "roll": (lambda a: fnp.roll(a, 1, 2), AxisError, "roll: axis 2 is out of bounds"),
    "diagonal": (lambda a: fnp.diagonal(a[0]), ShapeError, "diagonal"),
    "repeat": (lambda a: fnp.repeat(a, [1, 2, 3], axis=0), ShapeError, "repeat"),
    "bits": (lambda a: a & 1, DtypeError, "bitwise_and(float64[2,3], int64[])"),
    "invert": (lambda a: ~a, DtypeError, "bitwise_invert(float64[2,3])"),
    "text": (
        lambda a: fnp.sin("text"),
        LeafError,
        "sin: expected an array or a number, got 'text'",
    ),
    "ufunc": (lambda a: np.add(a, B), ShapeError, "add(float64[2,3], float64[4,5])"),
}

AROUND: dict[str, Callable[[Callable[[Any], Any]], Any]] = {
    "eager": lambda f: f(fg.tensor(A)),
    "grad": lambda f: fg.grad(lambda a: fnp.sum(f(a)))(A),
    "jvp": lambda f: fg.jvp(f, (A,), (A,)),
    "vmap": lambda f: fg.vmap(f)(np.ones((97, 2, 3))),
}


@together("around", AROUND)
@together("name", MISFITS)
def test_what_does_not_fit_is_refused_by_name_under_every_transformation(
    name: str, around: str
) -> None:
    f, kind, reason = MISFITS[name]
    with pytest.raises(kind) as caught:
        AROUND[around](f)
    assert isinstance(caught.value, FuncgradError)
    assert caught.value.__cause__ is not caught.value, "an error that keeps itself alive"
    assert reason in str(caught.value)
    for foreign in ("97", "gufunc", "Recorded", "Dual", "Batched"):  # all that is not the user's
        assert foreign not in str(caught.value)


# -------------------------------------------------------------------------------- the user's line


def line_of(function: Any, offset: int) -> str:
    code = function.__code__
    return f"test_errors.py:{code.co_firstlineno + offset}"


def branching(x: Any) -> Any:
    doubled = x * 2.0
    if doubled > 0.0:
        return doubled
    return -doubled


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: fg.vmap(f, branches=False),
        fg.jit,
        fg.program,
        lambda f: fg.vmap(fg.grad(f), branches=False),
    ],
)
def test_a_tracer_error_names_the_users_line(transform: Any) -> None:
    with pytest.raises(TracerError) as caught:
        transform(branching)(np.ones(3))
    assert str(caught.value).endswith(f"(At {line_of(branching, 2)}.)")
    assert caught.value.line == line_of(branching, 2)
    copied = pickle.loads(pickle.dumps(caught.value))
    assert str(copied) == str(caught.value)


def test_a_value_that_leaks_from_staging_says_where_it_was_made() -> None:
    leaked = []

    def f(x: Any) -> Any:
        leaked.append(x * 2.0)
        return x

    fg.program(f)(1.0)
    with pytest.raises(EscapedTracerError, match=f"made at {line_of(f, 1)}, was used after"):
        leaked[0] + 1.0
    with pytest.raises(EscapedTracerError, match=f"made at {line_of(f, 1)}, was used after"):
        bool(leaked[0])


def test_errors_keep_their_attributes_in_pickles() -> None:
    for error in (
        errors.NonFiniteError("a", ("cause",)),
        errors.StorageError("b", 28),
        errors.ChunkError("c", 3),
    ):
        copied = pickle.loads(pickle.dumps(error))
        assert type(copied) is type(error)
        assert (str(copied), vars(copied)) == (str(error), vars(error))


def test_a_remedy_that_the_message_has_is_not_said_twice() -> None:
    error = TracerError("The value is unknown. Write fnp.sum.")
    for remedy, count in (("Write fnp.sum.", 1), ("Write fnp.prod.", 2)):
        error.remedy = remedy
        assert str(error).count("Write fnp.") == count

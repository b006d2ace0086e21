"""``interop.onnx.load``: models as functions, with derivatives, jit and batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import errors, interop, nn
from tests.interop.onnx_checks import difference
from tests.interop.onnx_functions import FUNCTIONS, PARAMS, X, loss
from tests.together import together

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

STAGED_BY_NUMBERS = frozenset({"while, gradient"})
"""The rows of its stacks are known when it runs, so it is not staged."""


def model_of(
    nodes: list[Any],
    inputs: dict[str, Any],
    outputs: list[str],
    arrays: dict[str, Any],
    opset: int = 18,
) -> Any:
    """A model of some nodes, whose inputs have the shapes and dtypes of arrays."""
    helper = onnx.helper
    kinds = {
        name: helper.np_dtype_to_tensor_dtype(np.asarray(x).dtype) for name, x in inputs.items()
    }
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info(k, kinds[k], np.shape(x)) for k, x in inputs.items()],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [onnx.numpy_helper.from_array(np.asarray(x), name) for name, x in arrays.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


# ---------------------------------------------------------------------------------- there and back


@together("name", FUNCTIONS)
def test_there_and_back(name: str) -> None:
    staged = fg.program(FUNCTIONS[name])(PARAMS, X)
    f, params = interop.onnx.load(staged.to_onnx(initializers={"p": PARAMS}))
    expected = fg.tree.leaves(staged(PARAMS, X))
    for g in (f,) if name in STAGED_BY_NUMBERS else (f, fg.jit(f)):
        outs = fg.tree.leaves(g(params, X))
        assert max([difference(a, b) for a, b in zip(outs, expected, strict=True)]) <= 1


def test_derivatives_of_a_model_are_those_of_its_program() -> None:
    f, params = interop.onnx.load(
        fg.program(loss)(PARAMS, X).to_onnx(initializers={"params": PARAMS})
    )
    assert sorted(params) == ["params['b']", "params['w']"]
    slopes, expected = fg.grad(f)(params, X), fg.grad(loss)(PARAMS, X)
    assert difference(slopes["params['w']"], expected["w"]) <= 1
    assert difference(slopes["params['b']"], expected["b"]) <= 1
    hessian = fg.hessian(lambda x: f(params, x))(X)
    assert difference(hessian, fg.hessian(lambda x: loss(PARAMS, x))(X)) <= 10
    rows = np.stack([X, X[::-1], -X])
    batch = fg.jit(fg.vmap(fg.grad(f, argnums=1), (None, 0)))(params, rows)
    assert difference(batch, fg.vmap(fg.grad(loss, argnums=1), (None, 0))(PARAMS, rows)) <= 1
    fg.testing.check_grads(f, (params, X), order=2)


def test_derivatives_through_loops_and_branches() -> None:
    for name in ("scan", "while", "branches", "sorted, gradient"):
        f, _ = interop.onnx.load(
            fg.program(lambda x, name=name: FUNCTIONS[name](PARAMS, x))(X).to_onnx()
        )
        g = fg.grad(lambda x, f=f: sum(fnp.sum(y**2) for y in fg.tree.leaves(f({}, x))))
        h = fg.grad(
            lambda x, name=name: sum(
                fnp.sum(y**2) for y in fg.tree.leaves(FUNCTIONS[name](PARAMS, x))
            )
        )
        assert difference(g(X), h(X)) <= 10, name


def test_a_file_and_its_bytes_are_read(tmp_path: Any) -> None:
    path = tmp_path / "net.onnx"
    model = fg.program(loss)(PARAMS, X).to_onnx(path, initializers={"params": PARAMS})
    for source in (path, str(path), path.read_bytes(), model):
        f, params = interop.onnx.load(source)
        assert difference(f(params, X), loss(PARAMS, X)) <= 1


# ---------------------------------------------------------------------------- nets of others


def net() -> tuple[Any, dict[str, Any]]:
    """A convolutional net as PyTorch exports one: a shape is computed from the input's."""
    draws = np.random.default_rng(2)
    arrays = {
        "k": draws.standard_normal((4, 3, 3, 3)).astype(np.float32) / 3,
        "kb": draws.standard_normal(4).astype(np.float32),
        "scale": np.ones(4, np.float32),
        "shift": np.zeros(4, np.float32),
        "mean": draws.standard_normal(4).astype(np.float32),
        "var": np.full(4, 2, np.float32),
        "w": draws.standard_normal((5, 16)).astype(np.float32) / 4,
        "b": draws.standard_normal(5).astype(np.float32),
        "zero": np.array(0),
        "minus": np.array([-1]),
        "scales": np.array([1, 1, 2, 2], np.float32),
    }
    node = onnx.helper.make_node
    nodes = [
        node("Resize", ["x", "", "scales"], ["big"], mode="linear"),
        node("Conv", ["big", "k", "kb"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]),
        node("BatchNormalization", ["c", "scale", "shift", "mean", "var"], ["n"]),
        node("Relu", ["n"], ["r"]),
        node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Shape", ["p"], ["s"]),
        node("Gather", ["s", "zero"], ["batch"]),
        node("Unsqueeze", ["batch", "axes"], ["front"]),
        node("Concat", ["front", "minus"], ["shape"], axis=0),
        node("Reshape", ["p", "shape"], ["flat"]),
        node("Gemm", ["flat", "w", "b"], ["logits"], transB=1),
        node("LogSoftmax", ["logits"], ["y"], axis=-1),
    ]
    arrays["axes"] = np.array([0])
    x = draws.standard_normal((2, 3, 4, 4)).astype(np.float32)
    return model_of(nodes, {"x": x}, ["y"], arrays), {"x": x}


def test_a_net_with_computed_shapes_trains() -> None:
    import onnxruntime

    model, feed = net()
    f, params = interop.onnx.load(model)
    assert "scales" not in params  # it decides a shape
    assert "zero" not in params  # nor are integers parameters
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (expected,) = session.run(None, feed)
    np.testing.assert_allclose(np.asarray(fg.jit(f)(params, feed["x"])), expected, rtol=1e-5)

    def cost(params: Any, x: Any) -> Any:
        return -fnp.mean(f(params, x)[:, 0])

    step = fg.jit(fg.value_and_grad(cost))
    first, slopes = step(params, feed["x"])
    moved = fg.tree.map(lambda p, s: p - 0.01 * s, params, slopes)
    assert step(moved, feed["x"])[0] < first
    wide = fg.tree.map(lambda p: fnp.astype(p, np.float64), params)
    fg.testing.check_grads(cost, (wide, feed["x"].astype(np.float64)))
    rows = np.stack([feed["x"], feed["x"] * 2])
    batch = fg.vmap(lambda x: f(params, x))(rows)
    np.testing.assert_allclose(np.asarray(batch[1]), f(params, rows[1]), rtol=1e-5)


@pytest.mark.parametrize("operator", ["RNN", "GRU", "LSTM"])
def test_derivatives_of_recurrent_layers(operator: str) -> None:
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[operator]
    draws = np.random.default_rng(4)
    x = draws.standard_normal((3, 2, 4))
    arrays = {
        "w": draws.standard_normal((2, gates * 3, 4)),
        "r": draws.standard_normal((2, gates * 3, 3)),
        "b": draws.standard_normal((2, gates * 6)),
        "lengths": np.array([3, 2], np.int32),
    }
    node = onnx.helper.make_node(
        operator,
        ["x", "w", "r", "b", "lengths"],
        ["y", "h"],
        hidden_size=3,
        direction="bidirectional",
    )
    f, params = interop.onnx.load(model_of([node], {"x": x}, ["y", "h"], arrays))
    fg.testing.check_grads(lambda p, x: f(p, x)[0], (params, x))
    assert difference(fg.jit(f)(params, x)[0], f(params, x)[0]) <= 1


def test_a_function_of_the_model_is_called() -> None:
    helper = onnx.helper
    square = helper.make_function(
        "own",
        "Power",
        ["a"],
        ["c"],
        [helper.make_node("Mul", ["a", "a"], ["b"]), helper.make_node("Neg", ["b"], ["c"])],
        [helper.make_opsetid("", 18)],
    )
    model = model_of([helper.make_node("Power", ["x"], ["y"], domain="own")], {"x": 3.0}, ["y"], {})
    model.functions.append(square)
    model.opset_import.append(helper.make_opsetid("own", 1))
    f, params = interop.onnx.load(model)
    assert float(fg.grad(lambda x: f(params, x))(3.0)) == -6.0


# ------------------------------------------------------------------------------------- refusals


def test_operators_that_are_not_there_are_named_together() -> None:
    nodes = [
        onnx.helper.make_node("Unique", ["x"], ["u"]),
        onnx.helper.make_node("DFT", ["u"], ["y"], domain=""),
        onnx.helper.make_node("Own", ["y"], ["z"], domain="mine"),
    ]
    with pytest.raises(errors.ProgramError, match=r"DFT, Unique, mine\.Own\. Replace"):
        interop.onnx.load(model_of(nodes, {"x": np.ones(3)}, ["z"], {}))


def test_a_shape_that_is_not_known_is_refused_where_it_is_needed() -> None:
    node = onnx.helper.make_node("Reshape", ["x", "s"], ["y"])
    f, params = interop.onnx.load(
        model_of([node], {"x": np.ones(6), "s": np.array([2, 3])}, ["y"], {})
    )
    assert f(params, np.ones(6), np.array([3, 2])).shape == (3, 2)
    with pytest.raises(errors.ProgramError, match=r"Reshape: the input shape decides.*fg\.jit"):
        fg.vmap(f, (None, None, 0))(params, np.ones(6), np.array([[3, 2]]))


def test_a_loop_that_stacks_rows_is_not_staged_within_another() -> None:
    def climbed(x: Any) -> Any:
        return fg.while_loop(lambda c: c < 9.0, lambda c: c * c + 1.0, x)

    def slopes(xs: Any) -> Any:
        return fg.scan(lambda c, x: (c, fg.grad(climbed)(x)), 0.0, xs)[1]

    xs = np.array([0.5, 2.0])
    f, params = interop.onnx.load(fg.program(slopes)(xs).to_onnx())
    assert difference(f(params, xs), slopes(xs)) <= 1
    with pytest.raises(errors.ProgramError, match=r"Loop: the input cond decides.*fg\.jit"):
        fg.jit(f)(params, xs)


def test_dropout_in_training_is_refused() -> None:
    node = onnx.helper.make_node("Dropout", ["x", "ratio", "training"], ["y"])
    arrays = {"ratio": np.float32(0.5), "training": np.array(True)}
    f, params = interop.onnx.load(model_of([node], {"x": np.ones(2)}, ["y"], arrays))
    with pytest.raises(errors.ProgramError, match="Dropout: training_mode is true"):
        f(params, np.ones(2))
    arrays["ratio"] = np.float32(0.0)
    f, params = interop.onnx.load(model_of([node], {"x": np.ones(2)}, ["y"], arrays))
    np.testing.assert_array_equal(f(params, np.ones(2)), [1.0, 1.0])
    node = onnx.helper.make_node("Dropout", ["x", "", "training"], ["y"])  # a ratio of a half
    arrays = {"training": np.array(True)}
    f, params = interop.onnx.load(model_of([node], {"x": np.ones(2)}, ["y"], arrays))
    with pytest.raises(errors.ProgramError, match="Dropout: training_mode is true"):
        f(params, np.ones(2))


def test_what_is_no_model_is_refused(tmp_path: Any) -> None:
    (tmp_path / "no.onnx").write_bytes(b"no model")
    with pytest.raises(errors.MissingFileError, match=r"the file .*missing\.onnx does not exist"):
        interop.onnx.load(tmp_path / "missing.onnx")
    with pytest.raises(errors.ArgumentError, match=r"no\.onnx is not an ONNX model"):
        interop.onnx.load(tmp_path / "no.onnx")
    with pytest.raises(errors.ArgumentError, match="the bytes are not an ONNX model"):
        interop.onnx.load(b"no model")
    with pytest.raises(errors.ArgumentError, match=r"expected a path.*got int"):
        interop.onnx.load(3)


def test_wrong_calls_are_refused() -> None:
    model, feed = net()
    f, params = interop.onnx.load(model)
    with pytest.raises(errors.ArgumentError, match="net takes 1 inputs, x, behind the parameters"):
        f(params)
    with pytest.raises(errors.ArgumentError, match="no value for the parameters b, k"):
        f({"w": params["w"]}, feed["x"])
    with pytest.raises(errors.ArgumentError, match="params is not a mapping"):
        f(feed["x"], feed["x"])


def test_dtypes_that_tensors_do_not_have_are_refused() -> None:
    node = onnx.helper.make_node("Identity", ["w"], ["y"])
    model = model_of([node], {}, ["y"], {})
    tensor = onnx.helper.make_tensor("w", onnx.TensorProto.BFLOAT16, [1], [1.0])
    model.graph.initializer.append(tensor)
    with pytest.raises(errors.ProgramError, match="the array w has the dtype BFLOAT16"):
        interop.onnx.load(model)


def test_activations_of_nets_agree() -> None:
    x = np.linspace(-4, 4, 9)
    for operator, function in {
        "Gelu": lambda x: nn.gelu(x, approximate=False),
        "Mish": nn.mish,
        "HardSwish": nn.hard_silu,
        "Softplus": nn.softplus,
    }.items():
        node = onnx.helper.make_node(operator, ["x"], ["y"])
        f, params = interop.onnx.load(model_of([node], {"x": x}, ["y"], {}, opset=20))
        assert difference(f(params, x), function(x)) <= 1


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [True, True, False]),
        ({"detect_negative": 0}, [True, False, False]),
        ({"detect_positive": 0}, [False, True, False]),
    ],
)
def test_infinities_of_either_sign_are_found(options: dict[str, int], expected: list[bool]) -> None:
    x = np.array([np.inf, -np.inf, 1.0], np.float32)
    node = onnx.helper.make_node("IsInf", ["x"], ["y"], **options)
    f, params = interop.onnx.load(model_of([node], {"x": x}, ["y"], {}, opset=20))
    assert np.asarray(f(params, x)).tolist() == expected

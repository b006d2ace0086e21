"""``Program.to_onnx``: programs as models, run by ONNX's reference evaluator and onnxruntime."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import errors, nn
from tests.interop.onnx_checks import checked, difference, feed_of, reference, runtime
from tests.interop.onnx_functions import FUNCTIONS, PARAMS, X, loss
from tests.together import together
from tests.tools.practice.all_tasks import TASKS
from tests.tools.practice.libraries import funcgrad
from tests.tools.practice.task import Task

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")


def operators(model: Any) -> list[str]:
    return [node.op_type for node in model.graph.node if node.op_type != "Constant"]


# ----------------------------------------------------------------------------------- programs


@together("name", FUNCTIONS)
@together("dtype", [np.float64, np.float32])
def test_a_model_has_the_values_of_its_program(name: str, dtype: Any) -> None:
    params, x = fg.tree.map(lambda a: a.astype(dtype), (PARAMS, X))
    if name == "while, gradient":  # the reference evaluator does not stack rows of loops
        staged = fg.program(FUNCTIONS[name])(params, x)
        model = staged.to_onnx()
        (out,) = runtime(model, feed_of(model, staged, (params, x)))
        assert difference(out, staged(params, x)) <= 1
        return
    checked(FUNCTIONS[name], params, x)


@together("dtype", [np.float16, np.int8, np.uint16, np.int32, np.uint64, np.bool_])
def test_models_of_other_dtypes(dtype: Any) -> None:
    x = np.array([[0, 1, 1], [1, 0, 1]], dtype)
    checked(lambda x: (fnp.sum(x, 0), fnp.max(x, 1), x[::-1, 1:], fnp.where(x > 0, x, x)), x)
    checked(lambda x: (fnp.cumsum(x, 1), fnp.argmax(x, 1), x == x.T[1, 0], fnp.sort(x)), x)


def test_shapes_without_elements_and_without_axes() -> None:
    checked(lambda x: (fnp.sum(x, 0), x.T, fnp.any(x), fnp.cumsum(x, 1)), np.zeros((0, 3)))
    checked(lambda x: (x * 2, -x, fnp.reshape(x, (1, 1))), np.float64(3.0))
    checked(lambda x: fg.grad(lambda x: x**3)(x), 2.0)


@pytest.mark.parametrize("groups", [1, 2])
def test_convolutions_and_their_gradients(groups: int) -> None:
    draws = np.random.default_rng(5)
    x = draws.standard_normal((2, 4, 7, 6)).astype(np.float32)
    kernel = draws.standard_normal((6, 4 // groups, 3, 2)).astype(np.float32)

    def squares(x: Any, kernel: Any) -> Any:
        out = nn.conv(x, kernel, stride=(2, 1), padding="SAME", groups=groups)
        return fnp.sum(nn.max_pool(out, 2) ** 2) + fnp.sum(nn.avg_pool(out, 3) ** 3)

    staged = fg.program(fg.value_and_grad(squares, argnums=(0, 1)))(x, kernel)
    model = staged.to_onnx()
    assert {"Conv", "ConvTranspose"} <= set(operators(model))
    expected = fg.tree.leaves(staged(x, kernel))
    outs = runtime(model, feed_of(model, staged, (x, kernel)))
    assert max([difference(a, b) for a, b in zip(outs, expected, strict=True)]) <= 3
    if groups == 1:  # the reference evaluator refuses transposed convolutions of groups
        outs = reference(model, feed_of(model, staged, (x, kernel)))
        assert max([difference(a, b) for a, b in zip(outs, expected, strict=True)]) <= 3


PRACTICE = {task.name: task for task in TASKS if not task.name.endswith("float32")}
RUNTIME_ALONE = frozenset({"pendulum, gradient"})
"""The reference evaluator concatenates the rows of loops, which are to be stacked."""


WITHOUT_MODEL = {
    "tomography": r"physics\.py:\d+.*complex128",
    "quantum circuit": "complex128",
    "mirror of films, complex": "complex128",
}


@pytest.mark.slow
@together("task", PRACTICE.values(), ids=PRACTICE)
def test_programs_of_practice(task: Task) -> None:
    args = task.arguments(small=True)
    staged = fg.program(task.function(funcgrad()))(*args)
    if task.name in WITHOUT_MODEL:
        with pytest.raises(errors.FuncgradError, match=WITHOUT_MODEL[task.name]):
            staged.to_onnx()
        return
    model = staged.to_onnx()
    onnx.checker.check_model(model, full_check=True)
    with np.errstate(all="ignore"):
        feed, expected = feed_of(model, staged, args), fg.tree.leaves(staged(*args))
    for run in (runtime,) if task.name in RUNTIME_ALONE else (reference, runtime):
        outs = run(model, feed)
        worst = max([difference(a, b) for a, b in zip(outs, expected, strict=True)])
        assert worst <= max(1.0, task.tolerance / 1e-12), run.__name__


# -------------------------------------------------------------------------- names, and options


def test_inputs_and_outputs_have_the_names_of_their_places() -> None:
    staged = fg.program(lambda params, x: {"y": x @ params["w"], "z": (x,)})(PARAMS, X)
    model = staged.to_onnx()
    assert [each.name for each in model.graph.input] == ["params['b']", "params['w']", "x"]
    assert [each.name for each in model.graph.output] == ["result['y']", "result['z'][0]"]
    assert {each.key: each.value for each in model.metadata_props} == {
        "funcgrad.fingerprint": staged.fingerprint()
    }
    assert re.match(r"test_onnx_export\.py:\d+", model.graph.node[0].doc_string)


def test_parameters_are_stored_as_initializers(tmp_path: Any) -> None:
    path = tmp_path / "net.onnx"
    staged = fg.program(loss)(PARAMS, X)
    model = staged.to_onnx(path, initializers={"params": PARAMS})
    assert [each.name for each in model.graph.input] == ["x"]
    assert {each.name for each in model.graph.initializer} == {"params['w']", "params['b']"}
    assert onnx.load(path) == model
    (out,) = runtime(model, {"x": X})
    assert difference(out, loss(PARAMS, X)) <= 1


def test_large_constants_are_initializers_and_small_ones_are_nodes() -> None:
    table = np.arange(100.0)
    model = checked(lambda i: fg.tensor(table)[i] * 2.0, np.array([3, 99]))
    assert [tuple(each.dims) for each in model.graph.initializer] == [(100,)]
    assert operators(model) == ["Gather", "Mul", "Identity"]


@pytest.mark.parametrize("opset", [18, 21, 23])
def test_versions_of_operators(opset: int) -> None:
    model = checked(FUNCTIONS["gradient"], PARAMS, X, opset=opset)
    assert [each.version for each in model.opset_import] == [opset]


def test_what_onnx_has_as_one_operator_is_one() -> None:
    def written(f: Any, *args: Any) -> list[str]:
        return operators(fg.program(f)(*args).to_onnx())[:-1]  # the last one names the output

    x = X.astype(np.float32)
    assert written(lambda x: x[:, ::-1], x) == ["Slice"]
    assert written(lambda x: x.T, x) == ["Transpose"]
    assert written(lambda x, y: x @ y.T, x, x) == ["Transpose", "MatMul"]
    assert written(lambda x: fnp.concatenate([x, x], 1), x) == ["Concat"]
    assert written(lambda x: fnp.pad(x, 1), x) == ["Pad"]
    assert written(lambda x: fnp.broadcast_to(x, (4, 2, 3)), x) == ["Expand"]
    assert written(lambda x: fnp.sum(x, 0, keepdims=True), x) == ["ReduceSum"]
    assert written(nn.relu, x) == ["Relu"]
    assert written(lambda x, i: x[:, i], x, np.array([1])) == ["Gather"]
    assert written(lambda x: fnp.einsum("ij,kj->jik", x, x), x) == ["Einsum"]


# ------------------------------------------------------------------------------------- refusals


def test_an_operation_without_operators_is_named_with_its_line() -> None:
    staged = fg.program(lambda x: fnp.linalg.svd(x)[1])(X)
    with pytest.raises(errors.ProgramError, match=r"svd.* at test_onnx_export\.py:\d+.*Compute it"):
        staged.to_onnx()


def test_complex_numbers_are_refused() -> None:
    with pytest.raises(errors.ProgramError, match="complex"):
        fg.program(lambda x: fnp.abs(fnp.fft.fft(x)))(X).to_onnx()
    with pytest.raises(errors.DtypeError, match="complex128"):
        fg.program(lambda x: x)(1j).to_onnx()


def test_a_program_that_looked_at_a_number_is_refused() -> None:
    staged = fg.program(lambda x: x if x > 0 else -x)(2.0)
    with pytest.raises(errors.ProgramError, match=r"holds only where bool.*fnp\.where"):
        staged.to_onnx()


def test_a_program_of_a_running_transformation_is_refused() -> None:
    def f(x: Any) -> Any:
        fg.program(lambda y: x * y)(2.0).to_onnx()
        return x

    with pytest.raises(errors.ProgramError, match="runs around"):
        fg.grad(f)(1.0)


def test_wrong_options_are_refused() -> None:
    staged = fg.program(loss)(PARAMS, X)
    with pytest.raises(errors.ArgumentError, match="opset must be from 18 to"):
        staged.to_onnx(opset=11)
    with pytest.raises(errors.FuncgradError, match="opset"):
        staged.to_onnx(opset="new")  # type: ignore[arg-type]
    with pytest.raises(errors.ArgumentError, match=r"q\['w'\].*Its inputs are params\['b'\]"):
        staged.to_onnx(initializers={"q": {"w": 1.0}})
    with pytest.raises(errors.ArgumentError, match=r"params\['b'\] is float64\[3\].*float64\[2\]"):
        staged.to_onnx(initializers={"params": {"b": np.ones(3)}})


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(errors.MissingPackageError, match=r"pip install onnx"):
        fg.program(loss)(PARAMS, X).to_onnx()
    with pytest.raises(errors.MissingPackageError, match=r"interop\.onnx\.load: onnx is not"):
        fg.interop.onnx.load("net.onnx")


def test_parts_of_orders_are_exported() -> None:
    x = np.random.default_rng(0).standard_normal((3, 100)).astype("f")
    for f in (
        lambda x: fnp.argsort(x, axis=1)[:, -5:],
        lambda x: fnp.argsort(x, axis=1, descending=True)[:, :5],
        lambda x: fnp.argsort(x, axis=1)[:, ::-1][:, :5],
    ):
        run, params = fg.interop.onnx.load(fg.program(f)(x).to_onnx())[:2]
        np.testing.assert_array_equal(fg.tree.leaves(run(params, x))[0], f(fg.tensor(x)))

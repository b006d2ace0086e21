"""Programs as files that need NumPy alone: the same bits, without funcgrad."""

from __future__ import annotations

import re
import subprocess
import sys
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import errors, nn
from funcgrad._core.trace import bind
from funcgrad._forms.carried import Carried, NotCarriedError
from funcgrad._forms.module_frame import STORED
from tests.conformance import every_primitive
from tests.together import together
from tests.tools.practice.all_tasks import TASKS
from tests.tools.practice.libraries import funcgrad

RUN_ALL = """
import runpy, sys

class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "funcgrad":
            raise AssertionError("funcgrad is imported")

sys.meta_path.insert(0, Refused())
for path in sys.argv[1:]:
    try:
        runpy.run_path(path, run_name="__main__")
    except SystemExit as end:
        if end.code:
            print("WRONG", path)
    except BaseException as error:
        print("WRONG", path, repr(error))
"""


def printed(*paths: Path) -> list[str]:
    """What the self-tests of files print, in a process that has no funcgrad."""
    command = [sys.executable, "-I", "-W", "ignore", "-c", RUN_ALL, *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    return done.stdout.splitlines()


def assert_same_bits(lines: list[str], count: int) -> None:
    assert lines.count("The self-test passed.") == count
    others = [line for line in lines if not re.search(r"to the last bit$|test passed\.$", line)]
    assert others == []


def loaded(path: Path) -> dict[str, Any]:
    module: dict[str, Any] = {"__name__": "builtins"}
    exec(path.read_text(), module)
    return module


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "module.py"


def written(path: Path, f: Callable[..., Any], *args: Any, **kwargs: Any) -> dict[str, Any]:
    fg.program(f)(*args, **kwargs).to_module(path, *args, **kwargs)
    return loaded(path)


@pytest.mark.slow
def test_programs_of_practice_have_the_bits_of_the_numpy_backend(tmp_path: Path) -> None:
    paths = []
    for number, task in enumerate(TASKS):
        args = task.arguments(small=True)
        paths.append(tmp_path / f"task{number}.py")
        fg.program(task.function(funcgrad()))(*args).to_module(paths[-1], *args)
    assert_same_bits(printed(*paths), len(TASKS))


@pytest.mark.slow
def test_every_operation_can_be_written(tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    paths: list[Path] = []
    refused: list[str] = []
    for primitive in every_primitive():
        for sample in list(primitive.samples())[:1]:

            def f(*xs: Any, primitive: Any = primitive, sample: Any = sample) -> Any:
                return bind(primitive, xs, dict(sample.params))

            args = [np.asarray(arg) for arg in sample.args]
            path = tmp_path / f"operation{len(paths)}.py"
            try:
                fg.program(f)(*args).to_module(path, *args)
            except errors.ProgramError:
                refused.append(primitive.name)
            else:
                paths.append(path)
    # The first two tell the code of their callers; the others call SciPy with classes of funcgrad.
    assert refused == ["check", "print", "sampled_product", "sparse_product", "sparse_solve"]
    assert len(paths) > 300
    assert_same_bits(printed(*paths), len(paths))


TABLE = np.asfortranarray(np.random.default_rng(0).normal(size=(5, 40)))


def recurrent(params: Any, x: Any) -> Any:
    def step(c: Any, row: Any) -> Any:
        return fnp.tanh(row @ params["w"] + c), fnp.sum(c)

    c, sums = fg.scan(step, params["b"], fnp.sin(x @ TABLE))
    c = fg.cond(fnp.sum(c) > 0, lambda c: c * 2, lambda c: c - 1, c)
    halved = fg.while_loop(lambda y: y > 0.1, lambda y: y / 2, fnp.max(fnp.abs(c)))
    return fnp.sum(c) * halved + fnp.sum(sums)


def test_loops_and_branches_are_pythons(path: Path) -> None:
    rng = np.random.default_rng(1)
    args = ({"w": rng.normal(size=(40, 3)), "b": rng.normal(size=3)}, rng.normal(size=(6, 5)))
    gradient = fg.value_and_grad(recurrent)
    module = written(path, gradient, *args)
    text = path.read_text()
    assert all(re.search(rf"^ +{word} ", text, re.M) for word in ("for", "while", "if"))
    assert "funcgrad" not in re.sub(r'^r""".*?"""', "", text, flags=re.S)
    assert_same_bits(printed(path), 1)
    for scale in (1.0, -0.5):
        inputs: Any = ({name: scale * leaf for name, leaf in args[0].items()}, args[1])
        expected = fg.jit(gradient, backend="numpy")(*inputs)
        fg.testing.assert_trees_close(module["recurrent"](*inputs), expected, rtol=0, atol=0)


class Pair(NamedTuple):
    left: Any
    right: Any


def test_trees_come_and_go(path: Path) -> None:
    layer = nn.Linear.init(fg.random.key(0), 3, 2)

    def moved(model: Any, pair: Any, *, bias: Any = None) -> Any:
        out = model(pair.left) + bias[0]["a"]
        return Pair(out, [pair.right, None]), {"model": fg.tree.map(lambda x: 2 * x, model)}

    args = (layer, Pair(np.ones((4, 3)), 2))
    module = written(path, moved, *args, bias=[{"a": np.float32(1.0)}])
    (out, (right, nothing)), models = module["moved"](*args, bias=[{"a": np.float32(1.0)}])
    assert (out.shape, right, type(right), nothing) == ((4, 2), 2, int, None)
    assert type(models["model"]).__name__ == "Linear"
    np.testing.assert_array_equal(models["model"].weight, 2 * np.asarray(layer.weight))
    again = module["moved"](models["model"], Pair(np.ones((4, 3)), 2), bias=[{"a": np.float32(0)}])
    np.testing.assert_array_equal(again[1]["model"].bias, 4 * np.asarray(layer.bias))


@fg.pytree
class Hidden:
    _scale: Any
    __shift: Any
    shown: Any


@fg.pytree
class One:
    one: Any


One.__name__ = "dict"


def test_fields_may_be_private_and_classes_called_as_pythons(path: Path) -> None:
    def f(hidden: Any, one: Any) -> Any:
        return Hidden(hidden._scale * one.one, hidden._Hidden__shift, {"shown": hidden.shown})

    args = Hidden(np.ones(3), 2.0, 3.0), One(4.0)
    module = written(path, f, *args)
    hidden: Any
    for hidden in (args[0], module["f"](*args)):
        hidden = Hidden(hidden._scale, hidden._Hidden__shift, 3.0)
        out = module["f"](hidden, args[1])
        assert (out._Hidden__shift, out.shown) == (2.0, {"shown": 3.0})
        np.testing.assert_array_equal(out._scale, hidden._scale * 4.0)
    assert_same_bits(printed(path), 1)


def test_results_are_new_and_arguments_untouched(path: Path) -> None:
    def f(x: Any) -> Any:
        double = 2 * x
        return x, x[1:], fnp.asarray(TABLE), fnp.asarray(np.eye(2)), double, double

    module = written(path, f, np.arange(3.0))
    x = np.arange(3.0)
    for out in module["f"](x):
        out[...] = 7.0
    assert x.tolist() == [0.0, 1.0, 2.0]
    outs = module["f"](x)
    outs[4][...] = 7.0
    assert (outs[2][1, 1], outs[3][0, 1], outs[5][1]) == (TABLE[1, 1], 0.0, 2.0)


CALLS: list[tuple[Callable[[Any], Any], type[Exception], str]] = [
    (lambda f: f({"a": np.ones(3)}, 1.0), ValueError, r"with the keys \['a', 'b'\]"),
    (lambda f: f({"a": np.ones(3), "b": 1}, 1.0, 2.0), TypeError, "takes 2 positional"),
    (lambda f: f({"a": np.ones(4), "b": (1.0, None)}, 1.0), ValueError, r"'a'\]: expected shape"),
    (lambda f: f({"a": np.ones(3, int), "b": (1.0, None)}, 1.0), TypeError, "dtype float64"),
    (lambda f: f({"a": np.ones(3), "b": (1.0, 2.0)}, 1.0), ValueError, r"\[1\]: expected None"),
    (lambda f: f({"a": np.ones(3), "b": [1.0, None]}, 1.0), ValueError, "expected a tuple of 2"),
    (lambda f: f({"a": np.ones(3), "b": (1.0, None)}, "1"), TypeError, "y: expected a Python"),
    (lambda f: f({"a": np.ones(3), "b": (1j, None)}, 1.0), TypeError, "expected dtype float32"),
]


@together(("call", "kind", "words"), CALLS)
def test_wrong_arguments_are_named(
    path: Path, call: Callable[[Any], Any], kind: type[Exception], words: str
) -> None:
    def f(p: Any, y: Any) -> Any:
        return p["a"] * p["b"][0] * y

    function = written(path, f, {"a": np.ones(3), "b": (np.float32(2.0), None)}, 3.0)["f"]
    assert function({"a": np.ones(3), "b": (2, None)}, 3).tolist() == [6.0] * 3
    with pytest.raises(kind, match=words):
        call(function)


def test_a_path_that_was_not_staged_is_refused(path: Path) -> None:
    module = written(path, lambda x: x * 2 if x > 0 else -x, 1.5)
    assert module["f"](2.5) == 5.0
    with pytest.raises(ValueError, match="the function would take another path"):
        module["f"](-1.0)


def test_a_wrong_result_fails_the_self_test(path: Path) -> None:
    fg.program(lambda x: fnp.cumsum(x) + 1.0)(np.ones(4)).to_module(path)
    text = path.read_text()
    assert "np.array(1.0" in text
    path.write_text(text.replace("np.array(1.0", "np.array(1.5", 1))
    command = [sys.executable, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, "result: WRONG\nThe self-test failed.\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", "example exp np self_test lambda _leaf len set dict type isinstance print".split()
)
def test_any_name_will_do(path: Path, name: str) -> None:
    def f(x: Any) -> Any:
        return fnp.exp(x) * fnp.asarray(TABLE)[0, 0]

    f.__name__ = name
    written(path, f, np.ones(2))
    assert_same_bits(printed(path), 1)


def test_dtypes(path: Path) -> None:
    def f(*xs: Any) -> Any:
        return [fnp.where(x != 0, x, x) for x in xs]

    codes = "?bhilBHILefdFD"
    args = [np.ones((2, 3), code) for code in codes] + [True, 2, 0.5, 1j, np.int8(3), np.ones(0)]
    written(path, f, *args)
    fg.program(f)(*args).to_module(path)
    assert_same_bits(printed(path), 1)


class Opaque:
    def __init__(self, x: Any) -> None:
        self.x = x

    def __tree_flatten__(self) -> Any:
        return (self.x,), None

    @classmethod
    def __tree_unflatten__(cls, aux: Any, children: Any) -> Any:
        return cls(*children)


REFUSED: list[tuple[Callable[[], fg.Program], str]] = [
    (
        lambda: fg.program(fg.extend.foreign(lambda x: x, result=lambda x: x))(np.ones(2)),
        r"no text holds the operation .* at .*test_python_module.py:\d+: it calls a Python f",
    ),
    (lambda: fg.program(lambda x: x if x > 2 else -x)(3.0), "cannot be run on the example"),
    (lambda: fg.program(lambda x: {(1, "a"): x, print: x})(3.0), "no text holds the key"),
    (lambda: fg.program(lambda x: Opaque(x))(3.0), "no text makes a Opaque of a tree"),
]


@pytest.mark.parametrize(("make", "words"), REFUSED)
def test_refusals(path: Path, make: Callable[[], fg.Program], words: str) -> None:
    with pytest.raises(errors.ProgramError, match=words):
        make().to_module(path)
    assert not path.exists()


def test_tracers_among_constants_are_refused(path: Path) -> None:
    def outer(x: Any) -> Any:
        fg.program(lambda y: y * x)(2.0).to_module(path)
        return x

    with pytest.raises(errors.ProgramError, match="belongs to a transformation that runs around"):
        fg.grad(outer)(1.0)


def test_names_that_mean_two_things_and_objects_without_text() -> None:
    def scaled(x: Any) -> Any:
        return factor * x + TABLE[0, 0] + offset(x)

    factor, offset = 3, np.sin
    carried = Carried({"np": np} | dict.fromkeys(["factor", "offset", "scaled"]))
    name = carried.expression(scaled)
    module: dict[str, Any] = {"np": np, "_b64decode": b64decode}
    exec("\n".join([*carried.imports, STORED, *carried.definitions]), module)
    assert module[name](2.0) == scaled(2.0)
    assert name == "scaled_2"
    with pytest.raises(NotCarriedError, match="an object of generator"):
        carried.expression(number for number in [1])


def test_lambdas_that_make_lambdas_are_carried_whole() -> None:
    lambdas: list[Callable[[float], Any]] = [
        lambda x: lambda: x,
        lambda x: lambda y=x: y,
        lambda x: lambda: (lambda: x)(),
    ]
    for make in lambdas:
        carried = Carried({})
        name, space = carried.expression(make), dict[str, Any]()
        exec("\n".join(carried.definitions), space)
        assert space[name](3.0)() == 3.0

"""Transformed functions as objects: pickled, copied, printed, and the same numbers after."""

from __future__ import annotations

import copy
import inspect
import pickle
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.debug import nans
from funcgrad.extend import foreign
from funcgrad.scipy import stats
from tests.together import together

X = fg.tensor([1.0, 2.0, 3.0])


def cubes(x: Any) -> Any:
    return (x**3).sum()


def with_aux(x: Any) -> Any:
    return (x**3).sum(), {"largest": x.max()}


def rows(x: Any) -> Any:
    return {"sines": fnp.sin(x), "products": x[:2] * x[1:]}


@fg.grad
def slope(x: Any) -> Any:
    return (x**3).sum()


@fg.checkpoint
def checkpointed(x: Any) -> Any:
    return x**3


@fg.custom_jvp
def doubled(x: Any) -> Any:
    return 2 * x


doubled.defjvp(lambda primals, tangents: (2 * primals[0], 2 * tangents[0]))


def sine(x: Any) -> Any:
    return np.sin(x)


sine = foreign(sine, lambda x: x, numerical=True)


def held(p: Any) -> Any:
    return (p["w"] ** 2).sum() * p["b"]


@fg.pytree
class Holder:
    weight: Any
    loss: Any = fg.static_field()


TRANSFORMATIONS: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "grad": fg.grad,
    "value_and_grad": fg.value_and_grad,
    "a tuple of arguments": lambda f: fg.grad(f, argnums=(0,)),
    "jacfwd": fg.jacfwd,
    "jacrev": fg.jacrev,
    "hessian": fg.hessian,
    "hvp": lambda f: partial(fg.hvp, f, (X,), (X,)),
    "vmap": lambda f: fg.vmap(f, 0),
    "jit": fg.jit,
    "checkpoint": fg.checkpoint,
    "program": fg.program,
    "nans": nans,
    "nans of jit": lambda f: nans(fg.jit(f)),
    "jit of grad": lambda f: fg.jit(fg.grad(f)),
    "grad of jit": lambda f: fg.grad(fg.jit(f)),
    "vmap of grad of grad": lambda f: fg.vmap(fg.grad(fg.grad(f))),
    "an object": lambda f: Holder(2.0, fg.grad(f)).loss,
    "custom_jvp": fg.custom_jvp,
    "custom_vjp": fg.custom_vjp,
}


def called(function: Callable[..., Any]) -> Any:
    return function() if isinstance(function, partial) else function(X)


def same(one: object, other: object) -> None:
    if isinstance(one, fg.Program):
        assert one == other
        return
    leaves, structure = fg.tree.flatten(one)
    assert structure == fg.tree.structure(other)
    for leaf, again in zip(leaves, fg.tree.leaves(other), strict=True):
        assert np.asarray(leaf).dtype == np.asarray(again).dtype
        np.testing.assert_array_equal(np.asarray(leaf), np.asarray(again))


@together("name", [*TRANSFORMATIONS])
def test_a_transformed_function_travels(name: str) -> None:
    if "custom" in name:
        copied = pickle.loads(pickle.dumps(TRANSFORMATIONS[name](cubes)))
        assert copied.__name__ == "cubes"
        return
    scale = 1.0
    local = lambda x: scale * (x**3).sum()  # noqa: E731 - which no module has
    for library, f in ((pickle, cubes), (cloudpickle, cubes), (cloudpickle, local)):
        made = TRANSFORMATIONS[name](f)
        result = called(made)
        same(called(library.loads(library.dumps(made))), result)
        same(called(copy.deepcopy({"f": made})["f"]), result)


def test_whatever_makes_a_function_of_a_function_makes_one_that_travels() -> None:
    travelled = []
    for name in fg.__all__:
        try:
            made = getattr(fg, name)(cubes)
        except Exception:  # it takes something else
            continue
        if callable(made):
            pickle.loads(pickle.dumps(made))
            travelled.append(name)
    assert {"grad", "vmap", "jit", "hessian", "custom_vjp", "checkpoint"} <= {*travelled}


def test_options_travel() -> None:
    gradient, aux = pickle.loads(pickle.dumps(fg.grad(with_aux, has_aux=True)))(X)
    assert (gradient.tolist(), aux["largest"].item()) == ([3.0, 12.0, 27.0], 3.0)
    columns = pickle.loads(pickle.dumps(fg.vmap(cubes, in_axes=1)))
    assert columns(fnp.ones((2, 3))).tolist() == [2.0, 2.0, 2.0]


@together("library", [pickle, cloudpickle])
def test_linear_functions_travel(library: Any) -> None:
    result, pullback = fg.vjp(rows, X)
    _, push = fg.linearize(rows, X)
    transposed = fg.linear_transpose(lambda x: 3.0 * x[::-1], X)
    for function, args in ((pullback, (result,)), (push, (X,)), (transposed, (X,))):
        again = library.loads(library.dumps(function))
        same(again(*args), function(*args))
        same(library.loads(library.dumps(again))(*args), function(*args))
        same(
            fg.vmap(again)(*[fg.tree.map(lambda x: fnp.stack([x, x]), arg) for arg in args]),
            fg.vmap(function)(*[fg.tree.map(lambda x: fnp.stack([x, x]), arg) for arg in args]),
        )
        with pytest.raises(fg.errors.TreeError, match=r"pullback|push|linear_transpose"):
            again({"other": X})


def test_a_pullback_that_travels_takes_no_tangents_of_integers() -> None:
    (_, _), pullback = fg.vjp(lambda x: (x.astype(np.float32) * 2, fnp.argmax(x)), X)
    again = pickle.loads(pickle.dumps(pullback))
    ct = np.ones(3, int), 7  # numbers of another dtype, and for the integer anything
    same(again(ct), pullback(ct))


def test_a_pullback_of_a_loop_a_choice_and_a_rule_travels() -> None:
    def f(x: Any) -> Any:
        carry, _ = fg.scan(lambda c, _: (doubled(fnp.sin(c)), None), x, None, length=3)
        return fg.cond(x[0] > 0, lambda: carry, lambda: -carry)

    for function in (f, fg.jit(f)):
        result, pullback = fg.vjp(function, X)
        same(pickle.loads(pickle.dumps(pullback))(result), pullback(result))


@together("function", [slope, checkpointed, doubled, sine])
def test_a_decorated_function_is_pickled_by_name(function: Any) -> None:
    assert pickle.loads(pickle.dumps(function)) is function
    assert copy.deepcopy(function) is copy.copy(function) is function
    made = pickle.loads(pickle.dumps(fg.vmap(function)))
    if function is not slope:
        same(made(X), fg.vmap(function)(X))


@together("library", [pickle, cloudpickle])
def test_objects_that_hold_functions_travel(library: Any) -> None:
    def sent(value: Any) -> Any:
        return library.loads(library.dumps(value))

    tree = {"w": fg.tensor([1.0, 2.0], "float32"), "b": 3.0}
    vector, unravel = fg.tree.ravel(tree)
    same(sent(unravel)(vector), unravel(vector))
    problem = fg.interop.flat(held, tree)
    same(sent(problem).grad([1.0, 2.0, 3.0]), problem.grad([1.0, 2.0, 3.0]))
    assert sent(problem).names == problem.names
    assert sent(stats.norm) is stats.norm
    for frozen in (stats.norm(1.0, 2.0), stats.beta(2.0, 3.0), stats.poisson(2.0)):
        same(sent(frozen).mean(), frozen.mean())
        same(sent(frozen).cdf(1.0), frozen.cdf(1.0))


def test_a_pullback_inside_of_a_transformation_says_why_it_stays() -> None:
    def f(x: Any) -> Any:
        _, pullback = fg.vjp(lambda y: x * y, X)
        return pickle.dumps(pullback)

    with pytest.raises(
        fg.errors.FuncgradError, match=r"pullback: .* belongs to a transformation that runs around"
    ):
        fg.grad(f)(X)


def test_it_is_a_function_to_python() -> None:
    class Model:
        @fg.grad
        def slope(self: Any, x: Any) -> Any:
            return self * x

        __mul__ = __rmul__ = lambda self, x: 3.0 * x

    gradient = fg.grad(with_aux, has_aux=True)
    assert inspect.signature(gradient) == inspect.signature(with_aux)
    assert gradient.__name__ == "with_aux"
    assert repr(gradient).startswith("grad(<function with_aux at ")
    assert repr(fg.vjp(cubes, X)[1]) == "<linear function pullback>"
    assert inspect.ismethod(Model().slope)


SCRIPT = """
import sys, cloudpickle, pickle, funcgrad as fg
@fg.jit
def cube(x): return x**3
@fg.grad
def slope(x): return cube(x)
@fg.custom_jvp
def twice(x): return 2 * x
twice.defjvp(lambda primals, tangents: (2 * primals[0], 2 * tangents[0]))
assert pickle.loads(pickle.dumps(slope)) is slope
cloudpickle.dump([cube, slope, twice, fg.vjp(cube, 2.0)[1]], open(sys.argv[1], "wb"))
"""


def test_decorated_functions_of_a_script_travel_to_processes_without_it(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", SCRIPT, str(tmp_path / "sent")], check=True)
    cube, slope, twice, pullback = pickle.loads((tmp_path / "sent").read_bytes())
    assert [float(f(2.0)) for f in (cube, slope, twice)] == [8.0, 12.0, 4.0]
    assert pullback(1.0)[0].item() == 12.0

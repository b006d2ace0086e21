# ruff: noqa: E731 - autograd's users write so
"""What users of HIPS autograd rely on beyond values of derivatives: types, warnings, refusals."""

from __future__ import annotations

import ast
import sys
from collections import namedtuple
from pathlib import Path
from typing import Any

import numpy as onp
import pytest

import funcgrad as fg
import funcgrad.compat.autograd as ag
import funcgrad.compat.autograd.numpy as np
from funcgrad.compat.autograd import builtins, extend, lazy_modules, test_util
from funcgrad.compat.autograd.misc import const_graph, flatten
from funcgrad.compat.autograd.misc.flatten import flatten_func
from funcgrad.compat.autograd.scipy import linalg, signal, special, stats
from funcgrad.errors import (
    ArgumentError,
    CheckError,
    DifferentiationError,
    ImmutableError,
    LeafError,
    ShapeError,
    TreeError,
    UnknownFunctionError,
)
from tests.compat.programs import library
from tests.scripts import printed

AT = library("funcgrad.compat.autograd")
core, tracer, util, wrap_util = map(AT, ("core", "tracer", "util", "wrap_util"))
ArrayBox, unbroadcast_f = AT("numpy.numpy_boxes").ArrayBox, AT("numpy.numpy_vjps").unbroadcast_f


def test_nothing_of_it_is_loaded_by_funcgrad_and_scipy_not_by_it() -> None:
    script = "import sys, {}; print([m for m in sys.modules if m.startswith({!r})])"
    assert printed(script.format("funcgrad", "funcgrad.compat")) == "[]\n"
    module = "funcgrad.compat.autograd.scipy, funcgrad.compat.autograd.numpy as np"
    assert printed(script.format(module, "scipy")) == "[]\n"


class TestModules:
    @pytest.mark.parametrize("path", sorted({*lazy_modules.WRITTEN, *lazy_modules.MIRRORS}))
    def test_a_module_has_the_names_of_its_row(self, path: str) -> None:
        if path.startswith("scipy"):
            pytest.importorskip("scipy")
        module = AT(path)
        assert sys.modules[module.__name__] is module
        names = [name for name in dir(module) if name[0] != "_"]
        assert names
        for name in names:
            assert getattr(module, name) is getattr(module, name)
        with pytest.raises(AttributeError):
            module.no_such_name  # noqa: B018

    def test_names_are_those_of_their_files(self) -> None:
        assert core.make_vjp is ag.differential_operators.pullback_of
        assert AT("misc.optimizers").adam.__name__ == "adam"
        assert AT("numpy").mean.__wrapped__ is onp.mean
        assert np.linalg.eigh.__module__ == "funcgrad.compat.autograd.numpy_functions"

    @pytest.mark.parametrize(
        "statement",
        [
            "import funcgrad.compat.autograd.numpy.random as m; m.seed",
            pytest.param(
                "import funcgrad.compat.autograd.scipy.stats.norm as m; m.logpdf",
                marks=pytest.mark.slow,
            ),
            "from funcgrad.compat.autograd.numpy import random as m; m.seed",
            "from funcgrad.compat.autograd.misc.flatten import flatten; flatten([])",
        ],
    )
    def test_statements_of_import_find_modules_without_files(self, statement: str) -> None:
        if "scipy" in statement:
            pytest.importorskip("scipy")
        assert printed(f"{statement}; print('found')") == "found\n"

    def test_other_modules_are_not_found(self) -> None:
        with pytest.raises(ModuleNotFoundError, match="numpy_wrapper"):
            AT("numpy.numpy_wrapper")

    def test_stubs_are_of_modules_and_their_names(self) -> None:
        folder = Path(ag.__file__).parent
        for stub in folder.rglob("*.pyi"):
            path = ".".join(stub.relative_to(folder).with_suffix("").parts)
            path = path.removesuffix(".__init__")
            assert path in {*lazy_modules.WRITTEN, *lazy_modules.MIRRORS}
            for node in ast.walk(ast.parse(stub.read_text("utf-8"))):
                names = [alias.name for alias in getattr(node, "names", ())]
                for name in (*names, getattr(node, "name", "*")):
                    assert name in ("*", "Any", "__getattr__") or hasattr(AT(path), name)


class TestValues:
    def test_results_are_arrays_that_may_be_written_to(self) -> None:
        gradient = ag.grad(lambda x: np.sum(x**2))(onp.ones(2))
        assert type(gradient) is onp.ndarray
        gradient *= 2.0
        gradient[0] = 7.0
        assert gradient.tolist() == [7.0, 4.0]
        assert type(ag.grad(lambda x: x**2)(3.0)) is onp.float64

    def test_what_is_not_traced_is_numpy_s(self) -> None:
        made = np.zeros(3)
        made[1] = 2.0
        assert type(made) is onp.ndarray
        assert np.sin is onp.sin
        assert np.float64 is onp.float64
        assert type(np.argmax([1.0, 3.0])) is onp.int64
        assert np.__version__ == onp.__version__
        assert np.random.RandomState(0).rand() == np.random.RandomState(0).random_sample()
        assert np.random.random(2).shape == (2,)

    def test_integers_from_traced_values_are_numbers(self) -> None:
        def f(x: Any) -> Any:
            assert type(np.argmax(x)) is onp.int64
            return x[np.argmax(x)]

        assert ag.grad(f)(onp.array([1.0, 3.0])).tolist() == [0.0, 1.0]

    def test_containers_have_containers_for_gradients(self) -> None:
        Point = namedtuple("Point", "x y")
        gradient = ag.grad(lambda p: p["a"][0].x * p["b"])({"a": [Point(2.0, 1.0)], "b": 3.0})
        assert gradient == {"a": [Point(3.0, 0.0)], "b": 2.0}

    @pytest.mark.parametrize("dtype", [onp.float16, onp.float32, onp.complex64])
    def test_dtypes_stay(self, dtype: Any) -> None:
        gradient = ag.grad(lambda x: np.sum(np.real(x) ** 2))(onp.ones(2, dtype))
        assert gradient.dtype == dtype

    def test_integer_arrays_are_differentiated_as_floats(self) -> None:
        assert ag.elementwise_grad(lambda x: x**2)(onp.array([1, 2])).tolist() == [2.0, 4.0]

    def test_one_number_of_any_shape_has_a_gradient(self) -> None:
        assert ag.grad(lambda x: np.reshape(x**2, (1, 1)))(3.0) == 6.0
        assert ag.value_and_grad(lambda x: x[:1])(onp.ones(2))[1].tolist() == [1.0, 0.0]

    def test_an_independent_result_is_told(self) -> None:
        with pytest.warns(UserWarning, match="seems independent of input"):
            assert ag.grad(lambda x: 1.0)(2.0) == 0.0
        with pytest.warns(UserWarning, match="not complex"):
            ag.holomorphic_grad(lambda x: x)(2.0)

    def test_defaults_have_gradients_by_name(self) -> None:
        f = lambda a, b=3.0, *rest, c=4.0: a * b * c + sum(rest)
        assert ag.multigrad_dict(f)(2.0) == {"a": 12.0, "b": 8.0, "rest": (), "c": 6.0}

    def test_it_composes_with_funcgrad(self) -> None:
        f = ag.grad(lambda x: np.sum(np.tanh(x) ** 2))
        x = onp.array([0.1, 0.2])
        assert fg.jit(f)(x).tolist() == pytest.approx(f(x).tolist(), rel=1e-14)
        rows = fg.vmap(f)(onp.stack([x, -x]))
        assert rows[1].tolist() == pytest.approx(f(-x).tolist(), rel=1e-14)


class TestTypes:
    def test_traced_values_are_what_they_stand_for(self) -> None:
        def f(x: Any) -> Any:
            assert ag.isinstance(x["a"], onp.ndarray)
            assert builtins.type(x["a"]) is onp.ndarray
            assert builtins.type(x["b"]) is float
            assert ag.isinstance(x["b"], (int, float))
            assert builtins.type(x["c"]) is onp.float32
            assert ag.isinstance(x, ag.dict)
            assert isinstance(x["a"], ArrayBox)
            assert tracer.isbox(x["a"])
            assert isinstance(x["a"], extend.Box)
            assert type(tracer.getval(x["a"])) is onp.ndarray
            return np.sum(x["a"]) * x["b"] * x["c"]

        gradient = ag.grad(f)({"a": onp.ones(2), "b": 2.0, "c": onp.float32(3.0)})
        assert gradient["b"] == 6.0
        assert not tracer.isbox(1.0)
        assert ag.isinstance([1.0], ag.list)
        assert ag.tuple([1]) == (1,)
        assert isinstance({}, builtins.DictBox)
        assert isinstance([], builtins.SequenceBox)

    def test_where_of_python_s_numbers(self) -> None:
        where = AT("numpy").where
        assert type(where(True, 1, 2)) is int
        assert where(condition=[True, False], x=onp.ones(2), y=0.0).tolist() == [1.0, 0.0]
        assert where([False, True])[0].tolist() == [1]
        with pytest.raises(ArgumentError, match="both x and y"):
            where(True, 1)


class TestPrimitives:
    def test_functions_of_numbers_have_every_derivative(self) -> None:
        @ag.primitive
        def f(x: Any) -> Any:
            return onp.array([float(number) ** 3 for number in x])

        extend.defvjp(f, lambda ans, x: lambda g: g * 3.0 * x**2)
        x = onp.array([1.0, 2.0])
        assert ag.jacobian(f)(x).tolist() == [[3.0, 0.0], [0.0, 12.0]]
        assert ag.hessian(lambda x: np.sum(f(x)))(x).tolist() == [[6.0, 0.0], [0.0, 12.0]]
        assert ag.make_jvp(f)(x)(onp.ones(2))[1].tolist() == [3.0, 12.0]
        test_util.check_grads(f, modes=["rev"])(x)

    def test_a_rule_may_need_numbers(self) -> None:
        f = ag.primitive(lambda x: x * 2.0)
        extend.defvjp(f, lambda ans, x: lambda g: onp.array([2.0 * float(number) for number in g]))
        assert ag.jacobian(f)(onp.ones(2)).tolist() == [[2.0, 0.0], [0.0, 2.0]]

    def test_containers_and_other_arguments(self) -> None:
        @ag.primitive
        def f(parts: Any, name: str, scale: float = 1.0) -> Any:
            return {"out": parts["a"] * parts["b"] * scale}

        extend.defvjp(
            f,
            lambda ans, parts, name, scale=1.0: (
                lambda g: {"a": g["out"] * parts["b"] * scale, "b": g["out"] * parts["a"] * scale}
            ),
        )
        gradient = ag.grad(lambda p: f(p, "text", scale=2.0)["out"])({"a": 2.0, "b": 3.0})
        assert gradient == {"a": 6.0, "b": 4.0}

    def test_methods(self) -> None:
        class Model:
            scale = 3.0

            @ag.primitive
            def f(self, x: Any) -> Any:
                return self.scale * x

        extend.defvjp(Model.f, None, lambda ans, model, x: lambda g: g * model.scale)
        assert ag.grad(Model().f)(2.0) == 3.0

    def test_complex_rules_are_in_autograd_s_convention(self) -> None:
        f = ag.primitive(lambda z: onp.exp(z))
        extend.defvjp(f, lambda ans, z: lambda g: g * ans)
        z = 0.3 + 0.4j
        assert ag.holomorphic_grad(f)(z) == pytest.approx(onp.exp(z))

    def test_rules_of_functions_that_broadcast(self) -> None:
        f = ag.primitive(lambda x, y: x * y)
        extend.defvjp(
            f,
            lambda ans, x, y: unbroadcast_f(x, lambda g: g * y),
            lambda ans, x, y: unbroadcast_f(y, lambda g: g * x),
        )
        x, y = onp.ones((2, 1)), onp.array([1.0, 2.0, 3.0])
        gradients = ag.grad(lambda x, y: np.sum(f(x, y)), (0, 1))(x, y)
        assert [gradient.tolist() for gradient in gradients] == [[[6.0], [6.0]], [2.0, 2.0, 2.0]]
        assert ag.grad(lambda x: np.sum(f(x, y)))(2.0) == 6.0

    def test_linear_functions_and_zeros(self) -> None:
        f = ag.primitive(lambda x, n: x * n)
        extend.defjvp(f, "same", None)
        assert ag.deriv(f)(2.0, 3.0) == 3.0
        assert ag.deriv(f, 1)(2.0, 3.0) == 0.0
        g = ag.primitive(lambda x, y: x * y)
        extend.def_linear(g)
        assert ag.grad(g, (0, 1))(2.0, 3.0) == (3.0, 2.0)
        h = ag.primitive(lambda x, y: x + y)
        extend.defvjp_argnums(h, lambda argnums, ans, args, kwargs: lambda g: [g for _ in argnums])
        extend.defjvp_argnums(h, lambda argnums, gs, ans, args, kwargs: sum(gs))
        assert ag.grad(h, (0, 1))(2.0, 3.0) == (1.0, 1.0)
        assert ag.deriv(lambda x: h(x, x))(2.0) == 2.0

    def test_what_has_no_rule_is_named(self) -> None:
        f = ag.primitive(lambda x, y: x * y)
        with pytest.raises(NotImplementedError, match="has no rule: give it one with defvjp"):
            ag.grad(f)(1.0, 2.0)
        extend.defvjp(f, lambda ans, x, y: lambda g: g * y, argnums=[0])
        assert ag.grad(f)(1.0, 2.0) == 2.0
        with pytest.raises(NotImplementedError, match="VJP with respect to argument 1 is not"):
            ag.grad(f, 1)(1.0, 2.0)
        with pytest.raises(ArgumentError, match="expected a primitive, got 'sin'"):
            extend.defvjp(onp.sin, lambda ans, x: lambda g: g)  # type: ignore[arg-type]
        with pytest.raises(ArgumentError, match="has to be a function or None"):
            extend.defvjp(f, "same")  # type: ignore[arg-type]
        with pytest.raises(DifferentiationError, match="came by keyword"):
            ag.grad(lambda y: f(1.0, y=y))(2.0)


class TestRefusals:
    def test_in_place(self) -> None:
        def f(x: Any) -> Any:
            x[0] = 1.0
            return np.sum(x)

        with pytest.raises(ImmutableError, match=r"t\.at\[i\]\.set"):
            ag.grad(f)(onp.ones(2))

    def test_results_that_have_no_gradient(self) -> None:
        for f in (lambda x: x * onp.ones(2), lambda x: (x, x), lambda x: x * 1j):
            with pytest.raises(DifferentiationError, match="grad: the function returned"):
                ag.grad(f)(2.0)
        with (
            pytest.warns(UserWarning, match="independent"),
            pytest.raises(DifferentiationError, match="returned bool"),
        ):
            ag.grad(lambda x: x > 1.0)(2.0)
        with pytest.raises(DifferentiationError, match="jacobian: the function returned a contain"):
            ag.jacobian(lambda x: (x, x))(2.0)
        with pytest.raises(DifferentiationError, match="no parameter c; it has a, b"):
            ag.grad_named(lambda a, b: a, "c")

    def test_argnum(self) -> None:
        with pytest.raises(DifferentiationError, match=r"call it: grad\(fun\)\(x\)"):
            ag.grad(lambda x: x, 2.0)
        with pytest.raises(DifferentiationError, match="argnum=2 is out of range"):
            ag.grad(lambda x: x, 2)(1.0)
        assert ag.grad(lambda x, y: x * y, -1)(2.0, 3.0) == 2.0

    def test_names_that_nothing_has(self) -> None:
        for module in (np, np.linalg, np.random, special, stats):
            with pytest.raises(AttributeError):
                module.nonsense  # noqa: B018

    def test_functions_without_derivatives(self) -> None:
        with pytest.raises(UnknownFunctionError, match=r"give it a rule: f = primitive"):
            ag.grad(lambda x: np.sum(linalg.bandwidth(x)))(onp.eye(2))
        density = stats.multivariate_normal.logpdf
        with pytest.raises(ArgumentError, match="allow_singular is not available"):
            ag.grad(lambda x: density(x, np.zeros(2), np.eye(2), allow_singular=True))(onp.ones(2))

    def test_convolve(self) -> None:
        assert signal.convolve(np.arange(3.0), np.ones(2), mode="same").tolist() == [0.0, 1.0, 3.0]
        with pytest.raises(ArgumentError, match="full, valid or same"):
            signal.convolve(np.ones(2), np.ones(2), mode="all")
        with pytest.raises(ShapeError, match="at least as long"):
            signal.convolve(np.ones((2, 3)), np.ones((3, 2)), mode="valid")

    def test_joining(self) -> None:
        with pytest.raises(ArgumentError, match="a text in the brackets"):
            ag.grad(lambda x: np.sum(np.r_["-1", x]))(onp.ones(2))
        with pytest.raises(ArgumentError, match="offset=0, axis1=-1, axis2=-2"):
            np.make_diagonal(onp.ones(2), offset=1)
        vectors = onp.arange(6.0).reshape(2, 3)
        assert np.make_diagonal(vectors).tolist() == [onp.diag(v).tolist() for v in vectors]

    def test_flatten(self) -> None:
        with pytest.raises(TreeError, match="got a str"):
            flatten({"a": "text"})
        with pytest.raises(ShapeError, match=r"expected shape \(2,\)"):
            flatten(onp.ones(2))[1](onp.ones(3))


class TestTools:
    def test_checks_notice(self) -> None:
        f = ag.primitive(lambda x: x**2)
        extend.defvjp(f, lambda ans, x: lambda g: g * 2.001 * x)
        with pytest.raises(CheckError, match="reverse mode is wrong"):
            test_util.check_grads(f, modes=["rev"])(1.0)
        test_util.combo_check(np.multiply, [0, 1])([1.0, 2.0], [3.0])
        with pytest.raises(AssertionError, match="spaces differ"):
            test_util.check_equivalent(1.0, onp.ones(2))
        with pytest.raises(AssertionError, match="values differ"):
            test_util.check_equivalent(1.0, 1.1)
        assert not test_util.scalar_close(1.0, 1.1)

    def test_spaces(self) -> None:
        space = extend.vspace({"a": onp.ones(2), "z": 1.0 + 1.0j})
        assert space == core.vspace(space.randn())
        assert space != core.vspace(1.0)
        assert space.size == len(list(space.standard_basis())) == 4
        assert space.iscomplex
        assert space.inner_prod(space.ones(), space.ones()) == 4.0
        assert space.add(space.zeros(), space.ones())["z"] == 1.0 + 1.0j
        assert space.covector(space.scalar_mul(space.ones(), 2.0))["z"] == 2.0 - 2.0j
        assert core.vspace(onp.ones((2, 3))).shape == (2, 3)
        assert not core.vspace(1.0).iscomplex
        with pytest.raises(LeafError, match="a str is in no vector space"):
            core.vspace("text")

    def test_small_tools(self) -> None:
        assert util.subval((1, 2), 0, 5) == (5, 2)
        assert wrap_util.unary_to_nary(lambda f, x: f(x))(lambda x, y: x - y, 1)(5.0, 3.0) == 2.0
        assert core.make_vjp(lambda x: x**2, 3.0)[0](1.0) == 6.0
        flat, unflatten, vector = flatten_func(lambda t: [t[1], t[0]], (1.0, onp.ones(2)))
        assert flat(vector).tolist() == [1.0, 1.0, 1.0]
        assert unflatten(vector)[0] == 1.0
        assert const_graph(lambda a, x: a * x, 2.0)(3.0) == 6.0
        assert extend.notrace_primitive(lambda x: x)(2.0) == 2.0

    def test_distributions_and_functions_of_scipy(self) -> None:
        pytest.importorskip("scipy")
        assert stats.norm.cdf(0.0) == 0.5
        assert ag.grad(stats.expon.logpdf)(1.0) == -1.0
        assert ag.grad(lambda s: stats.expon(0.0, s).logpdf(1.0))(2.0) == -0.25
        assert special.gammaln(3.0) == pytest.approx(onp.log(2.0))

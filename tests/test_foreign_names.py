"""Names of other libraries raise errors that say what to write here, and the answers are right.

The rows of answers are discovered: each is looked up, and all names in it have to exist.
"""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._hints.other_libraries import CALLERS, NAMES
from funcgrad._hints.other_options import MISSING, OPTIONS
from funcgrad.errors import (
    DtypeError,
    FuncgradError,
    MissingAttributeError,
    MissingOptionError,
    TracerError,
)
from tests.scripts import printed
from tests.together import together

UNCHECKED: Any = fg  # what type checkers would refuse
nn, optim, random = UNCHECKED.nn, UNCHECKED.optim, UNCHECKED.random
MODULES: tuple[Any, ...] = (fg, nn, optim, random, fnp)
PARAMS = {"w": np.ones(2)}


def resolved(path: str) -> Any:
    """The object that users mean by text such as ``fg.nn.relu``."""
    root, *names = path.split(".")
    value: Any = {"fg": fg, "fnp": fnp}[root]
    for name in names:
        value = getattr(value, name)
    return value


def pairs(rows: Any) -> list[tuple[str, str, str]]:
    """Rows with one place and one name each."""
    return [
        (place, name, advice)
        for places, names, advice in rows
        for place in places.split()
        for name in names.split()
    ]


SOLVERS = (fg.optimize, fg.integrate, UNCHECKED.scipy.linalg, UNCHECKED.scipy.sparse.linalg)
PUBLIC = [(module, frozenset(dir(module))) for module in (*MODULES, fnp.fft, *SOLVERS)]


def functions(name: str) -> Iterator[Callable[..., Any]]:
    """The public functions of a name that have an answer."""
    for module, names in PUBLIC:
        if name in names and callable(value := getattr(module, name)):
            yield value
    if name == "norm":
        yield fnp.linalg.norm
    if name == "step":
        yield optim.adam(0.1).step
    if name == "update":
        yield optim.adam(0.1).update
        yield optim.adamw(0.1).update
        yield optim.sgd(0.1).update


# ------------------------------------------------------------------------------------------- names


PLACES = sorted({place for place, _, _ in pairs(NAMES)} - {"Distributions"})


@together("place", PLACES)
def test_names_of_other_libraries_say_what_to_write(place: str) -> None:
    module = resolved(place)
    for name, advice in [(name, advice) for home, name, advice in pairs(NAMES) if home == place]:
        assert name not in module.__all__, (
            "it is here: take its row out of funcgrad/_hints/other_libraries.py"
        )
        with pytest.raises(MissingAttributeError) as caught:
            getattr(module, name)
        assert isinstance(caught.value, AttributeError)
        assert str(caught.value) == f"{place} has no {name}: {advice.replace('{name}', name)}."
        assert not hasattr(module, name)


@pytest.mark.parametrize("name", ["norm", "gamma", "poisson", "multivariate_normal", "dirichlet"])
def test_distributions_say_what_they_lack(name: str) -> None:
    distribution: Any = getattr(fg.scipy.stats, name)
    for absent, advice in [(row[1], row[2]) for row in pairs(NAMES) if row[0] == "Distributions"]:
        with pytest.raises(MissingAttributeError) as caught:
            getattr(distribution, absent)
        assert str(caught.value) == f"Distributions have no {absent}: {advice}."
    with pytest.raises(AttributeError, match="object has no attribute 'nothing'"):
        _ = distribution.nothing
    assert copy.deepcopy(distribution) == distribution


def test_there_are_answers_for_every_place_that_users_look_in() -> None:
    assert {"fg", "fnp", "fg.nn", "fg.optim", "fg.random", "fg.tree", "fg.scipy"} <= set(PLACES)
    assert len(pairs(NAMES)) > 250
    assert len(pairs(OPTIONS)) > 120


def test_what_answers_name_is_there() -> None:
    written = [advice.replace("{name}", name) for _, name, advice in pairs(NAMES)]
    written += [advice for _, _, advice in OPTIONS + CALLERS]
    paths = {path for each in written for path in re.findall(r"\b(?:fg|fnp)(?:\.\w+)+", each)}
    assert len(paths) > 80
    for path in paths:
        assert resolved(path) is not None


@together(
    ("place", "name", "words"),
    [
        ("fg", "sin", "it is fnp.sin"),
        ("fg", "zeros", "it is fnp.zeros"),
        ("fg", "relu", "it is fg.nn.relu"),
        ("fg", "adam", "it is fg.optim.adam"),
        ("fg", "split", "it is fnp.split"),
        ("fg.scipy", "erf", "it is fg.scipy.special.erf"),
        ("fg.scipy.special", "ellipj", "if scipy.special has it, call it on concrete tensors"),
        ("fg.scipy.stats", "ks_2samp", "if scipy.stats has it, call it on concrete tensors"),
        ("fnp.linalg", "nothing_of_this_name", None),
        ("fg.scipy.stats", "nothing_of_this_name", None),
        ("fnp", "nothing_of_this_name", None),
        ("fg", "gard", None),
        ("fg.nn", "__path_of_nothing__", None),
    ],
)
def test_what_has_no_row(place: str, name: str, words: str | None) -> None:
    pytest.importorskip("scipy.stats")  # loaded: a name that SciPy lacks gets no advice about SciPy
    with pytest.raises(AttributeError) as caught:
        getattr(resolved(place), name)
    assert (caught.value.name, caught.value.obj) == (name, None)  # so that Python proposes nothing
    assert (words is None) == (not isinstance(caught.value, MissingAttributeError))
    assert words is None or words in str(caught.value)


@together(
    ("place", "name", "meant"),
    [
        ("fg", "vmpa", "vmap"),
        ("fg", "gard", "grad"),
        ("fg.optim", "adma", "adam"),
        ("fg.nn", "Liner", "Linear"),
        ("fg.random", "nromal", "normal"),
        ("fnp", "arrange", "arange"),
        ("fnp.linalg", "slove", "solve"),
        ("fg.scipy.special", "efrinv", "erfinv"),
        ("fg.scipy.stats", "nomr", "norm"),
        ("fg.optim.schedules", "cosin", "cosine"),
    ],
)
def test_misspelled_names(place: str, name: str, meant: str) -> None:
    with pytest.raises(AttributeError, match=f"has no .*{name}.*id you mean '{meant}'"):
        getattr(resolved(place), name)


def test_answers_are_loaded_with_the_first_mistake() -> None:
    code = (
        "import sys, funcgrad as fg; fg.optim.adam(0.1); fg.random.key(0);"
        "print(*[f'funcgrad._hints.other_{x}' in sys.modules for x in ('libraries', 'options')])"
    )
    assert printed(code).split() == ["False", "False"]


# ----------------------------------------------------------------------------------------- options


OPTIONED = sorted({function for function, _, _ in pairs(OPTIONS)})


@together("function", OPTIONED)
def test_options_of_other_libraries_say_what_to_write(function: str) -> None:
    rows = [(option, advice) for name, option, advice in pairs(OPTIONS) if name == function]
    named: list[Any] = list(functions(function))
    calls = [f.__call__ if hasattr(f, "train") else f for f in named]  # of layers
    answering = [(f, *row) for f in calls for row in rows]
    assert answering
    for f, option, advice in answering:
        parameters = {
            name
            for name, each in inspect.signature(f).parameters.items()
            if each.kind is not each.VAR_POSITIONAL
        }
        assert option not in parameters, "it is here: take its row out of _hints/options.py"
        if advice.split("=")[0].isidentifier() and "=" in advice:
            assert advice.split("=")[0] in parameters
        args = (1.0,) if function == "tensor" else ()
        with pytest.raises(MissingOptionError) as caught:
            f(*args, **{option: 1})
        assert isinstance(caught.value, TypeError)
        assert str(caught.value) == f"{function} has no option {option}: {advice}."


@together(("function", "argument", "advice"), pairs(MISSING))
def test_an_argument_that_is_missing_says_what_to_write(
    function: str, argument: str, advice: str
) -> None:
    calls = [(f, list(inspect.signature(f).parameters)) for f in functions(function)]
    calls = [(f, names) for f, names in calls if argument in names]  # fnp.split takes no key
    assert calls
    for f, names in calls:
        with pytest.raises(MissingOptionError) as caught:
            f(*[1.0] * names.index(argument))
        words = f"the argument {argument} is missing: {advice.replace('{function}', function)}."
        assert str(caught.value).endswith(words)


def test_optimizers_name_themselves() -> None:
    for name in ("adam", "adamw", "sgd"):
        optimizer: Any = getattr(optim, name)(0.1)
        with pytest.raises(MissingOptionError, match=rf"^{name}\.update: the argument params is"):
            optimizer.update(PARAMS, optimizer.init(PARAMS))


def test_decorators_with_options() -> None:
    with pytest.raises(MissingOptionError, match=r"@functools\.partial\(fg\.hessian, option="):
        UNCHECKED.hessian(argnums=1)
    with pytest.raises(MissingOptionError, match=r"jit has no option static_argnum: static_argnu"):
        UNCHECKED.jit(static_argnum=1)
    with pytest.raises(MissingOptionError, match=r"jit has no option static_argnum: static_argnu"):
        UNCHECKED.jit(static_argnums=1)(abs, static_argnum=1)

    @fg.jit(static_argnums=1)
    def power(x: Any, n: int) -> Any:
        return x**n

    @fg.vmap(in_axes=(None, 0))
    @fg.grad(argnums=1)
    def slopes(x: Any, y: Any) -> Any:
        return x * y**2

    @fg.checkpoint(save=("h",))
    def cosine(x: Any) -> Any:
        return fnp.cos(fg.probe(x * x, "h"))

    @fg.custom_vjp(nondiff_argnums=(1,), forward="through")
    def clipped(x: Any, limit: float) -> Any:
        return 2 * x

    clipped.defvjp(lambda x, limit: (2 * x, None), lambda limit, _, ct: (ct.clip(-limit, limit),))

    @fg.custom_jvp(nondiff_argnums=(0,))
    def applied(f: Any, x: Any) -> Any:
        return f(x)

    applied.defjvp(lambda f, primals, tangents: (f(*primals), 7.0 * tangents[0]))
    assert power(3.0, 2) == 9.0
    assert slopes(3.0, np.array([1.0, 2.0])).tolist() == [6.0, 12.0]
    assert fg.grad(cosine)(0.0) == 0.0
    assert fg.grad(clipped)(3.0, 0.5) == 0.5
    assert fg.grad(applied, argnums=1)(fnp.sin, 1.0) == 7.0
    assert slopes.__name__ == "slopes"
    assert isinstance(fg.jit()(abs), type(fg.jit(abs)))


@together(
    ("call", "words"),
    [
        (lambda: optim.adam(learning_rat=0.1), "no option learning_rat: learning_rate= is one"),
        (lambda: UNCHECKED.vmap(abs, in_axis=0), "no option in_axis: in_axes= is one"),
        (
            lambda: UNCHECKED.grad(abs, xyz=0),
            "grad has no option xyz: the arguments are f, argnums, has_aux",
        ),
        (
            lambda: UNCHECKED.cond(True),
            "cond: missing 2 required positional arguments: 'true_fun' and",
        ),
        (lambda: UNCHECKED.numpy.sum([1.0], dim=0), "sum has no option dim: axis= is one"),
        (lambda: UNCHECKED.tensor([1.0]).sum(dim=0), "sum has no option dim: axis= is one"),
        (lambda: UNCHECKED.tensor([1.0]).mean(keepdim=True), "option keepdim: keepdims= is one"),
        (lambda: UNCHECKED.numpy.transpose([1.0], axis=0), "no option axis: axes= is one"),
        (lambda: nn.Linear.init(3, 4), "a key: Linear.init(fg.random.key(seed), 3, 4)"),
        (lambda: nn.MLP.init(sizes=(3, 4)), "MLP.init(fg.random.key(seed), sizes=(3, 4))"),
        (lambda: nn.GRUCell.init(3, 4), "GRUCell.init: the first argument is a key"),
        (lambda: nn.Linear.init(random.key(0), 3), "Linear.init: missing 1 required positional ar"),
        (lambda: UNCHECKED.odeint(abs, 1.0), "'ts'; the arguments are func, y0, ts, args, rtol"),
        (lambda: optim.sgd(0.1, learning_rate=0.1), "multiple values for argument 'learning_r"),
        (
            lambda: UNCHECKED.parallel.map(abs, [1.0], executor=["xla"]),
            "the data follow in a second call: parallel.map(..., executor)(...)",
        ),
        (lambda: nn.softmax(np.ones(2), 0, 1), "softmax: takes from 1 to 2 positional arguments"),
        (lambda: UNCHECKED.jacfwd(), "jacfwd: the argument f is missing: a decorator with"),
        (lambda: random.randint(random.key(0), (3,), 5), "the arguments are key, shape, minval"),
    ],
)
def test_other_calls_that_do_not_fit(call: Any, words: str) -> None:
    with pytest.raises(MissingOptionError) as caught:
        call()
    assert words in str(caught.value)


def raises_a_type_error(*_: Any) -> Any:
    raise TypeError("mine")


def of_two(x: Any, y: Any) -> Any:
    return x + y


@together(
    "call",
    [
        lambda f: fg.grad(f)(1.0),
        lambda f: fg.vjp(f, 1.0),
        lambda f: fg.jvp(f, (1.0,), (1.0,)),
        lambda f: fg.cond(True, f, f, 1.0),
        lambda f: fg.scan(lambda carry, x: (f(x), None), 0.0, np.ones(3)),
        lambda f: fg.vmap(f)(np.ones(3)),
        lambda f: optim.adam(f).update(PARAMS, optim.adam(0.1).init(PARAMS), PARAMS),
    ],
)
def test_errors_of_the_users_functions_are_the_users(call: Any) -> None:
    with pytest.raises(TypeError, match=r"^mine$") as caught:
        call(raises_a_type_error)
    assert not isinstance(caught.value, FuncgradError)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'y'") as caught:
        call(of_two)
    assert not isinstance(caught.value, FuncgradError)


@together("name", sorted({function for function, _, _ in pairs(OPTIONS + MISSING)}))
def test_functions_that_answer_keep_their_help(name: str) -> None:
    for f in functions(name):
        declared = inspect.signature(f).parameters.values()
        variable = {
            each.name for each in declared if each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
        }
        assert not variable & {"args", "kwargs"} or name == "odeint"
        assert name == "update" or (f.__name__ == name and f.__doc__)


# -------------------------------------------------------------------------- keys of random numbers


@pytest.mark.parametrize(
    "call",
    [
        lambda: random.normal(0, 1, (3,)),
        lambda: random.normal((3,)),
        lambda: random.uniform(0.0, 1.0, (3,)),
        lambda: random.normal(0, (3,)),
        lambda: random.exponential(1.0, (3,), "text"),
    ],
)
def test_arguments_in_numpys_order_speak_of_the_key(call: Any) -> None:
    words = r"the key, the first argument, has to be .* Make a key with fg\.random\.key\(seed\)"
    with pytest.raises(DtypeError, match=words):
        call()


def test_a_wrong_dtype_beside_a_key_is_the_dtypes_mistake() -> None:
    with pytest.raises(DtypeError, match="is not a dtype"):
        random.normal(random.key(0), (3,), "text")


# --------------------------------------------------------------------- functions of other libraries


def call_of(module: str, name: str, *args: Any, **kwargs: Any) -> Any:
    """A function of a library that may not be installed."""
    return getattr(pytest.importorskip(module), name)(*args, **kwargs)


GRID = np.arange(5.0)
CALLS: dict[str, Any] = {
    "scipy.integrate.solve_ivp": lambda x: call_of(
        "scipy.integrate", "solve_ivp", lambda t, y: -y * x[0], (0.0, 1.0), [1.0]
    ).y[0, -1],
    "scipy.integrate.odeint": lambda x: call_of(
        "scipy.integrate", "odeint", lambda y, t: -y * x[0], 1.0, [0.0, 1.0]
    )[-1, 0],
    "scipy.integrate.quad": lambda x: call_of(
        "scipy.integrate", "quad", lambda t: t * x[0], 0.0, 1.0
    )[0],
    "scipy.integrate.simpson": lambda x: call_of("scipy.integrate", "simpson", x),
    "scipy.integrate.trapezoid": lambda x: call_of("scipy.integrate", "trapezoid", x),
    "scipy.interpolate": lambda x: call_of("scipy.interpolate", "CubicSpline", GRID, x)(1.5),
    "scipy.sparse": lambda x: call_of("scipy.sparse", "coo_array", (x, (np.arange(5),) * 2)).sum(),
    "pandas": lambda x: (call_of("pandas", "DataFrame", np.eye(5)) @ x).sum(),
    "numpy.polynomial": lambda x: np.polynomial.chebyshev.chebval(0.5, x),
    "scipy.signal": lambda x: call_of("scipy.signal", "lfilter", [1.0], [1.0, 0.5], x)[0],
    "scipy.spatial.cdist": lambda x: call_of(
        "scipy.spatial.distance", "cdist", x[:, None], x[:, None]
    ).sum(),
    "scipy.linalg": lambda x: call_of("scipy.linalg", "expm", x[:, None] * x)[0, 0],
    "scipy.special": lambda x: call_of("scipy.special", "logsumexp", x),
    "scipy.stats": lambda x: pytest.importorskip("scipy.stats").norm.logpdf(x).sum(),
}


def batched(f: Any) -> Any:
    return lambda x: fg.vmap(f)(x[None])


@together("name", CALLS)
@together("transform", [fg.grad, batched])
def test_functions_that_take_arrays_alone_say_what_to_write(name: str, transform: Any) -> None:
    home, _, function = name.rpartition(".")
    advice = next(
        text
        for package, names, text in CALLERS
        if (package, True) == (home, function in names.split()) or (package, names) == (name, "")
    )
    if name == "scipy.integrate.quad" and transform is batched:  # it asks for numbers
        np.testing.assert_allclose(transform(CALLS[name])(GRID + 1.0), [0.5])
        return
    with pytest.raises(TracerError) as caught:
        transform(CALLS[name])(GRID + 1.0)
    assert f"{name} accepts only arrays: {advice}." in str(caught.value)
    assert caught.value.line.startswith("test_foreign_names.py:")
    assert "np.r_[t, u]" not in str(caught.value)


def test_the_remedies_are_right() -> None:
    integrate = pytest.importorskip("scipy.integrate")
    sparse = pytest.importorskip("scipy.sparse")
    y = np.random.default_rng(0).standard_normal(7)
    simpson = 0.5 / 3 * fnp.sum(y[:-2:2] + 4 * y[1:-1:2] + y[2::2])
    np.testing.assert_allclose(simpson, integrate.simpson(y, dx=0.5))
    integral = fg.odeint(lambda y, t: fnp.sin(t), 0.0, (0.5, 2.0))[-1]
    np.testing.assert_allclose(integral, np.cos(0.5) - np.cos(2.0), rtol=1e-7)
    dense = np.where(np.random.default_rng(1).uniform(size=(4, 7)) < 0.4, 1.5, 0.0)
    A = sparse.coo_array(dense)

    def product(x: Any) -> Any:
        return fnp.zeros(A.shape[0]).at[A.row].add(A.data * x[A.col])

    np.testing.assert_allclose(product(y), dense @ y)
    np.testing.assert_allclose(fg.jacrev(product)(y), dense)
    np.testing.assert_allclose(fg.jit(fg.jacfwd(product))(y), dense)


EXAMPLE_LIBRARIES = {
    "fg.optim": """adagrad adam adamax clip_grads l2_norm make_schedule momentum nesterov optimizer
        pack_optimizer_state rmsprop rmsprop_momentum sgd sm3 unpack_optimizer_state constant
        exponential_decay inverse_time_decay piecewise_constant polynomial_decay JoinPoint
        OptimizerState""",
    "fg.nn": """Dense GeneralConv Conv Conv1DTranspose ConvTranspose GeneralConvTranspose BatchNorm
        elementwise Tanh Relu Exp LogSoftmax Softmax Softplus Sigmoid Elu LeakyRelu Selu Gelu
        MaxPool SumPool AvgPool Flatten Identity FanOut FanInSum FanInConcat Dropout serial parallel
        shape_dependent glorot randn logsoftmax relu sigmoid""",
}
"""The public names of JAX's ``example_libraries``: ``optimizers`` and ``stax``."""


@together("place", EXAMPLE_LIBRARIES)
def test_names_of_example_libraries_are_here_or_answered(place: str) -> None:
    for name in EXAMPLE_LIBRARIES[place].split():
        with suppress(MissingAttributeError):  # a plain AttributeError has no answer
            resolved(f"{place}.{name}")


def test_the_answer_about_perturbations_differentiates_steps() -> None:
    """The text computes optax's estimate: the mean of an argmax under noise, and its gradient."""
    s, sigma, x = fg.stop_gradient, 0.7, np.array([0.3, -0.2, 0.5])
    noise = np.asarray(fg.random.normal(fg.random.key(0), (40_000, 3)))

    def f(x: Any) -> Any:
        return (fnp.argmax(x) == fnp.arange(3)).astype(float)

    def smoothed(x: Any) -> Any:
        def one(z: Any) -> Any:
            return s(f(s(x) + sigma * z)) * (1 + fnp.sum(z * (x - s(x))) / sigma)

        return fnp.mean(fg.vmap(one)(noise), 0)

    def plain(x: Any) -> Any:
        return np.bincount(np.argmax(x + sigma * noise, 1), minlength=3) / len(noise)

    moves = [(plain(x + 0.1 * e) - plain(x - 0.1 * e)) / 0.2 for e in np.eye(3)]
    np.testing.assert_allclose(smoothed(x), plain(x), rtol=1e-12)
    np.testing.assert_allclose(fg.jacrev(smoothed)(x), np.stack(moves, 1), atol=0.02)

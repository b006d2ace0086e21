"""The NumPy backend gives a program's results to the last bit, and its source can be read."""

import ast
import sys
import traceback
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._backends.interface import Backend, Compiled, evaluated
from funcgrad._backends.numpy.backend import NUMPY, compile_program
from funcgrad._backends.numpy.writer import numpy_source
from funcgrad._core.primitive import Primitive
from funcgrad._core.trace import concrete
from funcgrad._forms.source_text import array_text, number_text
from funcgrad._primitives.elementwise import elementwise
from funcgrad._programs.algebra import body_of
from funcgrad._programs.equation import exact_key
from funcgrad._programs.program import Program
from funcgrad.errors import GuardError, ProgramError
from funcgrad.tensor.tensor import apply1
from tests.conformance import every_case, every_primitive, in_turn, representatives
from tests.subjects import function_of
from tests.together import together


def raw_inputs(program: Program, *args: Any) -> list[Any]:
    values = [concrete(arg) for arg in fg.tree.leaves((args, {}))]
    assert len(values) == len(program.inputs)
    return values


def same_bits(first: Any, second: Any) -> bool:
    return (
        type(first) is type(second)
        and np.asarray(first).dtype == np.asarray(second).dtype
        and np.shape(first) == np.shape(second)
        and np.asarray(first).tobytes() == np.asarray(second).tobytes()
    )


def assert_compiles(f: Callable[..., Any], *args: Any) -> str:
    """Check a function at some arguments, and return the source."""
    program = fg.program(f)(*args)
    values = raw_inputs(program, *args)
    with np.errstate(all="ignore"):
        expected = program.evaluate(values)
        source = numpy_source(program)
        alone = function_of(source)  # in a namespace of its own
        for found in (compile_program(program)(*values), alone(*values)):
            assert type(found) is tuple
            assert len(found) == len(expected)
            for own, other in zip(found, expected, strict=True):
                assert same_bits(own, other), (own, other)
    return source.text


# Every primitive.


@pytest.mark.slow
@together("primitive", every_primitive(), ids=str, pieces=2)
def test_every_primitive_is_the_same_to_the_last_bit(primitive: Primitive) -> None:
    with np.errstate(all="ignore"):
        for case in representatives(every_case([primitive])):
            assert_compiles(case.function(), *case.args)
            single = case.in_single_precision()
            assert_compiles(single.function(), *single.args)


def narrowed(x: Any, dtype: np.dtype[Any]) -> Any:
    """The numbers, rounded to a dtype; the first number becomes the least integer of the dtype."""
    array = np.asarray(x)
    if array.dtype != np.float64 or dtype.kind not in "iu":
        return array.astype(dtype)[()] if array.dtype == np.float64 else x
    limits = np.iinfo(dtype)
    array = np.clip(np.rint(np.nan_to_num(array)), limits.min, min(limits.max, 100)).astype(dtype)
    array.flat[:1] = limits.min
    return array[()]


@pytest.mark.slow
@together("primitive", [p for p in every_primitive() if p.source or body_of(p)], ids=str)
def test_sources_of_every_kind_have_the_same_bits(primitive: Primitive) -> None:
    """Truth values, half precision, and integers, of which the sizes take turns."""
    with np.errstate(all="ignore"):
        cases = enumerate(representatives(every_case([primitive])))
        for (number, case), kind in product(cases, ("?", "bBhl", "e")):
            (char,) = in_turn(kind, number + len(primitive.name), 1)
            args = [narrowed(arg, np.dtype(char)) for arg in case.args]
            try:
                case.function()(*args)
            except (TypeError, ValueError, KeyError):  # not defined for this dtype
                continue
            assert_compiles(case.function(), *args)


# Whole functions.


def normal(*shape: int) -> fg.Tensor:
    return fg.tensor(np.random.default_rng(0).standard_normal(shape))


def mlp(params: Any, x: Any) -> Any:
    hidden = fnp.maximum(x @ params["w"] + params["b"], 0)
    return fnp.mean(fg.nn.softmax(hidden @ params["v"], axis=-1) ** 2)


def rnn(w: Any, xs: Any) -> Any:
    h = fnp.zeros(4)
    for k in range(5):
        h = fnp.tanh(xs[k] + h @ w)
    return fnp.sum(h * h)


def bent(x: Any) -> Any:
    if x[0] > 0:
        return fnp.sum(fnp.where(x > 0.5, fnp.log(x), -x)[1:])
    return fnp.sum(x)


def chain(x: Any) -> Any:
    for _ in range(5):
        x = fnp.sin(x) * 2 + x / 3 - 0.5
    return x**3


FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "gradient of a network": (
        fg.value_and_grad(mlp),
        ({"w": normal(3, 4), "b": normal(4), "v": normal(4, 2)}, normal(6, 3)),
    ),
    "gradient of a loop": (fg.grad(rnn), (normal(4, 4), normal(5, 4))),
    "guard": (fg.value_and_grad(bent), (fnp.abs(normal(5)),)),
    "scalars": (fg.grad(chain), (0.7,)),
    "scalars in single precision": (fg.grad(chain), (np.float32(0.7),)),
    "zero dimensions": (fg.grad(chain), (np.array(0.7),)),
    "einsum": (
        fg.grad(lambda a, b: fnp.sum(fnp.einsum("ij,kj->ki", a, b) ** 2)),
        (normal(3, 4), normal(5, 4)),
    ),
    "batch": (fg.vmap(fg.grad(lambda x: fnp.sum(fnp.exp(x[::2]) * x[-1]))), (normal(4, 5),)),
    "hessian": (fg.hessian(lambda x: fnp.prod(x) + fnp.sum(x**4)), (normal(4),)),
    "complex": (lambda z: (fnp.abs(z), fnp.conj(z) * 2j, z.real + 1), (normal(3) * (1 + 2j),)),
    "whole numbers": (
        lambda n: (n // 3, n % 2 == 0, n * 2, -n),
        (np.arange(-3, 4, dtype=np.int8),),
    ),
    "whole numbers alone": (lambda n: (n + n, n * 2, n > 3), (np.int64(2**62),)),
    "weak numbers": (lambda x, y: (x + y, fnp.sin(x), x > y, fnp.ones(2, "f") * x), (2.0, 3)),
    "no elements": (
        lambda x: (fnp.sum(x, axis=0), fnp.concatenate([x, x]), x * 2),
        (np.zeros((0, 3), np.float32),),
    ),
    "signed zeros": (
        lambda x: (x * 0.0, -x, x * -0.0, fnp.minimum(x, 0.0)),
        (np.array([1.0, -1]),),
    ),
    "infinities": (lambda x: (x * np.inf, x - np.nan, x + -np.inf), (np.array([1.0, 0.0]),)),
    "too large for its dtype": (lambda x: x * 1e300, (np.ones(2, np.float32),)),
    "kept constants": (lambda x: x + np.arange(20.0)[::-1], (normal(20),)),
    "the argument itself": (lambda x: (x, x.T, 3.0, np.float32(2)), (normal(2, 3),)),
    "names that mean something": (
        lambda np, sin, a, add_reduce, constants, _2: (
            fnp.sum(fnp.sin(np) * 2 + sin) + a * add_reduce * constants * _2
        ),
        (normal(2), normal(2), 1.0, 2.0, 3.0, np.float64(2)),
    ),
}


@together("name", FUNCTIONS)
def test_functions_are_the_same_to_the_last_bit(name: str) -> None:
    f, args = FUNCTIONS[name]
    ast.parse(assert_compiles(f, *args))


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_a_single_complex_product_is_rounded_alike_wherever_it_is_put(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        x, y = rng.standard_normal((2, 1, 2)).view(np.complex128)[..., 0].astype(dtype)
        assert_compiles(lambda x, y: ((x + 1) * y, fnp.square(x - y), y * (x - 2)), x, y)


def test_calls_with_rules_of_their_own_run() -> None:
    @fg.custom_vjp
    def f(x: Any) -> Any:
        return x * 3

    f.defvjp(lambda x: (f(x), None), lambda _, ct: (ct * 5,))
    assert_compiles(lambda x: f(x) + f(2 * x), 2.0)
    assert_compiles(fg.grad(lambda x: f(x) * x), 2.0)


def test_large_intermediates_are_dropped() -> None:
    text = assert_compiles(lambda x: fnp.sum(fnp.sin(fnp.cos(x))), np.ones(10_000))
    assert "del a" in text


# What the text looks like.


def test_the_text_reads_as_a_person_would_write_it() -> None:
    text = fg.program(fg.grad(lambda x: fnp.sum(fnp.sin(x[1:]) * x[0])))(
        fg.tensor([1.0, 2.0])
    ).to_numpy_source()
    assert text.startswith("import numpy as np\nfrom numpy import ")
    assert "    a = x[1:]\n    b = sin(a)\n    c = x[0]\n    d = b * c\n" in text


def test_lines_of_the_user_can_be_shown() -> None:
    program = fg.program(lambda x: x + 1.0)(2.0)
    assert "test_backend.py:" in program.to_numpy_source(lines=True)
    assert "test_backend.py:" not in program.to_numpy_source()


@together(
    "value",
    [
        *(kind(x) for kind in (np.float16, np.float32, np.float64) for x in (0.1, -0.0, 1e-7)),
        *(np.float32(x) for x in (np.inf, -np.inf, np.nan, 1 / 3, 1e38, 1e-45)),
        np.int8(-3),
        np.uint64(2**64 - 1),
        np.bool_(True),
        np.complex64(complex(0.1, -0.0)),
        np.array(2.5),
        np.array([[1, 2], [3, 4]], np.int16),
        np.array([0.1, -0.0, np.inf], np.float32),
        np.zeros((0, 3)),
        np.full((20, 3), 0.1, np.float32),
        np.array([True, False]),
        np.array([complex(-0.0, np.nan), 1j]),
    ],
    ids=repr,
)
def test_literals_are_exact(value: Any) -> None:
    text = array_text(value)
    assert text is not None
    assert same_bits(eval(text, {"np": np}), value)


@together(
    "number",
    [0, -1, 2**70, True, 0.1, -0.0, 1e300, np.inf, -np.inf, np.nan, complex(-0.0, -np.inf)],
)
def test_numbers_are_exact(number: Any) -> None:
    found = eval(number_text(number), {"np": np})
    assert type(found) is type(number)
    assert exact_key(found) == exact_key(number)


# Guards and errors.


@together(
    ("f", "held", "missed"),
    [
        (lambda x: x if x > 0 else -x, (1.0, 2.0), (-1.0, np.nan)),
        (lambda x: x * int(x), (2.25, 2.5), (3.0, -2.5)),
        (lambda x: x * float(x), (2.0,), (2.5, np.nan)),
        (lambda x: x * float(x), (0.0,), (-0.0, 1.0)),
        (lambda x: x * float(x), (np.nan,), (1.0,)),
        (lambda x: fnp.arange(3.0)[fnp.astype(x, int)] * x, (1.0, 1.5), ()),
    ],
)
def test_guards_are_kept(f: Any, held: Any, missed: Any) -> None:
    run = compile_program(fg.program(f)(np.float64(held[0])))
    for x in held:
        assert same_bits(run(np.float64(x))[0], concrete(f(fg.tensor(x))))
    for x in missed:
        with pytest.raises(GuardError, match=r"for these arguments it is not"):
            run(np.float64(x))


def test_an_error_shows_the_line_of_the_program_and_of_the_user() -> None:
    run = compile_program(fg.program(lambda x: fnp.log(x) + 1)(np.ones(2)))
    try:
        with np.errstate(all="raise"):
            run(np.zeros(2))
    except FloatingPointError as error:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # Python warns of texts whose module it does not like
            shown = "".join(traceback.format_exception(error))
    else:
        pytest.fail("log(0) raised nothing")
    assert "a = log(x)" in shown
    assert "# test_backend.py:" in shown


def test_a_primitive_from_anywhere_is_handed_in() -> None:
    cube = elementwise("cube", lambda x: x**3, partials=(lambda y, x: 3 * x**2,))
    text = assert_compiles(lambda x: apply1(cube, x), np.arange(3.0))
    assert "    cube = constants[0]" in text


def test_threads_share_a_compiled_program() -> None:
    run = compile_program(fg.program(fg.grad(rnn))(normal(4, 4), normal(5, 4)))
    points = [np.random.default_rng(k).standard_normal((4, 4)) for k in range(40)]
    xs = np.asarray(normal(5, 4))
    expected = [run(point, xs)[0] for point in points]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda point: run(point, xs)[0], points))
    assert all(map(same_bits, found, expected))


# What a backend is.


@dataclass(frozen=True)
class Interpreter:
    """The simplest possible backend."""

    name: str = "interpreter"

    def supports(self, program: Program) -> bool:
        return len(program.equations) < 100

    def prepare(self, program: Program, relaxed: bool) -> Program:
        return program

    def compile(self, program: Program) -> Compiled:
        return evaluated(program)

    def inspect(self, program: Program) -> str:
        return program.to_text()


@pytest.mark.parametrize("backend", [NUMPY, Interpreter()], ids=lambda each: each.name)
def test_a_backend_is_five_members(backend: Backend) -> None:
    program = fg.program(fg.grad(bent))(fg.tensor([1.0, 2.0]))
    x = np.array([3.0, 0.25])
    assert backend.supports(program)
    run = backend.compile(backend.prepare(program, False)).run
    outs = run(x)
    assert outs is not None
    assert same_bits(outs[0], program.evaluate([x])[0])
    assert "log" in backend.inspect(program)
    assert run(-x) is None


def test_a_program_that_closes_over_a_tracer_is_refused() -> None:
    def f(x: Any) -> Any:
        program = fg.program(lambda y: x * y)(2.0)
        assert not NUMPY.supports(program)
        assert "constants[0]  # float64[]" in program.to_numpy_source()
        with pytest.raises(ProgramError, match="a transformation that runs around it"):
            compile_program(program)
        return program(2.0)

    assert fg.grad(f)(3.0).item() == 2.0


def test_a_compiled_program_leaves_nothing_behind() -> None:
    program = fg.program(lambda x: x + np.arange(100.0))(np.ones(100))
    count = sys.getrefcount(program.constants[0].value)
    run = compile_program(program)
    run(np.ones(100))
    del run
    assert sys.getrefcount(program.constants[0].value) <= count + 1

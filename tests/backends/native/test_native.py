"""The native backend gives what evaluation gives, whatever a program is made of."""

from __future__ import annotations

import math
import signal
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._backends.native.cpython import COPYING, NativeError
from funcgrad._backends.native.function_text import PLAIN, Arithmetic, SharedFunction
from funcgrad._backends.native.native_backend import EXACT, NATIVE, NativeBackend
from funcgrad._backends.native.native_code import SharedCode, native_code_of
from funcgrad._backends.native.plan_steps import Nest
from funcgrad._backends.native.planner import plan_of
from funcgrad._backends.native.processor import Toolchain
from funcgrad._core.primitive import Primitive
from funcgrad._core.structure.structures import Elementwise, Movement
from funcgrad._core.trace import concrete
from tests.conformance import every_case, every_primitive, representatives
from tests.in_threads import in_threads
from tests.together import together

pytest.importorskip("llvmlite")


def native(f: Callable[..., Any]) -> Callable[..., Any]:
    return fg.jit(f, backend="native")


def evaluated_and_compiled(
    f: Callable[..., Any], *args: Any, backend: NativeBackend = NATIVE
) -> tuple[list[Any], list[Any]]:
    """What evaluation gives, and what machine code gives."""
    program = fg.program(f)(*args)
    values = [concrete(leaf) for leaf in fg.tree.leaves((args, {}))]
    with np.errstate(all="ignore"):
        outputs = backend.compile(backend.prepare(program, False)).run(*values)
        assert outputs is not None
        return program.evaluate(values), list(outputs)


SINGLE = (np.float16, np.float32, np.complex64)


def assert_same(
    f: Callable[..., Any], *args: Any, exact: bool = False, backend: NativeBackend = NATIVE
) -> None:
    small = any(np.asarray(x).dtype in SINGLE for x in fg.tree.leaves(args))
    for expected, actual in zip(*evaluated_and_compiled(f, *args, backend=backend), strict=True):
        assert isinstance(actual, (np.ndarray, np.generic)) or type(actual) is type(expected)
        assert np.asarray(actual).dtype == np.asarray(expected).dtype
        if exact:
            assert_array_equal(actual, expected)
            continue
        size = np.abs(np.asarray(expected)[np.isfinite(expected)]).max(initial=1.0)
        tolerance = 1e-5 if small else 1e-11
        np.testing.assert_allclose(actual, expected, tolerance, tolerance * float(size))


@pytest.mark.slow
def test_every_kind_of_program_runs() -> None:
    fg.testing.check_backend(NATIVE)


@pytest.mark.slow
@together("primitive", every_primitive(), ids=str, pieces=4)
def test_every_primitive_is_evaluation_s(primitive: Primitive) -> None:
    structure = primitive.structure
    moves = isinstance(structure, Movement)
    exact = isinstance(structure, Elementwise) and isinstance(primitive.evaluate, np.ufunc)
    with np.errstate(all="ignore"):
        for number, case in enumerate(list(representatives(every_case([primitive])))[:3]):
            for form in (case, case.in_single_precision())[: 1 + (number % 2 == 0)]:
                plain = moves or (exact and has_plain_instructions(form.function(), *form.args))
                assert_same(form.function(), *form.args, exact=plain)
                if not number and (exact or (isinstance(structure, Elementwise) and form is case)):
                    assert_same(form.function(), *form.args, exact=True, backend=EXACT)


def has_plain_instructions(f: Callable[..., Any], *args: Any) -> bool:
    """Whether machine code computes an operation without functions that are approximated."""
    plan = plan_of(fg.program(f)(*args), Arithmetic(exact=True))
    return all(isinstance(step, Nest) for step in plan.steps)


PRODUCTS = ("ij,jk->ik", "ij,kj->ik", "i,i->", "i,j->ij", "bij,bjk->bik", "bij,jk->ikb", "ij,ij->i")
SHAPES = st.lists(st.integers(1, 5), max_size=3).map(tuple)
DTYPES = st.sampled_from([np.dtype(char) for char in "?bBhilLfd"])


@pytest.mark.slow
@given(SHAPES, DTYPES, st.data())
def test_reductions_are_numpys(shape: tuple[int, ...], dtype: np.dtype[Any], data: Any) -> None:
    seed = data.draw(st.integers(0, 9))
    x = (np.random.default_rng(seed).standard_normal(shape) * 9).astype(dtype)
    axes = data.draw(st.sets(st.integers(0, max(len(shape) - 1, 0)), max_size=len(shape)))
    axis = tuple(sorted(axes)) if shape else ()
    for reduce in (fnp.sum, fnp.max, fnp.min, fnp.any, fnp.all, fnp.prod, fnp.count_nonzero):
        assert_same(lambda x, r=reduce: r(x, axis=axis), x, exact=dtype.kind != "f")


@given(st.sampled_from(PRODUCTS), st.sampled_from("fdil"), st.integers(1, 6), st.integers(1, 4))
def test_small_products_are_numpys(subscripts: str, char: str, n: int, k: int) -> None:
    sizes = {"i": n, "j": k, "k": 3, "b": 2}
    draw = np.random.default_rng(n).standard_normal
    first, second = [
        (5 * draw([sizes[letter] for letter in letters])).astype(char)
        for letters in subscripts.split("->")[0].split(",")
    ]
    assert_same(lambda x, y: fnp.einsum(subscripts, x, y), first, second, exact=char in "il")
    assert_same(lambda x, y: fnp.einsum(subscripts, x[::-1], y), first, second, exact=char in "il")


@given(st.integers(1, 40), st.integers(1, 5), st.booleans())
def test_rows_and_columns_of_any_length_are_whole(rows: int, columns: int, turned: bool) -> None:
    x = np.arange(float(rows * columns)).reshape(rows, columns)
    x = x.T if turned else x
    assert_same(lambda x: (x.T * 2.0 - 1.0 / (1.0 + x.T), fnp.sum(x, axis=0)), x)


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=str)
def test_sums_of_many_numbers_keep_their_digits(dtype: type[Any]) -> None:
    x = np.random.default_rng(0).uniform(size=1_000_003).astype(dtype)
    total = float(native(lambda x: fnp.sum(x))(x))
    assert abs(total / math.fsum(x.tolist()) - 1) < (1e-7 if dtype is np.float32 else 1e-13)


@together(
    "x",
    [
        np.arange(12.0).reshape(3, 4)[::-1, ::2],
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.zeros((0, 3)),
        np.array(2.5),
        np.float64(2.5),
        2.5,
        True,
        7,
        2**40,
        np.arange(3, dtype=np.longlong),
    ],
    ids=lambda x: f"{type(x).__name__} {np.shape(x)}",
)
def test_arguments_of_any_form(x: Any) -> None:
    f = native(lambda x: (x * 2, x == 1))
    for expected, actual in zip((x * 2, x == 1), f(x), strict=True):
        assert_array_equal(actual, expected)


@together("length", range(5))
@together("reverse", [False, True])
def test_scans_of_every_length(length: int, reverse: bool) -> None:
    xs = np.arange(float(3 * length)).reshape(length, 3)

    def f(start: Any, xs: Any) -> Any:
        return fg.scan(lambda c, x: ((c[1], c[0] + x), c[0] * x), start, xs, reverse=reverse)

    assert_same(f, (np.ones(3), np.full(3, 2.0)), xs)


def test_loops_within_loops_and_branches() -> None:
    def inner(x: Any) -> Any:
        return fg.while_loop(lambda y: fnp.sum(y) < 20, lambda y: 1.5 * y + 1, x)

    def step(c: Any, x: Any) -> Any:
        return fg.cond(fnp.sum(c) > 30, lambda c: c / 3, inner, c), fg.switch(
            x.astype(int), (lambda c: c, lambda c: 2 * c, lambda c: c * c), c
        )

    f = lambda x: fg.scan(step, x, fnp.array([-1.0, 0.0, 1.0, 2.0, 9.0]))  # noqa: E731
    assert_same(f, np.ones(4))
    assert_same(fg.grad(lambda x: fnp.sum(f(x)[1])), np.ones(4))


def test_an_error_in_the_midst_of_a_loop_comes_out_and_leaves_nothing_behind() -> None:
    f = native(lambda a: fg.scan(lambda c, _: (fnp.linalg.inv(c), c), a, None, length=3))
    singular = np.zeros((40, 40))
    with pytest.raises(fg.errors.FuncgradError, match="singular"):
        f(singular)
    tracemalloc.start()
    for _ in range(300):
        with pytest.raises(fg.errors.FuncgradError):
            f(singular)
    before, _ = tracemalloc.get_traced_memory()
    for _ in range(300):
        with pytest.raises(fg.errors.FuncgradError):
            f(singular)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < 100_000


def test_calls_neither_leak_nor_take_more_than_they_give() -> None:
    f = native(lambda x, k: (x * k, k + 1, fnp.sum(fnp.partition(x, 0))))
    x = np.arange(1000.0)
    f(x, 2)
    counts = [sys.getrefcount(item) for item in (x, x.dtype, np.ndarray, None)]
    for _ in range(1000):
        f(x, 2)
    later = [sys.getrefcount(item) for item in (x, x.dtype, np.ndarray, None)]
    assert all(abs(a - b) < 50 for a, b in zip(counts, later, strict=True))


def test_threads_share_one_function() -> None:
    f = native(
        lambda x: fg.scan(lambda c, _: (fnp.partition(c * 1.01, 0), None), x, None, length=50)[0]
    )
    arguments = [np.random.default_rng(k).standard_normal(20) for k in range(8)]
    expected = [np.asarray(f(x)) for x in arguments]
    wrong: list[int] = []

    def work(k: int) -> None:
        for _ in range(50):
            if not np.array_equal(f(arguments[k]), expected[k]):
                wrong.append(k)

    in_threads(work)
    assert wrong == []


def test_numpys_errors_are_reported_where_they_are_asked_for() -> None:
    f = native(lambda x: 1.0 / x)
    assert_array_equal(f(np.zeros(2)), [np.inf, np.inf])
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        f(np.zeros(2))


@pytest.mark.parametrize("endless", [False, True], ids=["scan", "while_loop"])
def test_a_loop_can_be_interrupted(endless: bool) -> None:
    def scanned(x: Any) -> Any:
        return fg.scan(lambda c, _: (c * 0.5 + 1.0, None), x, None, length=10**10)[0]

    def endlessly(x: Any) -> Any:
        return fg.while_loop(lambda c: c > 0.5, lambda c: c * 0.5 + 1.0, x)

    class Interrupted(Exception):  # noqa: N818
        pass

    def interrupt(*_: object) -> None:
        raise Interrupted

    f = native(endlessly if endless else scanned)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(Interrupted):
            f(np.float64(1.0))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_numpys_loops_may_refuse_numbers() -> None:
    with pytest.raises(ValueError, match="negative integer powers"):
        native(lambda x, y: x**y)(np.array([2, 3]), np.array([1, -1]))


@together("char", "?eFDbB")
def test_what_is_handed_on_is_copied_for_every_dtype(char: str) -> None:
    x = np.arange(6).reshape(2, 3).astype(char)
    assert_same(lambda x: (x, x.T, x[::-1, 1], x[:0], x.sum()), x, exact=True)
    empty = np.zeros((0, 2), char)
    assert_same(lambda x: (fnp.concatenate([x, empty[:, :1].T[:, :0].reshape(0, 3)]),), x)


def test_memory_that_is_refused_is_an_error() -> None:
    f = native(lambda x: (x + 1.0, fnp.broadcast_to(x, (2**20, 2**20, 2**12)) * 2.0))
    with pytest.raises(MemoryError):
        f(np.float64(1.0))


@pytest.mark.parametrize("char", "bBlL")
def test_numbers_before_integers_are_operands_too(char: str) -> None:
    x = np.array([1, 2, 3], char)
    for f in (lambda x: 1 << x, lambda x: 100 >> x, lambda x: 7 // x, lambda x: 7 % x):
        assert_same(f, x, exact=True)


def test_a_symbol_that_nobody_knows_is_refused_before_anything_runs() -> None:
    tools = Toolchain()
    text = "declare void @nowhere() define void @program() { call void @nowhere() ret void }"
    with pytest.raises(NativeError, match=r"nowhere|cannot be linked"):
        tools.linked([tools.object_code(text, 0)], {}, ["program"])
    program = NATIVE.prepare(fg.program(lambda x: fnp.partition(x, 0))(np.ones(3)), True)
    copying = dict.fromkeys(COPYING, 0)
    with pytest.raises(NativeError, match="nobody knows the symbol 'call_back'"):
        native_code_of(NATIVE._shared, program, lambda: NATIVE._written(program), copying, dict)
    with pytest.raises(NativeError, match="LLVM refuses"):
        tools.object_code("this is no module", 0)


def test_what_is_called_back_is_named() -> None:
    def header(f: Callable[..., Any], *args: Any) -> list[str]:
        lines: list[str] = fg.jit(f, backend="native").lower(*args).source.splitlines()
        told = [line for line in lines if line.startswith("; called back: ")]
        assert lines[: len(told)] == told
        return [line.removeprefix("; called back: ") for line in told]

    x = np.ones(3)
    assert header(lambda x: x * 2, x) == ["nothing"]

    def several(x: Any) -> Any:
        quotients = [fg.scipy.special.exprel(y) for y in (x, x[::2])]
        return *quotients, fnp.linalg.eigvalsh(fnp.outer(x, x))

    def loop(x: Any) -> Any:
        return fg.scan(lambda c, _: (fnp.linalg.eigvalsh(fnp.outer(c, c)), None), x, length=3)[0]

    emitted = "no form that the native backend emits"
    assert header(several, x) == [f"eigvalsh: {emitted}", "exprel: no formula"]
    z = np.eye(3) + 0j
    assert header(fnp.argmax, z) == ["argmax: an order of complex numbers in a fold"]
    assert header(lambda z: fnp.linalg.solve(z, z[0]), z) == [
        "solve: no code for complex128[3, 3], complex128[3, 1]"
    ]
    opaque = fg.extend.elementwise("opaque", lambda x: np.array(x), partials=(lambda y, x: x,))
    assert header(lambda x: fg.extend.apply(opaque, x), x) == ["opaque: no formula"]
    assert header(loop, x) == [f"eigvalsh: {emitted}"]


def test_code_that_programs_share_is_never_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    # Programs that another thread has compiled in the meantime call the first code.
    tools, others = Toolchain(), list[dict[str, int]]()
    shared, text = SharedCode(tools, PLAIN, {}), "i64 @five() { ret i64 5 }"
    shared.definitions["five"] = SharedFunction("i64 @five()", text, frozenset(), frozenset())
    compiled = Toolchain.object_code

    def compiled_meanwhile(tools: Toolchain, text: str, level: int) -> bytes:
        if not others:
            others.append({})
            others.append(shared.addresses(shared.files(["five"])))
        return compiled(tools, text, level)

    monkeypatch.setattr(Toolchain, "object_code", compiled_meanwhile)
    assert shared.addresses(shared.files(["five"])) == others[1]


def test_a_dtype_that_is_another_object_gives_the_same_bits() -> None:
    x = np.linspace(0.1, 9.0, 37, dtype=np.float32)
    same = np.frombuffer(x.tobytes(), np.dtype("f4").newbyteorder("<"))
    for first, second in ((x, same), (same, x)):
        waves = fg.jit(lambda x: fnp.sin(x) * fnp.exp(x), backend="native")
        for _ in range(4):
            assert_array_equal(waves(first), waves(second))

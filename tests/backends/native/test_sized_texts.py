"""Programs of different sizes share machine code, with the bits of code of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from tests.backends.native.sized_programs import assert_sizes_agree, own_code
from tests.tools.practice.all_tasks import TASKS
from tests.tools.practice.libraries import funcgrad
from tests.tools.practice.task import Task

pytest.importorskip("llvmlite")

from funcgrad._backends.native import native_code, sized_texts
from funcgrad._backends.native.native_backend import NATIVE
from funcgrad._backends.native.native_code import BEST, FIRST
from funcgrad._backends.native.program_keys import Needs
from funcgrad._backends.native.sized_texts import Family, SizedTexts

Make = Callable[[int], tuple[Callable[..., Any], Sequence[Any]]]


def drawn(*shape: int, dtype: str = "f8") -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def net_loss(params: Any, x: Any, y: Any) -> Any:
    (w, b), v = params
    logits = fnp.tanh(x @ w + b) @ v
    logits = logits - fnp.max(logits, axis=1, keepdims=True)
    right = logits[fnp.arange(x.shape[0]), y]
    return fnp.mean(fnp.log(fnp.sum(fnp.exp(logits), axis=1)) - right)


def net_step(params: Any, x: Any, y: Any) -> Any:
    loss, gradient = fg.value_and_grad(net_loss)(params, x, y)
    return fg.tree.map(lambda p, g: p - 0.1 * g, params, gradient), loss


def logistic(w: Any, x: Any, y: Any) -> Any:
    z = x @ w
    return fnp.mean(fnp.logaddexp(0.0, z) - y * z) + 0.01 * fnp.sum(w * w)


def recurrent(x: Any) -> Any:
    return fg.scan(lambda c, row: (0.9 * c + fnp.tanh(row), c * row), x[0], x)


PROGRAMS: dict[str, Make] = {
    "net": lambda n: (
        net_step,
        [((drawn(5, 32), drawn(32)), drawn(32, 4)), drawn(n, 5), np.arange(n) % 4],
    ),
    "logistic": lambda n: (fg.grad(logistic), [drawn(3), drawn(n, 3), np.arange(n) % 2]),
    "single": lambda n: (lambda x: (fnp.sum(x * 0.3, axis=0), x / n), [drawn(n, 7, dtype="f4")]),
    "complex": lambda n: (lambda z: (z * (1.0 + 2.0j) / n, fnp.sum(z)), [drawn(n) + 1j]),
    "flags": lambda n: (lambda x: (fnp.cumsum(x > 0.0), fnp.any(x > 2.0), ~(x < 1.0)), [drawn(n)]),
    "integers": lambda n: (lambda k: (k // 3, fnp.sum(k % 5), k[::-1]), [np.arange(n)]),
    "orders": lambda n: (lambda x: (fnp.sort(x), fnp.argmax(x), fnp.cumsum(x)), [drawn(n)]),
    "scan": lambda n: (lambda x: recurrent(x), [drawn(n, 3)]),
    "pairs": lambda n: (
        fg.grad(lambda x: fnp.sum(fnp.sqrt(0.1 + fnp.sum((x[:, None] - x) ** 2, axis=-1)))),
        [drawn(n, 2)],
    ),
    "threads": lambda n: (lambda x: (fnp.sin(x) * 0.5 / n, fnp.sum(fnp.exp(x))), [drawn(n, 900)]),
}


def results(make: Make, n: int) -> list[Any]:
    f, args = make(n)
    jitted = fg.jit(f, backend=NATIVE)
    results = [np.asarray(leaf) for leaf in fg.tree.leaves(jitted(*args))]
    assert not jitted.failures
    return results


QUICK = [("logistic", FIRST), ("single", BEST), ("flags", FIRST)]
SLOW = [(name, level) for name in PROGRAMS for level in (FIRST, BEST)]


@pytest.mark.parametrize(
    ("name", "level"),
    [*QUICK, *[pytest.param(*case, marks=pytest.mark.slow) for case in SLOW if case not in QUICK]],
)
def test_shared_code_has_the_bits_of_code_of_its_own(
    name: str, level: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native_code, "FIRST", level)
    monkeypatch.setattr(native_code, "begin_thread", lambda *_, **__: None)  # which would improve
    sizes, tables = (131, 138, 149, 133), list[bytes]()
    with monkeypatch.context() as patch:
        patch.setattr(SizedTexts, "of", own_code)
        expected = [results(PROGRAMS[name], n) for n in sizes]
    of = SizedTexts.of

    def noted(self: SizedTexts, texts: Sequence[str]) -> tuple[Family, bytes]:
        family, table = of(self, texts)
        tables.append(table)
        return family, table

    monkeypatch.setattr(SizedTexts, "of", noted)
    for n, known in zip(sizes, expected, strict=True):
        for actual, result in zip(results(PROGRAMS[name], n), known, strict=True):
            assert_array_equal(actual, result)
    assert any(tables)


def written(make: Make, n: int) -> Sequence[str]:
    f, args = make(n)
    program = fg.jit(f, backend=NATIVE).lower(*args).optimized
    return NATIVE._written(program)[0].texts


@pytest.mark.parametrize("name", ["logistic", "complex", "scan"])
def test_later_sizes_compile_nothing(name: str) -> None:
    """Numbers of whole vectors are one family, all others one or few."""
    families, seen = SizedTexts(), list[Family]()
    for n in range(260, 284):
        family, _ = families.of(written(PROGRAMS[name], n))
        if not any(family is other for other in seen):
            seen.append(family)
    assert len(seen) <= 6


def test_equal_programs_share_the_first_ones_code() -> None:
    """Long texts are at first compiled at level 0, and take seconds to improve."""
    families, texts = SizedTexts(), [written(PROGRAMS["logistic"], n) for n in (131, 138, 131)]
    (first, _), (other, _), (again, table) = map(families.of, texts)
    assert again.objects is first.objects
    assert other.objects is not first.objects
    assert not table
    assert list(again.texts) == list(texts[2])


@pytest.mark.parametrize(
    ("seed", "level", "threads"),
    [
        (3, FIRST, 1),
        *[
            pytest.param(seed, (FIRST, BEST)[seed % 2], 1 + seed // 2 % 2, marks=pytest.mark.slow)
            for seed in range(20, 32)
        ],
    ],
)
def test_random_programs_mean_the_same_at_all_sizes(seed: int, level: int, threads: int) -> None:
    assert_sizes_agree(seed, 3, level, threads)


def all_numbers(self: SizedTexts, texts: Sequence[str]) -> tuple[Family, bytes]:
    """The family in which every number is a hole."""
    numbers = [sized_texts._numbers(text) for text in texts]
    holes = frozenset(range(sum(map(len, numbers))))
    table = sized_texts._table(texts, numbers, holes)
    return Family((), holes, sized_texts._with_holes(texts, numbers, holes)), table


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS[::4], ids=[task.name for task in TASKS[::4]])
def test_any_number_of_a_text_may_come_from_a_table(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native_code, "begin_thread", lambda *_, **__: None)
    monkeypatch.setattr(SizedTexts, "refuse", None)  # LLVM refuses none

    def make(_: int) -> tuple[Callable[..., Any], Sequence[Any]]:
        return task.function(funcgrad()), task.arguments(small=True)

    with monkeypatch.context() as patch:
        patch.setattr(SizedTexts, "of", own_code)
        expected = results(make, 0)
    monkeypatch.setattr(SizedTexts, "of", all_numbers)
    for actual, result in zip(results(make, 0), expected, strict=True):
        assert_array_equal(actual, result)


def test_a_choice_by_a_size_is_respected() -> None:
    @fg.jit
    def f(x: Any) -> Any:
        return x * 2.0 if x.shape[0] < 105 else x * 3.0 if x.shape[0] % 7 else -x

    for n in range(100, 120):
        factor = 2.0 if n < 105 else 3.0 if n % 7 else -1.0
        assert_array_equal(f(np.ones(n)), np.full(n, factor))
    assert f.stagings == 20


def test_a_program_has_its_own_code_if_llvm_refuses_shared_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sized_texts, "_with_holes", lambda *_: ["define nonsense"])

    @fg.jit
    def f(x: Any) -> Any:
        return fnp.sum(fnp.cosh(x) * 0.125) / x.shape[0]

    for n in (141, 142, 143):
        assert float(f(np.zeros(n))) == 0.125
    assert not f.failures


def test_tables_can_be_on_disk() -> None:
    assert Needs(0, False, [], {"numbers": ("table", b"12345678")}, [], {}).is_storable


def test_numbers_come_back_as_llvm_reads_them() -> None:
    text = """define void @f(ptr %i0, ptr %o0, ptr noalias %o1, ptr noalias %arena) {
entry:
  br label %start
start:
  %v1 = getelementptr i8, ptr %o1, i64 -3
  %v2 = fmul <4 x float> %x, splat (float 0x3FF8000000000000)
  %v3 = fadd double %y, 0x3FE0000000000000
  %v4 = select <4 x i1> <i1 true, i1 true, i1 false, i1 true>, <4 x float> %a, <4 x float> %b
  %v5 = shufflevector <2 x i64> %c, <2 x i64> poison, <2 x i32> <i32 0, i32 1>
  switch i64 %v6, label %a [ i64 7, label %b ]
}"""
    numbers = sized_texts._numbers(text.replace("i64 -3", "i64 3"))
    kinds = ["memory", "i64", "<4 x float>", "double", "<4 x i1>"]
    assert [number.kind for number in numbers] == kinds
    table = sized_texts._table([text.replace("i64 -3", "i64 3")], [numbers], frozenset(range(5)))
    assert_array_equal(np.frombuffer(table, np.int64)[[0, 1, 4]], [1, 3, 0b1011])
    assert np.frombuffer(table, np.float32)[4] == 1.5
    assert np.frombuffer(table, np.float64)[3] == 0.5

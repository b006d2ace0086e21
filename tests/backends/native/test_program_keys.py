"""Programs with equal keys have the same text, so that code from disk is the program's."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp

pytest.importorskip("llvmlite")

from funcgrad._backends.native import code_cache, native_code, program_keys
from funcgrad._backends.native.function_text import PLAIN, Arithmetic
from funcgrad._backends.native.native_backend import EXACT, NATIVE, NativeBackend
from funcgrad._backends.native.program_keys import ProgramKeys
from funcgrad._programs.program import Program
from tests.conformance import every_case, every_primitive
from tests.tools.practice.all_tasks import TASKS
from tests.tools.practice.libraries import funcgrad as library


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("FUNCGRAD_CACHE", raising=False)
    return tmp_path / "cache" / "funcgrad"


def program_key(program: Program, arithmetic: Arithmetic = PLAIN) -> str | None:
    return ProgramKeys().key(program, arithmetic)


def written(program: Program) -> str:
    """All that is stored about a program but its code."""
    module, function = NATIVE._written(program)
    about = module.recipes, module.origins, module.symbols, function.size
    return module.text + json.dumps(about, default=str)


def assert_keys_tell_texts(programs: Iterable[Program]) -> int:
    """Check that programs of one key have one text; returns how many have an earlier one's key."""
    by_key: dict[str | None, list[Program]] = {}
    keys = ProgramKeys()  # which reads the sources of an operation once, as a backend's does
    for program in programs:
        prepared = NATIVE.prepare(program, True)
        by_key.setdefault(keys.key(prepared, PLAIN), []).append(prepared)
    by_key.pop(None, None)
    twins = [programs for programs in by_key.values() if len(programs) > 1]
    for first, *others in twins:
        text = written(first)
        assert all(written(other) == text for other in others)
    return sum(len(programs) - 1 for programs in twins)


@pytest.mark.slow
@pytest.mark.parametrize("several", [False, True])
def test_samples_with_equal_keys_have_equal_texts(several: bool) -> None:
    with np.errstate(all="ignore"):
        cases = every_case(every_primitive(several)[::6])
        again = assert_keys_tell_texts(fg.program(c.function())(*c.args) for c in cases)
    assert again > (0 if several else 3)


def test_programs_that_differ_have_keys_that_differ() -> None:
    x = np.linspace(0.5, 1.0, 6).reshape(2, 3)

    def loop(times: float, length: int, reverse: bool) -> Any:
        return lambda x: fg.scan(
            lambda c, s: (c * times + s, c), x, fnp.stack([x] * length), reverse=reverse
        )

    functions: list[Any] = [
        *[lambda x, n=n: x * n for n in (2, 2.0, 3.0, -0.0, 0.0, np.float32(2), True, np.inf)],
        *[lambda x, n=n: x * np.full(3, n) for n in (2.0, np.float32(2), 2, 2j)],
        *[lambda x, axis=axis: fnp.sum(x, axis) for axis in (None, 0, 1, ())],
        *[lambda x, key=key: x[key] for key in (0, -1, slice(1), slice(None, None, -1))],
        *[lambda x, f=f: f(x) for f in (fnp.exp, fnp.exp2, fnp.sort, fnp.argmax, fnp.cumsum)],
        *[loop(*a) for a in ((2.0, 3, False), (3.0, 3, False), (2.0, 2, False), (2.0, 3, True))],
        lambda x: (x, x + 1.0),
        lambda x: (x + 1.0, x),
        lambda x: fg.cond(x[0, 0] > 0.5, lambda x: x + 1.0, lambda x: x - 1.0, x),
        lambda x: fg.cond(x[0, 0] > 0.5, lambda x: x - 1.0, lambda x: x + 1.0, x),
        lambda x: fg.while_loop(lambda c: c[0, 0] < 9.0, lambda c: c * 2.0, x),
        lambda x: fg.while_loop(lambda c: c[0, 0] < 8.0, lambda c: c * 2.0, x),
    ]
    programs = [fg.program(f)(a) for f in functions for a in (x, x[:1], x.astype("f"))]
    made = ProgramKeys()
    keys = [made.key(NATIVE.prepare(program, True), PLAIN) for program in programs]
    assert None not in keys
    assert len({*keys}) == len(keys)
    assert len({program_key(p, NATIVE._shared.arithmetic) for p in programs[:1]}) == 1
    assert program_key(programs[0], NATIVE._shared.arithmetic) != program_key(
        programs[0], EXACT._shared.arithmetic
    )


def test_arrays_are_no_part_of_a_key_and_are_the_program_s_own(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.linspace(0.0, 1.0, 5)

    def f(shift: Any) -> Any:
        return lambda x: fnp.sort(fg.scan(lambda c, s: (c * s + shift, s), x, shift)[0]) + shift

    first, second = np.linspace(1.0, 2.0, 5), np.linspace(-3.0, 5.0, 5)
    expected = f(second)(x)
    fg.jit(f(first), backend="native")(x)
    stored = sorted(os.listdir(folder))
    assert stored
    monkeypatch.setattr(NativeBackend, "_written", lambda *_: pytest.fail("text was written"))
    actual = fg.jit(f(second), backend="native")(x)
    assert sorted(os.listdir(folder)) == stored
    np.testing.assert_allclose(actual, expected, rtol=1e-14)


@pytest.mark.slow
def test_practice_is_the_same_from_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_code, "begin_thread", lambda *_, **__: None)
    for task in TASKS:
        function, arguments = task.function(library()), task.arguments(small=True)
        first = fg.jit(function, backend="native")(*arguments)
        with monkeypatch.context() as patch:
            patch.setattr(NativeBackend, "_written", lambda *_: pytest.fail("text was written"))
            jitted = fg.jit(function, backend="native")
            again = jitted(*arguments)
        assert not jitted.failures
        for a, b in zip(fg.tree.leaves(first), fg.tree.leaves(again), strict=True):
            assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def test_what_users_define_has_no_key() -> None:
    sine = fg.extend.elementwise("sin", np.sin, partials=(lambda y, x: np.cos(x),))
    assert program_key(fg.program(fnp.sin)(1.0)) is not None
    assert program_key(fg.program(lambda x: fg.extend.apply(sine, x))(1.0)) is None


def test_files_that_are_newer_than_the_process_are_trusted_by_no_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    staged = fg.program(lambda x: x * 2.0)(1.0)
    assert program_key(staged) is not None
    with monkeypatch.context() as patch:
        patch.setattr(program_keys, "BEGAN", 0.0)
        assert program_key(staged) is None
    monkeypatch.setattr(program_keys, "_files", lambda _: [])  # as if only bytecode were installed
    assert program_key(staged) is None


def test_a_key_depends_on_the_package_s_files(monkeypatch: pytest.MonkeyPatch) -> None:
    staged = fg.program(lambda x: x * 2.0)(1.0)
    keys = set()
    for size in (1, 2):
        monkeypatch.setattr(program_keys, "_files", lambda _, size=size: [("a.py", size, 3)])
        keys.add(program_key(staged))
    assert len(keys) == 2


def test_where_a_file_is_gone_the_program_is_compiled_again(folder: Path) -> None:
    x = np.linspace(0.0, 1.0, 5)

    def f(x: Any) -> Any:
        return fnp.exp(fnp.sin(x))

    results = []
    for _ in range(2):
        backend = NativeBackend()  # which has no shared functions yet
        program = backend.prepare(fg.program(f)(x), True)
        with np.errstate(all="ignore"):
            results += [*(backend.compile(program).run(x) or ())]
        names = os.listdir(folder)
        for name in names:  # all but the program itself
            contents = code_cache.read_code(name)
            if contents is not None and b"recipes" not in contents:
                (folder / name).unlink()
        assert any(name in os.listdir(folder) for name in names)
    assert results[0].tobytes() == results[1].tobytes()
    np.testing.assert_allclose(results[0], np.exp(np.sin(x)))


def test_no_key_is_made_where_nothing_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUNCGRAD_CACHE", "0")
    monkeypatch.setattr(ProgramKeys, "key", lambda *_: pytest.fail("a key was made"))
    assert fg.jit(lambda x: x * 2.0, backend="native")(np.ones(3)).shape == (3,)

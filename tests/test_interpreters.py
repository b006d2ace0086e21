"""Instructions are read rightly; on an interpreter that is not known, carefully."""

import argparse
import enum
import inspect
import random
import sys
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
from funcgrad._backends.numpy import backend
from funcgrad._base import interpreters
from funcgrad._base.interpreters import names_read
from funcgrad._staging import jit
from funcgrad._staging.jit import JitWarning
from funcgrad._staging.lookups import lookups

SETTINGS = {"scale": 2.0}
SCALE = 2.0


@pytest.fixture
def unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreters, "PROVED", frozenset())


def codes(constant: object) -> Iterator[CodeType]:
    if isinstance(constant, CodeType):
        yield constant
        for inner in constant.co_consts:
            yield from codes(inner)


def functions() -> Iterator[FunctionType]:
    """The functions of some modules of Python, NumPy and funcgrad, with those in their classes."""
    for module in (argparse, enum, inspect, random, typing, np.ma.core, jit, backend):
        for value in [*vars(module).values()]:
            members = [*vars(value).values()] if isinstance(value, type) else [value]
            yield from [member for member in members if isinstance(member, FunctionType)]


def test_instructions_are_read_as_the_interpreter_s_own_disassembler_reads_them() -> None:
    if not interpreters.is_proved():
        pytest.skip("on such an interpreter only the disassembler reads them")
    read = 0
    for function in functions():
        for code in codes(function.__code__):
            found, told = interpreters._by_bytes(code), interpreters._by_dis(code)
            assert found == told[: len(found)]
            # Names of code that can never run have no instruction.
            assert not {name for _, name in told[len(found) :]} & {name for _, name in found}
            read += len(found)
    assert read > 10_000


def test_this_interpreter_is_known() -> None:
    assert sys.version_info[:2] in {(3, 11), (3, 12), (3, 13), (3, 14), (3, 15)}


def names_and_imports(x: Any) -> Any:
    import math.nothing as nothing  # type: ignore[import-not-found]
    from json import decoder

    SETTINGS["scale"] = nothing
    return np.random.default_rng(x.shape), x.T.values(SCALE), decoder.scan  # type: ignore[attr-defined]


def test_names_are_told_apart_by_what_reads_them() -> None:
    found = lookups(names_and_imports.__code__)
    assert found.globals == {"SETTINGS", "SCALE", "np"}
    assert found.random - {""} == {"np"}
    assert {"math.nothing", "json", "decoder"} <= found.imports
    assert {"shape", "T", "values", "scan", "SCALE"} <= found.attributes


def test_an_unknown_interpreter_s_names_are_those_of_its_disassembler(unknown: None) -> None:
    test_names_are_told_apart_by_what_reads_them()


@pytest.mark.usefixtures("unknown")
def test_a_name_with_an_unknown_instruction_counts_in_every_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(interpreters, "GLOBAL_READS", frozenset())
    monkeypatch.setattr(interpreters, "_ATTRIBUTE_READS", frozenset())
    code = names_and_imports.__code__
    assert {name for _, name in names_read(code)} == {*code.co_names}
    for name in ("SCALE", "T", "np", "values"):
        assert [kind for kind, known in names_read(code) if known == name] == [
            "LOAD_GLOBAL",
            "IMPORT_NAME",
        ]


def importing(x: Any) -> Any:
    from math import pi

    return x * pi * SETTINGS["scale"]


@pytest.fixture(params=["known", "unknown", "unheard of"])
def interpreter(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param != "known":
        monkeypatch.setattr(interpreters, "PROVED", frozenset())
    if request.param == "unheard of":
        monkeypatch.setattr(interpreters, "_ATTRIBUTE_READS", frozenset())
    return request.param


@pytest.mark.usefixtures("interpreter")
def test_functions_that_import_are_staged_and_see_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    f = fg.jit(importing)
    assert f(1.0) == 2.0 * np.pi
    assert f(2.0) == 4.0 * np.pi
    assert f.stagings == 1
    monkeypatch.setitem(SETTINGS, "scale", 3.0)
    assert f(1.0) == 3.0 * np.pi
    assert f.stagings == 2


LAZY = """
lazy import {name}

def scaled(x):
    return {name}.scaled(x)
"""


@pytest.mark.skipif(sys.version_info < (3, 15), reason="lazy imports came with Python 3.15")
def test_a_module_that_is_imported_lazily_is_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "late_scale.py").write_text("SCALE = 3.0\ndef scaled(x): return x * SCALE\n")
    monkeypatch.syspath_prepend(tmp_path)
    space: dict[str, Any] = {"__name__": "user"}
    exec(LAZY.format(name="late_scale"), space)
    f = fg.jit(space["scaled"])
    assert [f(1.0), f(2.0)] == [3.0, 6.0]
    monkeypatch.setattr(sys.modules["late_scale"], "SCALE", 5.0)
    assert f(1.0) == 5.0
    monkeypatch.delitem(sys.modules, "late_scale")


class Annotated:
    scale: float

    def __init__(self) -> None:
        self.scale = 2.0


@pytest.mark.usefixtures("interpreter")
@pytest.mark.parametrize(
    "look", [typing.get_type_hints, lambda kind: kind.__annotations__], ids=["hints", "attribute"]
)
def test_looking_at_annotations_is_no_change(look: Callable[[Any], Any]) -> None:
    class Kind(Annotated):
        other: int

    def f(x: Any) -> Any:
        return x * Kind().scale * len(look(Kind))

    jitted = fg.jit(f)
    assert jitted(1.0) == jitted(1.0) == f(1.0)
    jitted(2.0)
    assert jitted.stagings <= 2


def test_warnings_say_that_an_interpreter_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = []
    for proved in (interpreters.PROVED, frozenset()):
        monkeypatch.setattr(interpreters, "PROVED", proved)
        many = fg.jit(lambda x: x * sum(map(float, [*range(20_000)])) * len(str(BUNCH)))
        with pytest.warns(JitWarning, match="than can be watched") as caught:
            many(1.0)
        texts.append(str(caught[0].message))
    assert f"does not know Python {sys.version.split()[0]}" in texts[1]
    assert "does not know" not in texts[0] or not interpreters.is_proved()


BUNCH = [[number] for number in range(20_000)]

"""The rule of purity holds for all code; warnings tell names that change at every call."""

import sys
import threading
import types
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
from funcgrad._base.interpreters import doubt
from funcgrad._staging import capture
from funcgrad._staging.jit import JitWarning
from funcgrad._staging.lookups import Libraries
from tests.staging.changes import Bag, check, sets, stagings

COUNT = 0.0
OTHER = 0.0
TEXT = """
class Settings:
    def __init__(self):
        self.rate = 1.0

scale, settings, table = 2.0, Settings(), [1.0]

def inner(x):
    return x * scale * settings.rate * table[0]

def f(x):
    return inner(x)
"""
PACKAGES = str(Path(np.__file__).resolve().parents[1])


def install(monkeypatch: pytest.MonkeyPatch, name: str, folder: str) -> Any:
    """A module with a given text, as if imported from a folder."""
    module = types.ModuleType(name)
    module.__file__ = f"{folder}/{name.replace('.', '/')}.py"
    monkeypatch.setitem(sys.modules, name, module)
    exec(compile(TEXT, module.__file__, "exec"), vars(module))
    return module


@pytest.mark.parametrize("folder", ["/home/user/project", PACKAGES])
@pytest.mark.parametrize("name", ["some_model", "some_package.model"])
def test_a_module_is_watched_wherever_it_is_installed(
    monkeypatch: pytest.MonkeyPatch, name: str, folder: str
) -> None:
    module = install(monkeypatch, name, folder)
    for f in (module.f, lambda x: module.f(x) + 1.0, fg.grad(lambda x: module.f(x) * x)):
        vars(module).update(scale=2.0, settings=module.Settings(), table=[1.0])
        changes = (
            sets(module, "scale", 3.0),
            lambda: sets(module.settings, "rate", 5.0)(),
            lambda: module.table.append(1.0),
            lambda: module.table.__setitem__(0, 7.0),
            sets(module.Settings, "rate", property(lambda _: 11.0)),
            sets(module, "inner", lambda x: -x),
        )
        with monkeypatch.context() as patched:
            patched.setattr(module, "inner", module.inner)
            check(f, *changes)
        del module.Settings.rate


def test_a_package_with_compiled_modules_is_followed_for_its_own_functions_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled = types.ModuleType("some_package._core")
    compiled.__file__ = f"/home/user/some_package/_core{EXTENSION_SUFFIXES[0]}"
    monkeypatch.setitem(sys.modules, "some_package._core", compiled)
    module = install(monkeypatch, "some_package.model", "/home/user")
    own, other = fg.jit(module.f), fg.jit(lambda x: module.f(x))
    assert float(own(1.0)) == float(other(1.0)) == 2.0
    module.scale = 3.0
    assert (float(own(1.0)), float(other(1.0))) == (3.0, 2.0)  # as the rule says
    exec("def read(thing, x): return thing.rate * x", vars(module))
    bag: Any = Bag(rate=1.0)  # of others, so watched: the package may read any attribute
    check(lambda x: module.read(bag, x), sets(bag, "rate", 2.0))


def line_of(text: str) -> str:
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return f"{Path(__file__).name}:{next(k for k, line in enumerate(lines, 1) if text in line)}"


def reads_a_global(x):
    return x * COUNT  # a global


def changing() -> Any:
    """Functions, the change between calls, and the name that the warning has to tell."""
    bag, table, array, closed = Bag(rate=0.0), {"rate": 0.0}, np.zeros(3), 0.0

    def count() -> None:
        global COUNT
        COUNT += 1.0

    def rebind() -> None:
        nonlocal closed
        closed += 1.0

    yield reads_a_global, count, f"COUNT ({line_of('# a glo' + 'bal')})"
    yield (
        lambda x: x * bag.rate,  # an attribute
        lambda: sets(bag, "rate", bag.rate + 1.0)(),
        f"rate ({line_of('# an attri' + 'bute')})",
    )
    yield (
        lambda x: x * table["rate"],  # an element
        lambda: table.update(rate=table["rate"] + 1.0),
        f"table ({line_of('# an ele' + 'ment')})",
    )
    yield (
        lambda x: x * array,  # an array
        lambda: array.__iadd__(1.0),
        f"array ({line_of('# an arr' + 'ay')})",
    )
    yield (
        lambda x: x * closed,  # a closed-over name
        rebind,
        f"closed ({line_of('# a closed-over na' + 'me')})",
    )


@pytest.mark.parametrize("number", range(5))
def test_a_name_that_changes_at_every_call_is_told_once_with_its_line_and_the_remedy(
    number: int,
) -> None:
    f, change, told = [*changing()][number]
    staged = fg.jit(f)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(20):
            change()
            np.testing.assert_array_equal(staged(1.0), f(1.0))
    (warning,) = caught
    assert warning.category is JitWarning
    assert warning.filename == __file__
    assert f"staged anew at every call, which takes far longer than running it, because {told}" in (
        str(warning.message)
    )
    ending = f"changes between the calls. Pass it as an argument.{doubt()}"
    assert str(warning.message).endswith(ending)


def test_a_name_that_changes_now_and_then_is_not_told() -> None:
    global COUNT
    staged = fg.jit(reads_a_global)
    for _ in range(20):
        COUNT += 1.0
        for _ in range(2):
            assert float(staged(1.0)) == COUNT
    gradient = fg.grad(staged)
    for _ in range(20):
        COUNT += 1.0
        for _ in range(2):
            assert float(gradient(1.0)) == COUNT


def test_different_names_that_change_are_not_told() -> None:
    global COUNT, OTHER
    staged = fg.jit(lambda x: x * COUNT + OTHER)
    for _ in range(10):
        COUNT += 1.0
        assert float(staged(1.0)) == COUNT + OTHER
        OTHER += 1.0
        assert float(staged(1.0)) == COUNT + OTHER


# Functions that are observed, since names lead to too many.


def test_where_names_lead_to_many_functions_those_are_watched_that_run() -> None:
    space: dict[str, Any] = {"scale": 2.0, "unused": 1.0}
    lines = [f"def f{k}(x): return x * scale if x is not None else f{k + 1}(x)" for k in range(300)]
    exec("\n".join([*lines, "def f300(x): return x * unused"]), space)
    f = space["f0"]
    check(lambda x: f(x), lambda: space.update(scale=3.0))
    assert stagings(lambda x: f(x), lambda: space.update(scale=4.0)) == 2
    assert stagings(lambda x: f(x), lambda: space.update(unused=2.0)) == 1


class Tracing:
    """Profilers and debuggers that were installed by others."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def note(self, frame: types.FrameType, event: str, arg: Any) -> None:
        self.seen.append(frame.f_code.co_name)


@pytest.fixture
def observed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "_MOST_FUNCTIONS", -1)


@pytest.mark.usefixtures("observed")
def test_code_that_runs_is_asked_for_names_though_no_name_leads_to_it() -> None:
    bag: Any = Bag(rate=1.0, other=1.0)
    watched = capture.Capture(bag, lambda: None)
    watched.enter((lambda thing: thing.rate).__code__, {"__name__": "elsewhere"})
    assert watched.unchanged()
    bag.other = 2.0
    assert watched.unchanged()
    bag.rate = 2.0
    assert not watched.unchanged()
    watched.look()
    assert watched.unchanged()
    bag.rate = 3.0
    assert not watched.unchanged()


@pytest.mark.usefixtures("observed")
def test_profilers_of_others_are_left_alone() -> None:
    global COUNT
    tracing = Tracing()
    staged = fg.jit(reads_a_global)
    note = tracing.note
    before = sys.gettrace()
    sys.settrace(None)
    sys.setprofile(note)
    try:
        for _ in range(2):
            COUNT += 1.0
            assert float(staged(1.0)) == COUNT
        found = sys.getprofile(), sys.gettrace()
    finally:
        sys.setprofile(None)
        sys.settrace(before)
    assert found == (note, None)
    assert tracing.seen.count("reads_a_global") >= 2


@pytest.mark.usefixtures("observed")
def test_where_nothing_can_be_observed_the_function_is_not_staged() -> None:
    global COUNT
    staged = fg.jit(reads_a_global)
    before = sys.gettrace()
    sys.settrace(Tracing().note)
    sys.setprofile(Tracing().note)
    try:
        with pytest.warns(JitWarning, match="may read more"):
            assert float(staged(1.0)) == COUNT
        COUNT += 1.0
        assert float(staged(1.0)) == COUNT
    finally:
        sys.setprofile(None)
        sys.settrace(before)


@pytest.mark.usefixtures("observed")
def test_functions_that_are_observed_within_others_are_told_to_both() -> None:
    table = {"scale": 1.0}
    inner = fg.jit(lambda x: x * table["scale"])
    outer = fg.jit(lambda x: inner(x) + inner(2.0))
    for scale in (2.0, 3.0, 4.0):
        table["scale"] = scale
        for _ in range(2):
            assert float(outer(1.0)) == 3.0 * scale
            assert float(inner(1.0)) == scale
    assert sys.getprofile() is None


@pytest.mark.usefixtures("observed")
def test_work_that_is_handed_to_other_threads_cannot_be_observed() -> None:
    with ThreadPoolExecutor(1) as pool:
        staged = fg.jit(lambda x: x * pool.submit(lambda: COUNT).result())
        with pytest.warns(JitWarning, match="may read more"):
            assert float(staged(1.0)) == COUNT

    def through_a_thread(x: Any) -> Any:
        found: list[float] = []
        thread = threading.Thread(target=lambda: found.append(COUNT))
        thread.start()
        thread.join()
        return x * found[0]

    staged = fg.jit(through_a_thread)
    with pytest.warns(JitWarning, match="may read more"):
        assert float(staged(1.0)) == COUNT


def test_a_partial_that_is_jitted_is_watched_as_its_function_is():
    def scaled(factor, x):
        return factor * x + offset

    offset = 1.0
    alone, partly = fg.jit(lambda x: scaled(2.0, x)), fg.jit(partial(scaled, 2.0))
    assert [float(each(3.0)) for each in (alone, partly)] == [7.0, 7.0]
    offset = 2.0
    assert [float(each(3.0)) for each in (alone, partly)] == [8.0, 8.0]
    # Not the attributes of ``functools.partial``, which is of Python's own library.
    assert Libraries("functools").has_class(partial)

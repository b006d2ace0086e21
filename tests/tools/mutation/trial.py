"""Planting mistakes into a copy of the repository, and running tests there.

``workshop`` makes the copy; the original files are never changed. In the copy two processes wait,
forked from one that has imported NumPy, SciPy, pytest and hypothesis:

* ``Suite`` is a process that has collected all tests. For each mutant it forks: the child exchanges
  the code of the changed functions and runs the tests that it is told to, until one fails.
* A mistake in what an import executes needs the import: ``tried_anew`` forks a process without the
  package, which imports it with the mistake and collects only the files of its tests.
"""

from __future__ import annotations

import gc
import importlib
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing import Pipe
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final, NamedTuple

import hypothesis
import numpy as np
import pytest
import scipy.linalg
import scipy.optimize
import scipy.special
import scipy.stats  # noqa: F401  # for children

from tests.tools.mutation.mutants import Mutant
from tests.tools.mutation.reach import Reach, Recording

for name in ("llvmlite.binding", "sklearn.base"):  # which children would import
    with suppress(ImportError):
        importlib.import_module(name)

ROOT: Final = Path(__file__).parents[3]
_COPIED: Final = ("funcgrad", "tests", "typings", "examples")
_FILES: Final = ("pyproject.toml", "README.md", "CHANGELOG.md")
_MEMORY: Final = 8 << 30
_OPTIONS: Final = (
    *("-n", "0", "-q", "--no-header", "--tb=no", "-p", "no:cacheprovider"),
    *("-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning"),
)


class Verdict(NamedTuple):
    """``killed``, ``late`` or ``survived``, and the test that failed."""

    word: str
    test: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The verdict on a mutant.

    Attributes
    ----------
    path : str
        The file, relative to the repository.
    mutant : Mutant
    verdict : str
        ``killed`` by a quick test or an import that fails, ``late`` if a quick test took too long,
        ``slowly`` if only slow tests fail, ``survived`` if no test does, ``unreached`` if there
        is none that executes the mistake.
    test : str, optional
        The test that failed.
    """

    path: str
    mutant: Mutant
    verdict: str
    test: str = ""

    def __str__(self) -> str:
        by = f"  by {self.test}" if self.test else ""
        return f"{self.verdict:9} {self.path}:{self.mutant.line}:{self.mutant.what}{by}"

    def is_told_in(self, line: str) -> bool:
        """Whether a line of a report has this verdict on this mutant, at any line number."""
        place = re.escape(f"{self.verdict:9} {self.path}:")
        return (
            re.fullmatch(place + r"\d+:" + re.escape(self.mutant.what) + "(  by .*)?", line)
            is not None
        )


@contextmanager
def workshop(root: Path = ROOT) -> Iterator[Path]:
    """Make a copy of the repository, which is removed when the block ends."""
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        copy = Path(folder)
        for name in _COPIED:
            ignored = shutil.ignore_patterns("__pycache__", ".hypothesis")
            shutil.copytree(root / name, copy / name, ignore=ignored)
        for name in _FILES:
            shutil.copy(root / name, copy / name)
        yield copy


@contextmanager
def planted(file: Path, mutant: Mutant) -> Iterator[tuple[str, str]]:
    """Plant a mistake, and take it out again; yield the source and that with the mistake.

    The file of byte code is for the source's time: it stays valid for the source only.
    """
    source, status = file.read_text(), file.stat()
    changed = mutant.planted(source)
    file.write_text(changed)
    try:
        yield source, changed
    finally:
        file.write_text(source)
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


def forked(work: Callable[[], Any], seconds: float, late: Any, died: Any) -> Any:
    """Do a work in a process of its own, and return its result; or say that it came late or died.

    All processes that it started end with it. A process that has used its processor time is late.
    """
    return _awaited(*_started(work), seconds, late, died)


def _started(work: Callable[[], Any]) -> tuple[int, Any]:
    """A process that does a work, and where its result comes out."""
    receiver, sender = Pipe(duplex=False)
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            receiver.close()
            sender.send(work())
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    sender.close()
    return pid, receiver


def _awaited(pid: int, receiver: Any, seconds: float, late: Any, died: Any) -> Any:
    result, ended = late, False
    try:
        if receiver.poll(seconds):
            result = receiver.recv()
    except EOFError:
        _, status = os.waitpid(pid, 0)
        ended = True
        result = late if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU else died
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    if not ended:
        os.waitpid(pid, 0)
    receiver.close()
    return result


def processor_seconds() -> float:
    """The processor time of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


class _Plugin:
    """A plugin of pytest that hands the collected tests over, and hears of failures."""

    def __init__(self, serve: Callable[[_Plugin, list[pytest.Item]], None] | None = None) -> None:
        self.serve = serve
        self.failed = ""
        self.only: frozenset[str] | None = None

    def pytest_configure(self) -> None:
        """Take the failing example that hypothesis finds first: nobody reads it. Do what its
        plugin does. Hide this tool from the processes that tests start, which would import it."""
        sys.modules["__main__"] = ModuleType("__main__")
        if os.environ.pop("HYPOTHESIS_NO_PLUGINS", ""):
            with suppress(ImportError):
                importlib.import_module("funcgrad.testing.registration").register()
        phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
        profile = hypothesis.settings.get_profile("repeatable")
        hypothesis.settings.register_profile("once", parent=profile, phases=phases)
        hypothesis.settings.load_profile("once")

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Choose the tests."""
        if self.only is not None:
            items[:] = [item for item in items if item.nodeid in self.only]

    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Let the caller run the tests."""
        if self.serve is None:
            return None
        self.serve(self, session.items)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the first failure."""
        if report.failed and not self.failed:
            self.failed = report.nodeid


def _quietly() -> None:
    """Write nothing."""
    null = os.open(os.devnull, os.O_RDWR)
    for place in (0, 1, 2):
        os.dup2(null, place)


def _captured_apart(session: pytest.Session) -> None:
    """Capture output in files of this process."""
    manager: Any = session.config.pluginmanager.getplugin("capturemanager")
    manager.stop_global_capturing()
    _quietly()
    manager.start_global_capturing()


def _limited(seconds: float) -> None:
    """Limit the memory, and the processor time from now on."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    memory = pages * resource.getpagesize() + _MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (memory, resource.getrlimit(resource.RLIMIT_AS)[1]))
    _allow(seconds)


def _allow(seconds: float) -> None:
    until = int(time.process_time() + seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (until, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def _collect(serve: Callable[[_Plugin, list[pytest.Item]], None]) -> None:
    """Collect all tests, and hand them over."""
    pytest.main([*_OPTIONS, "--all"], plugins=[_Plugin(serve)])


def _run(plugin: _Plugin, items: Sequence[pytest.Item], limits: Mapping[str, float]) -> Verdict:
    """Run tests until one fails."""
    for item, following in zip(items, [*items[1:], None], strict=True):
        _allow(limits.get(item.nodeid, 20.0))
        item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
        if plugin.failed:
            return Verdict("killed", plugin.failed)
    return Verdict("survived")


class Suite:
    """A process that has collected all tests and waits for mutants."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._pipe, other = Pipe()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                self._pipe.close()
                _collect(lambda plugin, items: self._served(other, plugin, items))
            finally:
                os._exit(0)
        other.close()
        self.tests: dict[str, bool] = self._pipe.recv()
        """Whether each is slow."""
        self.seconds = 0.0
        """The processor time of the process and its trials."""

    def tried(
        self, path: str, sources: tuple[str, str], tests: Sequence[str], limits: Mapping[str, float]
    ) -> Verdict | None:
        """Run tests with the second source for the first; None if functions cannot be exchanged."""
        self._pipe.send((path, sources, tests, limits))
        answer: Verdict | None
        answer, self.seconds = self._pipe.recv()
        return answer

    def close(self) -> None:
        """End the process."""
        self._pipe.close()
        os.waitpid(self._pid, 0)

    def _served(self, pipe: Any, plugin: _Plugin, items: list[pytest.Item]) -> None:
        functions = _functions(self.root)
        by_name = {item.nodeid: item for item in items}
        gc.collect()
        gc.freeze()
        pipe.send({item.nodeid: item.get_closest_marker("slow") is not None for item in items})
        while True:
            try:
                path, sources, names, limits = pipe.recv()
            except EOFError:
                return
            chosen = [by_name[name] for name in names if name in by_name]

            def work(
                changed: tuple[str, str] = sources,
                file: str = str(self.root / path),
                chosen: Sequence[pytest.Item] = chosen,
                limits: Mapping[str, float] = limits,
            ) -> Verdict | None:
                if changed[0] != changed[1] and not _exchanged(functions, file, *changed):
                    return None
                _captured_apart(items[0].session)
                _limited(20.0)
                return _run(plugin, chosen, limits)

            seconds = 120.0 + 4 * sum(limits.get(name, 20.0) for name in names)
            found = forked(work, seconds, Verdict("late"), Verdict("killed", "a process died"))
            pipe.send((found, processor_seconds()))


def _key(code: CodeType) -> tuple[Any, ...]:
    return code.co_filename, code.co_qualname, tuple(code.co_positions())


def _functions(root: Path) -> dict[tuple[Any, ...], list[FunctionType]]:
    """The functions of the package by their code, without those whose code is looked up in tables
    or is a value of a module: the code could not be exchanged there."""
    gc.unfreeze()
    inside = str(root / "funcgrad")
    functions: dict[tuple[Any, ...], list[FunctionType]] = {}
    codes: dict[int, CodeType] = {}
    for each in gc.get_objects():
        if type(each) is FunctionType and each.__code__.co_filename.startswith(inside):
            functions.setdefault(_key(each.__code__), []).append(each)
            codes[id(each.__code__)] = each.__code__
    for table in gc.get_referrers(*codes.values()):
        if type(table) is dict and table is not codes:
            for held in (*table, *table.values()):
                if type(held) is CodeType:
                    functions.pop(_key(held), None)
    return functions


def _exchanged(
    functions: Mapping[tuple[Any, ...], list[FunctionType]], file: str, old: str, new: str
) -> bool:
    """Exchange the code of the functions that differ; return whether there are such functions."""
    before, after = [compile(text, file, "exec", dont_inherit=True) for text in (old, new)]
    done = False
    for was, now in _changed(before, after):
        for function in functions.get(_key(was), ()):
            try:
                function.__code__ = now
            except ValueError:  # it has other variables of functions around it
                return False
            done = True
    return done


def _changed(before: CodeType, after: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """Pairs of the codes inside that differ, and those around them."""
    if _same(before, after):
        return
    yield before, after
    inside = [[c for c in each.co_consts if isinstance(c, CodeType)] for each in (before, after)]
    if len(inside[0]) == len(inside[1]):
        for was, now in zip(*inside, strict=True):
            yield from _changed(was, now)


def _same(before: CodeType, after: CodeType) -> bool:
    """Whether two codes do the same; lines may differ."""

    def parts(code: CodeType) -> tuple[Any, ...]:
        consts = [(type(c), repr(c)) for c in code.co_consts if not isinstance(c, CodeType)]
        return code.co_code, code.co_names, code.co_varnames, code.co_freevars, consts

    inside = [[c for c in each.co_consts if isinstance(c, CodeType)] for each in (before, after)]
    return (
        parts(before) == parts(after)
        and len(inside[0]) == len(inside[1])
        and all(map(_same, *inside))
    )


def tried_anew(tests: Sequence[str], limits: Mapping[str, float]) -> Verdict:
    """Import the package in a process of its own, collect the files of tests, and run them."""
    files = list(dict.fromkeys(test.split("::")[0] for test in tests))
    order = {test: place for place, test in enumerate(tests)}

    def serve(plugin: _Plugin, items: list[pytest.Item]) -> None:
        items.sort(key=lambda item: order[item.nodeid])
        result.append(_run(plugin, items, limits))

    result: list[Verdict] = []

    def work() -> Verdict:
        _quietly()
        _limited(60.0)
        plugin = _Plugin(serve)
        plugin.only = frozenset(tests)
        status = pytest.main([*_OPTIONS, *files], plugins=[plugin])
        if result:
            return result[0]
        nothing = status == pytest.ExitCode.NO_TESTS_COLLECTED
        return Verdict("survived") if nothing else Verdict("killed", "import")

    seconds = 300.0 + 4 * sum(limits.get(test, 20.0) for test in tests)
    return forked(work, seconds, Verdict("late"), Verdict("killed", "a process died"))


def recorded(root: Path, slow: bool, jobs: int) -> tuple[Reach, list[str]]:
    """Run the quick tests, or all, to find which blocks each executes; tell which failed."""

    def serve(plugin: _Plugin, items: list[pytest.Item]) -> None:
        at_import = recording.taken()
        chosen = [item for item in items if slow or item.get_closest_marker("slow") is None]
        files = {file: n for n, file in enumerate(dict.fromkeys(item.path for item in chosen))}
        shares = [
            [item for item in chosen if files[item.path] % jobs == k]
            for k in range(min(jobs, len(files)))
        ]
        works = [_started(partial(_executed, plugin, share, recording)) for share in shares]
        tests: dict[str, tuple[bool, float]] = {}
        rows = []
        for work in works:
            more_tests, more_rows, more_failing = _awaited(*work, 3 * 3600.0, None, None)
            tests.update(more_tests)
            rows.append(more_rows)
            failing.extend(more_failing)
        made.append(Reach(recording.places, tests, np.concatenate(rows), at_import))

    recording = Recording(root)
    made: list[Reach] = []
    failing: list[str] = []
    _collect(serve)
    return made[0], failing


def _executed(
    plugin: _Plugin, items: Sequence[pytest.Item], recording: Recording
) -> tuple[dict[str, tuple[bool, float]], Any, list[str]]:
    """Run tests; those that pass, the blocks that they executed, and those that failed."""
    _captured_apart(items[0].session)
    tests: dict[str, tuple[bool, float]] = {}
    rows, failing = [], []
    for item, following in zip(items, [*items[1:], None], strict=True):
        began = time.process_time()
        item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
        seconds = time.process_time() - began
        row = recording.taken()
        if plugin.failed:
            failing.append(plugin.failed)
            plugin.failed = ""
        else:
            is_slow = item.get_closest_marker("slow") is not None
            tests[item.nodeid] = (is_slow, round(seconds, 4))
            rows.append(row)
    return tests, np.stack(rows), failing

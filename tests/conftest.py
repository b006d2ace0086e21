"""Options of pytest: which tests run, and as if on what.

`python -m pytest` runs the quick tests, and gives the same verdict everywhere. The slow ones run,
too, with `--all`, and where files, `-k` or `-m` choose the tests::

    python -m pytest --all

One of three shares of the slow tests alone; a commit of the next day has the next share::

    python -m pytest --slow-share 3

Many small checks are one test. To choose among them by name, make each a test of its own::

    python -m pytest --apart -k sinh

To search further than with the examples that are the same on every run::

    python -m pytest --hypothesis-profile=explore

Functions that are jitted without naming a backend have the default one, or the one that is named::

    python -m pytest --backend numpy

Arrays that are passed to the library are put on a device, with the tests' own device "fake", or
another of ``fg.devices()``. `tests/backends/on_devices.md` lists the tests that fail then, and why;
a listed test that passes is an error::

    python -m pytest --device fake

The library can be tried as on an interpreter that is newer than those that it knows::

    python -m pytest --unknown-interpreter
"""

import gc
import importlib
import os
import pkgutil
import subprocess
import sys
import warnings
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from zlib import crc32

# NumPy's OpenBLAS reads this once, when it is loaded. With a thread for each core, the threads of
# the suite's processes wait for one another: the examples then take five times as long.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("FUNCGRAD_TRACEBACKS", "full")  # for those who repair the library
# Tests leave the user's folder of machine code alone; those of the cache have one of their own.
os.environ["FUNCGRAD_CACHE"] = "0"
# All processes of the tests read the byte code that one of them wrote: to compile the sources takes
# ten seconds.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings

import funcgrad
from funcgrad._backends import choice
from funcgrad._base import interpreters
from funcgrad._staging.jit import JitWarning
from tests import together
from tests.backends.differences import mark

sys.dont_write_bytecode = False

# No deadlines: the first call of a function may be slow, and machines differ.
ANY_TIME: Any = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile(
    "repeatable",
    derandomize=True,
    max_examples=50,
    # An explanation takes longer than to find what it explains, as many tests have Hypothesis do.
    phases=[phase for phase in Phase if phase is not Phase.explain],
    **ANY_TIME,
)
settings.register_profile("quick", settings.get_profile("repeatable"), max_examples=30)
settings.register_profile("explore", max_examples=1000, **ANY_TIME)
settings.load_profile("repeatable")
# Hypothesis would draw numbers that stand in the library's sources, too: others after each change,
# and to read the sources takes each process four seconds.
with suppress(ImportError):  # earlier versions draw none
    providers: Any = importlib.import_module("hypothesis.internal.conjecture.providers")
    providers._get_local_constants = lambda: providers._local_constants


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that names the backend of functions that name none."""
    parser.addoption("--all", action="store_true", help="run the slow tests, too")
    parser.addoption("--slow-share", type=int, metavar="N", help="run an Nth of the slow tests")
    parser.addoption("--apart", action="store_true", help="make each check of `together` a test")
    parser.addoption(
        "--backend", choices=("numpy", "native", "xla"), help="the default backend of jit"
    )
    parser.addoption("--device", help="the default device of arrays")
    parser.addoption(
        "--unknown-interpreter",
        action="store_true",
        help="run as on an interpreter whose byte code the library does not know",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Leave out slow tests if nothing was chosen. Make the backend that the option names the
    default; raise if this machine lacks it."""
    together.apart(config.getoption("apart"))
    collects = config.getoption("dist", "no") == "no" or hasattr(config, "workerinput")
    if collects and not all(path.startswith("tests/") for path in config.args):
        _import_all()  # four seconds, which neither tests nor the process that hands them out need
    if config.args_source is not pytest.Config.ArgsSource.ARGS and not _chosen(config):
        config.option.markexpr = "slow" if config.getoption("slow_share") else "not slow"
    if config.getoption("markexpr") == "not slow" or config.getoption("slow_share"):
        _compile_quickly()
    if config.getoption("markexpr") == "not slow" and not config.getoption("hypothesis_profile"):
        settings.load_profile("quick")
    if collects:
        config.pluginmanager.register(_Collected(config))
    if config.getoption("unknown_interpreter"):
        setattr(interpreters, "PROVED", frozenset())  # noqa: B010  # it is Final
    backend = config.getoption("backend")
    if backend is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            choice.chosen_backend(backend, "pytest --backend")
        choice.DEFAULT = backend
    if config.getoption("device") is not None:
        from tests.backends.default_device import make_default

        make_default(config.getoption("device"))
        config.addinivalue_line("filterwarnings", "ignore::funcgrad.errors.DeviceWarning")


def _import_all() -> None:
    """Import every module of the package.

    To collect the examples of a file, pytest executes it, once more if its package has imported it
    already: then there are two of each class. A module that is imported before is taken as it is.
    """
    for module in pkgutil.walk_packages(funcgrad.__path__, "funcgrad."):
        importlib.import_module(module.name)


def _compile_quickly() -> None:
    """Have LLVM optimize no code, as for long programs: it takes half of the time. The tests of the
    native backend, and all tests with ``--all``, run the code that users run."""
    with suppress(ImportError):  # of llvmlite
        native_code: Any = importlib.import_module("funcgrad._backends.native.native_code")
        native_code.QUICKLY = 0


def _chosen(config: pytest.Config) -> bool:
    """Whether an option says which tests run."""
    return any(config.getoption(name) for name in ("all", "markexpr", "keyword"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how to run the tests that were left out."""
    if terminalreporter.config.getoption("markexpr") == "not slow":
        terminalreporter.write_line("Slow tests were left out. All: python -m pytest --all")


Collected = Generator[None, list[pytest.Collector], list[pytest.Collector]]


class _Collected:
    """What is collected: of files without an example no examples, and of those whose tests are all
    slow no tests where slow ones are left out. Those files are not even imported."""

    def __init__(self, config: pytest.Config) -> None:
        self._leaves_out_slow = (  # but pytest says "not found" of a named file without tests
            config.getoption("markexpr") == "not slow" and config.args == config.getini("testpaths")
        )
        self._paths: list[str] = config.getini("testpaths")
        options = {
            "--device fake": "device",
            "--device xla:cpu:0": "device",
            "--backend xla": "backend",
        }
        self._differs = [
            option
            for option, name in options.items()
            if option.split()[1] == config.getoption(name)
        ]
        self._shares: int = config.getoption("slow_share") or 1
        worker = getattr(config, "workerinput", {}).get("workerid")
        if worker == "gw1" and config.args == self._paths:
            config.args.reverse()  # so each of two processes reads what the other has compiled

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(self, file_path: Path) -> Collected:
        collectors = yield
        if file_path.suffix != ".py" or not collectors:
            return collectors
        text = file_path.read_text("utf-8")
        has_examples = ">>> " in text
        all_are_slow = "\npytestmark = pytest.mark.slow\n" in text
        has_tests = not (self._leaves_out_slow and all_are_slow)
        return [
            collector
            for collector in collectors
            if (has_tests if type(collector) is pytest.Module else has_examples)
        ]

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Put the tests into one order, whatever order their files were read in; mark those that
        differ on a device; choose a share."""
        if self._shares > 1:
            today = _day_of_commit() % self._shares
            shares = [(crc32(item.nodeid.encode()) % self._shares, item) for item in items]
            config.hook.pytest_deselected(items=[i for share, i in shares if share != today])
            items[:] = [item for share, item in shares if share == today]
        for option in self._differs:
            mark(items, option)
        items.sort(key=lambda item: [not item.nodeid.startswith(path) for path in self._paths])


def _day_of_commit() -> int:
    """The day of this commit, which repetitions agree on; 0 where there is no repository."""
    command = ["git", "log", "-1", "--format=%ct"]
    seconds = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return int(seconds or 0) // 86400


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Freeze the collected tests: else every garbage collection visits a million objects."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True, scope="module")
def _what_is_left_of_other_files_is_set_apart() -> None:
    """Freeze the objects that earlier tests left behind, a million in all: garbage collections
    would visit them every time."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def quiet() -> Iterator[None]:
    """Ignore floating-point errors of tests at awkward numbers."""
    with np.errstate(all="ignore"):
        yield


@pytest.fixture
def without_collector() -> Iterator[None]:
    """Free objects only as their last reference goes."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.fixture(autouse=True)
def _no_failure_is_hidden_by_jit() -> None:
    """Make `jit`'s warning about a program that cannot be compiled an error, also in tests that
    ignore NumPy's RuntimeWarnings."""
    warnings.filterwarnings("error", category=JitWarning)

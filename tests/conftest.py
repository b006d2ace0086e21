"""Hypothesis profiles: the same examples on every run, or a long search for new ones.

`python -m pytest` gives the same verdict everywhere. To search further::

    python -m pytest --hypothesis-profile=explore

Functions that are jitted without naming a backend have the default one, or the one that is named::

    python -m pytest --backend numpy

``tests/jitting.py`` finds the tests for which that makes a difference.

The library can be tried as on an interpreter that is newer than those that it knows::

    python -m pytest --unknown-interpreter
"""

import gc
import importlib
import os
import pkgutil
import warnings
from collections.abc import Iterator

# NumPy's OpenBLAS reads this once, when it is loaded. With a thread for each core, the threads of
# the suite's processes wait for one another: the examples then take five times as long.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Tests leave the user's folder of machine code alone; those of the cache have one of their own.
os.environ["FUNCGRAD_CACHE"] = "0"

import pytest
from hypothesis import settings

import funcgrad
from funcgrad import interpreters
from funcgrad.backends import choice
from funcgrad.staging.jit import JitWarning
from tests.jitting import Jitting

# No deadlines: the first call of a function may be slow, and machines differ.
settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=50)
settings.register_profile("explore", deadline=None, max_examples=1000)
settings.load_profile("repeatable")

# To collect the examples of a file, pytest executes it, once more if its package has imported it
# already: then there are two of each class. What is imported before is taken as it is.
for module in pkgutil.walk_packages(funcgrad.__path__, "funcgrad."):
    importlib.import_module(module.name)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that names the backend of functions that name none."""
    parser.addoption("--backend", choices=("numpy", "native"), help="the default backend of jit")
    parser.addoption(
        "--jitting",
        action="store_true",
        help="leave out the tests that passed before without jit's default backend",
    )
    parser.addoption(
        "--unknown-interpreter",
        action="store_true",
        help="run as on an interpreter whose byte code the library does not know",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the backend that the option names the default; raise if this machine lacks it."""
    config.pluginmanager.register(Jitting(config))
    if config.getoption("unknown_interpreter"):
        setattr(interpreters, "PROVED", frozenset())  # noqa: B010  # it is Final
    backend = config.getoption("backend")
    if backend is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            choice.chosen_backend(backend, "pytest --backend")
        choice.DEFAULT = backend


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


@pytest.fixture(autouse=True)
def _no_failure_is_hidden_by_jit() -> None:
    """Make `jit`'s warning about a program that cannot be compiled an error, also in tests that
    ignore NumPy's RuntimeWarnings."""
    warnings.filterwarnings("error", category=JitWarning)

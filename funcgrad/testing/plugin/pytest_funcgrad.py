"""The plugin for pytest: a fixture ``key``, and options for debugging tests.

It is installed beside the package, because an import from inside the package loads NumPy. Pytest
loads plugins at every start, and this one imports nothing before a test needs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from funcgrad import Tensor


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("funcgrad")
    group.addoption(
        "--funcgrad-keys",
        action="store_true",
        help="raise if a random key is used twice (fg.random.check_keys)",
    )
    group.addoption(
        "--funcgrad-eager",
        action="store_true",
        help="run functions that are jitted without staging them, for a debugger or prints",
    )
    group.addoption(
        "--funcgrad-nans",
        action="store_true",
        help="raise if a result is NaN, with its cause (fg.debug.raise_nans)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make jit return functions unchanged from now on, also in modules that are loaded later."""
    if config.getoption("--funcgrad-nans"):
        _raise_nans()
    if config.getoption("--funcgrad-eager"):
        from funcgrad._staging.eagerness import EAGER

        token = EAGER.set(True)
        config.add_cleanup(lambda: EAGER.reset(token))


def _raise_nans() -> Any:
    import funcgrad

    made = getattr(getattr(funcgrad, "debug", None), "raise_nans", None)
    if made is None:
        raise pytest.UsageError(
            f"--funcgrad-nans: funcgrad {funcgrad.__version__} has no debug.raise_nans."
        )
    return made


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Run each test within the contexts that options ask for."""
    with ExitStack() as contexts:
        if item.config.getoption("--funcgrad-keys"):
            from funcgrad.random import check_keys

            contexts.enter_context(check_keys())
        if item.config.getoption("--funcgrad-nans"):
            contexts.enter_context(_raise_nans()())
        return (yield)


@pytest.fixture
def key(request: pytest.FixtureRequest) -> Tensor:
    """A random key for this test, made from its name.

    Tests draw different numbers, and each test the same ones at every run, in any order of tests.
    """
    from funcgrad.random import key, named

    return named(key(0), request.node.nodeid.partition("::")[2])

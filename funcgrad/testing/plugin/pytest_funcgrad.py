"""The plugin for pytest: a fixture ``key``, and options that look into tests with funcgrad.

It is installed beside the package, since whatever is imported from inside of that loads NumPy:
pytest loads plugins at every start, and this one loads nothing before a test asks for it.
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
        help="raise where random numbers are drawn from one key twice (fg.random.check_keys)",
    )
    group.addoption(
        "--funcgrad-eager",
        action="store_true",
        help="run functions that are jitted without staging them, for a debugger or prints",
    )
    group.addoption(
        "--funcgrad-nans",
        action="store_true",
        help="raise where a result is NaN, with its cause (fg.debug.raise_nans)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Have jit leave functions as they are from now on, also in modules that are not loaded yet."""
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
    """A key of random numbers for this test, which is made from its name.

    So tests draw different numbers, and each the same at every run, in whatever order they run.
    """
    from funcgrad.random import key, named

    return named(key(0), request.node.nodeid.partition("::")[2])

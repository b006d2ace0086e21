"""Tell the tests that depend on the default backend of `jit` from those that do not.

A test depends on it if, while it ran, a function was jitted or called that names no backend. Those
that passed without are noted in pytest's cache; `--jitting` leaves them out, since they would do
the same on every backend::

    python -m pytest --all
    python -m pytest --all --backend numpy --jitting

Tests of files that hold jitted functions are never left out: such a function asks for its backend
in the test that calls it first.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from funcgrad.backends.choice import LateChoice
from funcgrad.staging.jit import Jitted

_KEY = "funcgrad/independent_of_the_backend"
_PROPERTY = ("jits", True)


class Jitting:
    """Hooks of pytest; with several processes each has one, and the first one keeps the notes."""

    def __init__(self, config: pytest.Config) -> None:
        self._cache: Any = getattr(config, "cache", None)
        self._notes = not hasattr(config, "workerinput") and self._cache is not None
        self._leaves_out = config.getoption("jitting")
        self._has_jitted = False
        self._passed: set[str] = set()
        self._jitting: set[str] = set()
        self._observe("backend")
        self._observe("directly_callable")

    def _observe(self, name: str) -> None:
        method = getattr(LateChoice, name)

        def observed(*args: Any) -> Any:
            self._has_jitted = True
            return method(*args)

        setattr(LateChoice, name, observed)

    def _known(self) -> set[str]:
        return set(self._cache.get(_KEY, ())) if self._cache is not None else set()

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Leave out the tests that do not depend on the backend, if that is wanted."""
        if not self._leaves_out:
            return
        known = self._known()
        dropped = [item for item in items if item.nodeid in known and not _holds_jitted(item)]
        config.hook.pytest_deselected(items=dropped)
        independent = set(dropped)
        items[:] = [item for item in items if item not in independent]

    def pytest_runtest_logstart(self) -> None:
        """Forget what was jitted between two tests."""
        self._has_jitted = False

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Iterator[None]:
        """Give the report of a test that has jitted a property, which the first process reads."""
        if self._has_jitted and _PROPERTY not in item.user_properties:
            item.user_properties.append(_PROPERTY)
        return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note what a test did."""
        if _PROPERTY in map(tuple, report.user_properties):
            self._jitting.add(report.nodeid)
        if report.when == "call" and report.passed:
            self._passed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        """Keep the notes for the next run."""
        if self._notes:
            known = (self._known() | self._passed) - self._jitting
            self._cache.set(_KEY, sorted(known))


def _holds_jitted(item: pytest.Item) -> bool:
    """Whether a name of the test's file is a jitted function."""
    names = getattr(getattr(item, "module", None), "__dict__", {})
    return any(isinstance(value, Jitted) for value in names.values())

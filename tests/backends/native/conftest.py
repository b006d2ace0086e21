"""Each plan is checked; tests that patch the library leave threads alone of earlier tests."""

import os
import threading
from collections.abc import Iterator
from unittest.mock import patch

import pytest


@pytest.fixture(autouse=True)
def _plans_are_checked() -> Iterator[None]:
    with patch.dict(os.environ, FUNCGRAD_VERIFY="1"):
        yield


@pytest.fixture(autouse=True)
def _nothing_is_improved_meanwhile(request: pytest.FixtureRequest) -> None:
    """Wait for the programs of earlier tests: where a test patches, their threads would fail."""
    if "monkeypatch" in request.fixturenames:
        for thread in threading.enumerate():
            if thread.name == "funcgrad compiles":
                thread.join()

"""Each plan is checked; tests that patch the library leave threads alone of earlier tests."""

import os
import sys
import threading
from collections.abc import Iterator
from unittest.mock import patch

import pytest


@pytest.fixture(autouse=True)
def _plans_are_checked() -> Iterator[None]:
    with patch.dict(os.environ, FUNCGRAD_VERIFY="1"):
        yield


@pytest.fixture(autouse=True)
def _code_is_that_of_users() -> Iterator[None]:
    """Also in the quick tests, which elsewhere have LLVM optimize none."""
    processor = sys.modules.get("funcgrad._backends.native.processor")
    if processor is None:
        yield
        return
    with patch("funcgrad._backends.native.native_code.QUICKLY", processor.QUICKLY):
        yield


@pytest.fixture(autouse=True)
def _nothing_is_improved_meanwhile(request: pytest.FixtureRequest) -> None:
    """Wait for the programs of earlier tests: where a test patches, their threads would fail."""
    if "monkeypatch" in request.fixturenames:
        for thread in threading.enumerate():
            if thread.name == "funcgrad compiles":
                thread.join()

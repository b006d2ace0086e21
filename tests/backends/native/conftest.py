"""Tests that patch the library leave threads alone that improve code of earlier tests."""

import threading

import pytest


@pytest.fixture(autouse=True)
def _nothing_is_improved_meanwhile(request: pytest.FixtureRequest) -> None:
    """Wait for the programs of earlier tests: where a test patches, their threads would fail."""
    if "monkeypatch" in request.fixturenames:
        for thread in threading.enumerate():
            if thread.name == "funcgrad compiles":
                thread.join()

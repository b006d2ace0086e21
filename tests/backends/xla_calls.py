"""Calls by XLA, for tests of several files; modules of tests need JAX when they are imported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import funcgrad as fg


def on_xla(f: Callable[..., Any], *args: Any) -> tuple[Any, Any]:
    jitted = fg.jit(f, backend="xla")
    result = jitted(*args)
    assert not jitted.failures, jitted.failures[0].error
    return jitted, result

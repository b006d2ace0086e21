"""One check of a function of arrays: its derivatives, its program and its batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from funcgrad.testing import check_grads, laws


def assert_every_mode(f: Callable[..., Any], *args: Any, order: int = 2) -> None:
    """Check derivatives of both modes against numerical ones, ``jit`` against evaluation, and
    ``vmap`` against a loop, the last two with their pullbacks."""
    check_grads(f, args, order=order)
    laws.jit_is_eager(f, args)
    laws.vmap_is_loop(f, args)

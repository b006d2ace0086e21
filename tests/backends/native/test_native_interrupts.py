"""An interrupt that comes while code is being improved ends the call, as at any other moment."""

from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp

pytest.importorskip("llvmlite")


class Interrupt(BaseException):
    """An exception like KeyboardInterrupt."""


def interrupt(*_: object, **__: object) -> None:
    """Begin a thread while the user presses Ctrl-C."""
    raise Interrupt


def call_until_it_is_interrupted(f: Any, x: Any) -> None:
    for _ in range(1_000_000):
        f(x)


def test_interrupts_come_out_and_code_is_improved_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUNCGRAD_CACHE", "0")  # in which the best code may be
    f, x = fg.jit(lambda x: fnp.sum(fnp.sqrt(x) * x), backend="native"), np.ones(10_000)
    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr("funcgrad._backends.native.native_code.begin_thread", interrupt)
            with pytest.raises(Interrupt):
                call_until_it_is_interrupted(f, x)
        # After the first interrupt the next call asks for a thread, again in vain.
    assert float(f(x)) == 10_000.0

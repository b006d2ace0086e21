"""Programs as machine code, for this processor or for another one that this can run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import funcgrad as fg
from funcgrad._backends.native.native_backend import NATIVE, NativeBackend
from funcgrad._backends.native.processor import Processor, Toolchain
from funcgrad._core.trace import concrete
from tests.backends.native.vector_functions import AVX2, GENERIC, HOST

OTHERS = (GENERIC,) if HOST.is_arm else (GENERIC, AVX2)


def machine_code_of(f: Callable[..., Any], *args: Any, machine: Processor | None = None) -> Any:
    """What machine code gives; errors of compiling come out."""
    backend = NATIVE
    if machine is not None:
        backend = NativeBackend()
        backend._tools = Toolchain(machine)
    code = backend.compile(backend.prepare(fg.program(f)(*args), False))
    with np.errstate(all="ignore"):  # else NumPy would evaluate it
        outputs = code.run(*[concrete(leaf) for leaf in fg.tree.leaves((args, {}))])
    assert outputs is not None
    return list(outputs)

"""Checks of the library by itself, which the environment or a context asks for.

``FUNCGRAD_VERIFY=1`` has every plan of machine code proved before it is written
(``_backends/native/plan_check.py``). ``FUNCGRAD_VALIDATE=1`` and ``fg.testing.validated()`` have
every pass tried on values (``_passes/trials_of_passes.py``).

>>> with_validation = VALIDATED.set(True)
>>> is_validated()
True
>>> VALIDATED.reset(with_validation)
"""

from __future__ import annotations

import os
from contextvars import ContextVar
from typing import Final

VALIDATED: Final[ContextVar[bool]] = ContextVar("funcgrad_validated", default=False)
"""Whether passes are tried in this context."""


def is_verified() -> bool:
    """Whether plans are checked before they are written."""
    return os.environ.get("FUNCGRAD_VERIFY") == "1"


def is_validated() -> bool:
    """Whether the results of passes are compared on values."""
    return VALIDATED.get() or os.environ.get("FUNCGRAD_VALIDATE") == "1"

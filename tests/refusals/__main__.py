"""All changes of all calls: ``python -m tests.refusals [eager jit grad vmap]`` takes minutes."""

from __future__ import annotations

import sys

from tests.refusals.modes import MODES
from tests.refusals.sweep import functions, swept

for mode in sys.argv[1:] or MODES:
    for path in functions():
        for line in swept(path, mode):
            sys.stdout.write(line + "\n")

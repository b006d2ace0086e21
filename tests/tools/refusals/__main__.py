"""Try all changes of all calls: ``python -m tests.tools.refusals [eager jit grad vmap]``.

It takes minutes.
"""

from __future__ import annotations

import sys

from tests.tools.refusals.modes import MODES
from tests.tools.refusals.sweep import functions, swept

for mode in sys.argv[1:] or MODES:
    for path in functions():
        for line in swept(path, mode):
            sys.stdout.write(line + "\n")

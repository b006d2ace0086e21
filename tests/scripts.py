r"""Scripts that run in a process of their own.

>>> printed("import sys; print(sys.argv[1])", "argument")
'argument\n'
"""

from __future__ import annotations

import subprocess
import sys


def printed(script: str, *arguments: str) -> str:
    """The output of a script; fail if the script fails, or writes an error or a warning."""
    command = [sys.executable, "-W", "error", "-c", script, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout

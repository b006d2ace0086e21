"""Freed memory is kept for the next arrays, instead of being got from the system again."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

_FAULTS_OF_NEW_ARRAYS = """
import resource
import numpy as np
{first}
def work():
    arrays = [np.ones(2**17) for _ in range(16)]
work()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    work()
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) // 10)
"""


def _faults(first: str) -> int:
    script = _FAULTS_OF_NEW_ARRAYS.format(first=first)
    limits = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    output = subprocess.check_output([sys.executable, "-c", script], env=limits, text=True)
    return int(output)


@pytest.mark.skipif(
    not platform.libc_ver()[0].startswith("glibc"), reason="allocator of another system"
)
def test_memory_that_is_freed_stays_with_the_process() -> None:
    pages = 16 * 2**17 * 8 // 4096
    assert _faults("") > pages // 2  # else there is nothing to gain
    assert _faults("import funcgrad") < pages // 20

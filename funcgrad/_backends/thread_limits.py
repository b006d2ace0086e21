"""How many threads a call may use: told by the user, by the environment, or by the system.

``jit(f, threads=n)`` comes first, then the variable ``FUNCGRAD_THREADS``. Without them a call may
use the cores that the process may use, but no more than ``OMP_NUM_THREADS`` allows, and one thread
in a child process of ``multiprocessing`` or of a fork: its parent has others, on the same cores.

>>> usable_cores() >= 1
True
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

import numpy as np

from funcgrad.errors import ArgumentError

VARIABLE: Final = "FUNCGRAD_THREADS"

_EVER: Final = 1 << 30
"""More threads than anyone has."""


def asked_threads(environment: Mapping[str, str]) -> int | None:
    """The number that ``FUNCGRAD_THREADS`` asks for; None if it is not set.

    Raises
    ------
    ArgumentError
        It is not a positive integer.
    """
    text = environment.get(VARIABLE, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and int(text)):
        raise ArgumentError(
            f"{VARIABLE}={text!r} is not a number of threads. Set a positive integer, such as"
            f" {VARIABLE}=2, or unset it to use the cores of this process."
        )
    return int(text)


def automatic_threads(environment: Mapping[str, str], is_child: bool = False) -> int:
    """The number of threads for calls that ask for none.

    Parameters
    ----------
    environment : mapping
        Variables of the process.
    is_child : bool
        Whether this process is one of several that work together.
    """
    asked = asked_threads(environment)
    if asked is not None:
        return asked
    if is_child:
        return 1
    allowed = environment.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    most = int(allowed) if allowed.isascii() and allowed.isdigit() else 0
    return min(usable_cores(), most or _EVER)


def usable_cores() -> int:
    """The cores that this process may use, by its affinity and the quota of its control group."""
    count = getattr(os, "process_cpu_count", os.cpu_count)() or 1
    if hasattr(os, "sched_getaffinity"):
        with suppress(OSError):
            count = min(count, len(os.sched_getaffinity(0)))
    with suppress(OSError, ValueError):
        count = min(count, _quota("/proc/self/cgroup", "/sys/fs/cgroup"))
    return max(1, count)


def _quota(groups: str, root: str) -> int:
    """The whole cores of processor time that Linux allows the control groups of this process."""
    quotas = [_EVER]
    with open(groups) as file:
        lines = [line.rstrip("\n").split(":", 2) for line in file]
    for _, controllers, path in lines:
        names = controllers.split(",")
        for folder in _ancestors(path):
            if names == [""]:  # version 2 has one hierarchy
                quotas += _read([f"{root}{folder}/cpu.max"])
            elif "cpu" in names:
                place = f"{root}/{controllers}{folder}/cpu.cfs_"
                quotas += _read([f"{place}quota_us", f"{place}period_us"])
    return min(quotas)


def _ancestors(path: str) -> list[str]:
    names = path.strip("/").split("/") if path.strip("/") else []
    return ["".join([f"/{name}" for name in names[:n]]) for n in range(len(names), -1, -1)]


def _read(files: Iterable[str]) -> list[int]:
    """A quota in whole cores, one at least; none where there is no limit."""
    words: list[str] = []
    with suppress(OSError):
        for name in files:
            with open(name) as file:
                words += file.read().split()
    if len(words) != 2 or words[0] in ("max", "-1"):
        return []
    return [max(1, int(words[0]) // int(words[1]))]


class ThreadLimits:
    """The limits of this process, as machine code reads them.

    Attributes
    ----------
    words : array
        0 the threads of a call that asks for no number; 1 the most for any call; 2 how often
        threads were woken for a step; 3 how often one has joined.
    """

    def __init__(self) -> None:
        self.words: np.ndarray[Any, Any] = np.array([0, _EVER, 0, 0], np.int64)
        self._is_child = False
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin_in_child)

    def begin(self) -> None:
        """Find out how many threads calls may use, unless that is known."""
        if not self.words[0]:
            multiprocessing = sys.modules.get("multiprocessing.process")
            parent = getattr(multiprocessing, "parent_process", lambda: None)()
            is_child = self._is_child or parent is not None
            self.words[0] = automatic_threads(os.environ, is_child)

    def use_one(self, yes: bool) -> None:
        """Have all calls use one thread, or as many as they may."""
        self.words[1] = 1 if yes else _EVER

    def _begin_in_child(self) -> None:
        self._is_child = True
        if self.words[0]:
            self.words[0] = 0
            self.begin()


LIMITS: Final = ThreadLimits()

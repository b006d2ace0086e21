"""On macOS and Windows some functions of the system are absent: the library does without them.

Nothing here runs on those systems. A process is made to look like one of them: functions of ``os``,
``signal`` and ``ctypes`` that the system lacks are removed, its files do not exist, and modules
cannot be imported. Then it computes, saves and works in parallel, with the results of this system.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

MACOS = """
for name in ("sched_getaffinity", "sched_setaffinity"):
    vars(os).pop(name, None)
"""

WINDOWS = """
for name in (
    "fork register_at_fork sysconf sched_getaffinity sched_setaffinity getuid geteuid"
    " killpg getpgid setsid pread pwrite posix_fallocate O_CLOEXEC"
).split():
    vars(os).pop(name, None)
for name in ("SIG_BLOCK", "pthread_sigmask", "SIGALRM", "SIGKILL", "SIGUSR1"):
    vars(signal).pop(name, None)
vars(time).pop("CLOCK_MONOTONIC", None)
vars(time).pop("CLOCK_REALTIME", None)
for name in ("fcntl", "resource", "pwd", "termios"):
    sys.modules[name] = None

class Library:  # its functions are those of Python, without the threads of POSIX
    def __init__(self, library):
        self.__dict__["library"] = library
    def __getattr__(self, name):
        if name.startswith("pthread"):
            raise AttributeError(name)
        return getattr(self.library, name)

ctypes.pythonapi = Library(ctypes.pythonapi)
"""

SCRIPT = """
import builtins, ctypes, io, json, os, pathlib, signal, sys, tempfile, threading, time
import numpy as np
from concurrent.futures import ThreadPoolExecutor

real = builtins.open
def without_proc(file, *args, **kwargs):
    if str(file).startswith(("/proc", "/sys", "/dev/shm")):
        raise FileNotFoundError(2, "no such file", str(file))
    return real(file, *args, **kwargs)
builtins.open = io.open = without_proc
{system}
import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import nn, optim, parallel, random
from funcgrad._backends.thread_limits import usable_cores
from funcgrad.parallel.worker_tasks import _memory_share

def loss(w, chunk):
    return fnp.mean((fnp.tanh(chunk["x"] @ w) - chunk["y"]) ** 2)

x = np.linspace(-1, 1, 3000).reshape(1000, 3)
data = dict(x=x, y=np.sin(x[:, 0]))
w = np.array([0.1, -0.2, 0.3])
results = dict()
for backend in {backends}:
    results["jit " + backend] = fg.jit(fg.grad(loss), backend=backend)(w, data)
    results["wide " + backend] = fg.jit(lambda x: fnp.sum(fnp.exp(x) * x), backend=backend)(
        np.linspace(0, 1, 300_000)
    )
results["loop"] = fg.jit(lambda x: fg.scan(lambda c, a: (fnp.sin(c + a), c), 0.0, x)[0])(x[:, 0])
results["random"] = random.normal(random.key(3), (4,))
with ThreadPoolExecutor(2) as pool:
    results["parallel"] = parallel.grad(loss, pool)(w, parallel.slices(data, 200))
with tempfile.TemporaryDirectory() as folder:
    for _ in range(2):
        fg.io.save(pathlib.Path(folder) / "w.safetensors", dict(w=w))
    results["file"] = fg.io.load(pathlib.Path(folder) / "w.safetensors")["w"]
    with fg.io.Checkpoints(pathlib.Path(folder) / "run") as checkpoints:
        checkpoints.save(1, dict(w=w))
        results["step"], _ = checkpoints.latest(dict(w=w))
assert usable_cores() >= 1 and _memory_share() > 0
print(json.dumps(dict((name, np.asarray(value).tolist()) for name, value in results.items())))
"""


def results(system: str) -> dict[str, object]:
    text = SCRIPT.replace("{system}", system).replace("{backends}", "('numpy', 'native')")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", text],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("system", [MACOS, WINDOWS], ids=["macOS", "Windows"])
def test_what_the_system_lacks_is_not_needed(system: str) -> None:
    assert results(system) == results("")

"""A child that is forked while its parent's threads stage, compile and free code works on."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("llvmlite")

FORKS = """
import gc, os, sys, threading, time, warnings
import numpy as np
import funcgrad as fg
import funcgrad.numpy as fnp

warnings.simplefilter("ignore", DeprecationWarning)  # newer versions tell of threads at forks
shared = fg.jit(lambda x: fnp.sum(fnp.tanh(fnp.partition(x, 0)) * x), backend="native")
shared(np.ones(3))  # a module that a thread imports at the fork is locked in the child
numbers = iter(range(1, 100_000))
over = False

def work():
    while not over:
        number = next(numbers)
        x = np.ones(number % 50 + 1)
        shared(np.ones(number))
        fresh = fg.jit(lambda x: fnp.sum(fnp.tanh(x) * number), backend="native")
        for _ in range(3):
            fresh(x)

threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
for turn in range(int(sys.argv[1])):
    time.sleep(0.002 * (turn % 7))
    child = os.fork()
    if not child:
        size = 200_000 + turn
        good = abs(float(shared(np.ones(size))) - size * np.tanh(1.0)) < 1e-3
        fresh = fg.jit(lambda x: fnp.sum(x * turn), backend="native")
        good &= float(fresh(np.ones(5))) == 5.0 * turn
        del fresh
        gc.collect()
        os._exit(0 if good else 3)
    begin, waited = time.monotonic(), (0, 0)
    while not waited[0] and time.monotonic() < begin + 20:
        time.sleep(0.001)
        waited = os.waitpid(child, os.WNOHANG)
    if waited != (child, 0):
        os.kill(child, 9)
        print("turn", turn, "waited", waited)
        over = True
        os._exit(1)
over = True
print("done")
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_child_never_waits_for_its_parents_threads() -> None:
    command = [sys.executable, "-c", FORKS, "20"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout == "done\n", done.stdout + done.stderr

"""Kill a training run with SIGKILL at random moments, and compare its end with one never killed.

``python -m tests.io.kills --kills 100`` prints how many kills came while a file was being written,
and the digests of the final states, which have to be equal. ``moved`` resumes a run that was killed
on another device.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import io, optim
from tests.backends.fake_device import FakeDevice

WIDTH = 256


def loss(params: Any, x: Any, y: Any) -> Any:
    hidden = fnp.tanh(x @ params["layers"][0]["weight"] + params["layers"][0]["bias"])
    return fnp.mean((hidden @ params["layers"][1]["weight"] - y) ** 2)


def first_state() -> Any:
    key = fg.random.key(0)
    first, second, key = fg.random.split(key, 3)
    params = {
        "layers": [
            {"weight": fg.random.normal(first, (8, WIDTH)), "bias": fnp.zeros(WIDTH)},
            {"weight": fg.random.normal(second, (WIDTH, WIDTH))},
        ]
    }
    return params, optim.adam(1e-3).init(params), key


def train(folder: str, steps: int, name: str = "cpu") -> str:
    """Train up to a step from the newest checkpoint, one checkpoint a step; hash the state."""
    device: Any = FakeDevice() if name == "fake" else name
    optimizer = optim.adam(1e-3)
    with io.Checkpoints(folder, keep=3) as checkpoints:
        step, state = checkpoints.latest(first_state(), device) or (0, first_state())
        print("began at", step, flush=True)
        state = fg.put(state, device)
        while step < steps:
            params, moments, key = state
            x = fg.random.normal(fg.random.fold_in(key, step), (4, 8))
            grads = fg.grad(loss)(params, x, fnp.sin(x[:, :1]))
            updates, moments = optimizer.update(grads, moments, params)
            step, state = step + 1, (optim.apply_updates(params, updates), moments, key)
            checkpoints.save(step, state)
    digest = blake2b()
    for leaf in fg.tree.leaves(state):
        digest.update(np.ascontiguousarray(leaf).tobytes())
    return digest.hexdigest()


@contextmanager
def running(folder: Path, steps: int, device: str = "cpu") -> Iterator[subprocess.Popen[str]]:
    """A process that trains, from its first line on."""
    command = [sys.executable, "-m", "tests.io.kills", "--train", str(folder), str(steps), device]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("began at")
        try:
            yield process
        finally:
            process.kill()


def killed(folder: Path, steps: int, kills: int, longest: float) -> tuple[int, int, str]:
    """Kill the run so many times, then let it end; return kills, those in a save, the digest."""
    moments = random.Random(0)
    count = within = 0
    while count < kills:
        with running(folder, steps) as process:
            time.sleep(moments.uniform(0.0, longest))
            if process.poll() is not None:
                break  # it came to its end
            process.kill()
            process.wait()
        count += 1
        within += any(folder.glob(".funcgrad-*.tmp"))
    with running(folder, steps) as process:
        out, _ = process.communicate()
    return count, within, out.split()[-1]


def moved(folder: Path, devices: tuple[str, str], more: int) -> int:
    """Kill a run on one device after some steps, and run more steps on another; return the sum."""
    with running(folder, 10**9, devices[0]) as process:
        while len(list(folder.glob("step-*"))) < 3:
            assert process.poll() is None
            time.sleep(0.001)
        process.kill()
        process.wait()
    steps = io.Checkpoints(folder).steps()[-1] + more
    with running(folder, steps, devices[1]) as process:
        assert process.wait() == 0
    return steps


def report(kills: int, steps: int, longest: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        expected = train(str(Path(folder) / "whole"), steps)
        count, within, digest = killed(Path(folder) / "killed", steps, kills, longest)
        left = sorted(path.name for path in (Path(folder) / "killed").iterdir())
    print(f"{count} kills, {within} of them during a save, of a run of {steps} steps")
    print("files at the end:", *left)
    print("never killed", expected, "killed", digest, sep="\n")
    print("the same bits" if digest == expected else "OTHER BITS")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--longest", type=float, default=0.15, help="seconds before a kill")
    parser.add_argument("--train", nargs=3, metavar=("FOLDER", "STEPS", "DEVICE"))
    options = parser.parse_args()
    if options.train:
        folder, steps, device = options.train
        print(train(folder, int(steps), device))
    else:
        report(options.kills, options.steps, options.longest)

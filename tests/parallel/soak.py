"""Kill workers at random moments, and compare the bits of every step with those of threads.

``python -m tests.parallel.soak --minutes 20`` trains on a cluster whose workers are killed: during
the load of data, a step, the broadcast or the reduction. ``--kills 50`` ends it after so many. It
prints the steps, the kills, and the digests of both ends, which have to be equal.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import blake2b
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import io, optim, parallel
from tests.parallel.losses import bits, cluster

CHUNKS = 24
WIDTH = 64


def load(number: int, rows: int = 512) -> Any:
    generator = np.random.default_rng(number)
    x = generator.normal(size=(rows, 8))
    return {"x": x, "y": np.sin(x[:, 0]) * x[:, 1]}


def loss(params: Any, chunk: Any) -> Any:
    hidden = fnp.tanh(chunk["x"] @ params["first"] + params["bias"])
    return fnp.mean((hidden @ params["second"] - chunk["y"]) ** 2)


def first_params() -> Any:
    keys = fg.random.split(fg.random.key(0), 2)
    return {
        "first": fg.random.normal(keys[0], (8, WIDTH)),
        "bias": fnp.zeros(WIDTH),
        "second": fg.random.normal(keys[1], (WIDTH,)) / WIDTH**0.5,
    }


def digest(tree: Any) -> str:
    return blake2b(b"".join(bits(tree)), digest_size=8).hexdigest()


def train(folder: str, address: str | None, steps: int, pause: float = 0.0) -> str:
    """Train up to a step from the newest checkpoint, on a cluster or on one thread."""
    if address is None:
        executor: Any = ThreadPoolExecutor(1)
    else:
        from distributed import Client

        executor = Client(address)
    optimizer = optim.adam(1e-2)
    step_of = fg.jit(optimizer.step)
    f = parallel.value_and_grad(loss, executor)
    chunks = [partial(load, number) for number in range(6)]
    run = first_params(), optimizer.init(first_params())
    try:
        with io.Checkpoints(folder) as checkpoints:
            done, run = checkpoints.latest(run) or (0, run)
            for number in range(done, steps):
                _, gradient = f(run[0], chunks)
                run = step_of(gradient, run[1], run[0])
                checkpoints.save(number + 1, run, wait=True)
                time.sleep(pause)
    finally:
        executor.shutdown() if address is None else executor.close(timeout=1)
    return digest(run)


def memory_limit() -> int:
    """The bytes that a worker takes before it has any data."""
    code = (
        "import resource, distributed, funcgrad.parallel.dask_engine, funcgrad._backends.native."
        "native_backend; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return 1024 * int(done.stdout)


@contextmanager
def commanded_cluster(workers: int) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A cluster of the commands ``dask scheduler`` and ``dask worker``; its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    dask = [sys.executable, "-m", "dask"]
    quiet: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    place = ["--host", "127.0.0.1", "--port", str(port), "--no-dashboard"]
    scheduler = subprocess.Popen([*dask, "scheduler", *place], **quiet)
    with TemporaryDirectory() as folder:
        options = ["--nthreads", "1", "--no-dashboard", "--local-directory", folder, "--no-nanny"]
        others = [
            subprocess.Popen([*dask, "worker", address, *options], **quiet) for _ in range(workers)
        ]
        try:
            while scheduler.poll() is None:
                with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                    break
                time.sleep(0.05)
            yield address, scheduler
        finally:
            for process in (*others, scheduler):
                process.kill()
                process.wait()


# ------------------------------------------------------------------------------------------ a soak


class Killer(threading.Thread):
    """Kills a random worker, again and again."""

    def __init__(self, client: Any, seed: int, most: float, pause: float) -> None:
        super().__init__(daemon=True)
        self._client, self._random, self._most = client, random.Random(seed), most
        self._pause = pause
        self.kills, self.ended = 0, threading.Event()

    def run(self) -> None:
        while self.kills < self._most:
            if self.ended.wait(self._random.uniform(0.05, self._pause)):
                return
            processes = [nanny.process for nanny in self._client.cluster.workers.values()]
            # One that is killed while it starts is not replaced: its nanny gives up.
            pids = [p.pid for p in processes if p is not None and p.status.name == "running"]
            if len(pids) > 1:  # one lives on, else every step would wait for new ones
                with suppress(ProcessLookupError):  # it is dead already
                    os.kill(self._random.choice(pids), signal.SIGKILL)
                    self.kills += 1


def soak(minutes: float, kills: float, workers: int, seed: int, pause: float) -> bool:
    chunks = [partial(load, number) for number in range(CHUNKS)]
    optimizer = optim.sgd(0.05)
    step_of = fg.jit(optimizer.step)
    with cluster(workers) as client, ThreadPoolExecutor(1) as thread:
        remote = parallel.value_and_grad(loss, client, keep=10**6)  # chunks are loaded again
        local = parallel.value_and_grad(loss, thread)
        killer = Killer(client, seed, kills, pause)
        killer.start()
        ends = [(first_params(), optimizer.init(first_params())) for _ in range(2)]
        steps, longest, end = 0, 0.0, time.monotonic() + 60 * minutes
        while time.monotonic() < end and killer.kills < kills:
            if (
                len(client.cluster.workers) < workers
            ):  # a nanny gave up, with its worker killed anew
                client.cluster.scale(workers)
            began = time.monotonic()
            gradients = [remote(ends[0][0], chunks)[1], None]
            longest = max(longest, time.monotonic() - began)
            gradients[1] = local(ends[1][0], chunks)[1]
            ends = [step_of(g, run[1], run[0]) for g, run in zip(gradients, ends, strict=True)]
            steps += 1
            if digest(ends[0]) != digest(ends[1]):
                break
        killer.ended.set()
        killer.join()
    same = digest(ends[0]) == digest(ends[1])
    print(
        f"{steps} steps of {CHUNKS} chunks on {workers} workers, {killer.kills} kills, the longest"
        f" step {longest:.1f} s: {digest(ends[0])} {'==' if same else '!='} {digest(ends[1])}"
    )
    return same


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--kills", type=float, default=float("inf"))
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pause", type=float, default=3.0, help="most seconds between kills")
    options = parser.parse_args()
    same = soak(options.minutes, options.kills, options.workers, options.seed, options.pause)
    sys.exit(0 if same else 1)


if __name__ == "__main__":
    main()

"""A long search for lost digits.

python -m tests.tools.digits --minutes 10 --seed 0 --only logpdf
"""

from __future__ import annotations

import argparse
import signal
import time
from collections import Counter
from typing import Any

import numpy as np

from tests.tools.digits.excuses import excused
from tests.tools.digits.search import losses
from tests.tools.digits.subjects import subjects

PATIENCE = 3.0
"""Seconds for a point: where mpmath takes longer there is nothing to compare with."""


def _give_up(*_: Any) -> None:
    raise TimeoutError


def main() -> None:
    """Print what is found, and how often for each derivative."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--far", type=float, default=0.4, help="how many points are far out")
    options = parser.parse_args()
    rng, counts = np.random.default_rng(options.seed), Counter[tuple[str, tuple[int, ...]]]()
    chosen = {name: each for name, each in subjects().items() if options.only in name}
    signal.signal(signal.SIGALRM, _give_up)
    end, tried, skipped = time.monotonic() + 60 * options.minutes, 0, 0
    while time.monotonic() < end:
        for name, subject in chosen.items():
            point = subject.draw(rng, rng.random() < options.far)
            signal.setitimer(signal.ITIMER_REAL, PATIENCE)
            try:
                found = [loss for loss in losses(name, [point]) if not excused(loss)]
            except TimeoutError:
                found, skipped = [], skipped + 1
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            for loss in found:
                counts[name, loss.derivative] += 1
                if counts[name, loss.derivative] <= 3:
                    print(loss, flush=True)
            tried += 1
    print(f"{tried} points, {skipped} of them given up")
    for (name, derivative), count in counts.most_common():
        print(f"{name}, derivative in {derivative}: {count}")


if __name__ == "__main__":
    main()

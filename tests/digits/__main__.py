"""A long search for lost digits: ``python -m tests.digits --minutes 10 --seed 0 --only logpdf``."""

from __future__ import annotations

import argparse
import time
from collections import Counter

import numpy as np

from tests.digits.search import drawn, losses, subjects


def main() -> None:
    """Print what is found, and how often for each derivative."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    rng, counts = np.random.default_rng(options.seed), Counter[tuple[str, int]]()
    names = [name for name in subjects() if options.only in name]
    end, tried = time.monotonic() + 60 * options.minutes, 0
    while time.monotonic() < end:
        for name in names:
            for loss in losses(name, [drawn(name, rng, rng.random() < 0.4)]):
                counts[loss.subject, loss.order] += 1
                if counts[loss.subject, loss.order] <= 3:
                    print(*loss, flush=True)
            tried += 1
    print(f"{tried} points")
    for (subject, order), count in counts.most_common():
        print(f"{subject}, derivative {order}: {count}")


if __name__ == "__main__":
    main()

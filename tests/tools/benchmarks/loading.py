"""How long a script loads, over ``import numpy``: processor time of whole processes.

Scripts run in turns, so that a busy machine slows all of them, after each has run once: byte code
is cached, as it is of an installed package. The least and the median of all rounds are shown::

    python -m tests.tools.benchmarks.loading
    python -m tests.tools.benchmarks.loading --rounds 100
    python -m tests.tools.benchmarks.loading --uncached  # what a first run takes, which compiles
"""

import argparse
import os
import resource
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

from tests.test_loading import SCRIPTS

REPOSITORY: Final = Path(__file__).resolve().parents[3]
YARDSTICK: Final = "numpy"


def seconds(script: str, environment: Mapping[str, str]) -> float:
    """The processor time of a process, of the user and of the system."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-c", script], env=environment, check=True, stdout=subprocess.DEVNULL
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def measured(rounds: int, environment: Mapping[str, str]) -> dict[str, list[float]]:
    """The times of all rounds, by the names of the scripts."""
    scripts = {YARDSTICK: "import numpy", **SCRIPTS}
    for script in scripts.values():
        seconds(script, environment)
    times: dict[str, list[float]] = {name: [] for name in scripts}
    for _ in range(rounds):
        for name, script in scripts.items():
            times[name].append(seconds(script, environment))
    return times


def main() -> None:
    """Measure, and print a line for each script."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--uncached", action="store_true")
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
        environment |= {"PYTHONPYCACHEPREFIX": folder, "PYTHONDONTWRITEBYTECODE": ""}
        if options.uncached:
            seconds("import numpy", environment)
            environment["PYTHONDONTWRITEBYTECODE"] = "1"
        times = measured(options.rounds, environment)
    print(f"{'':12} {'least ms':>9} {'median ms':>9}   over numpy")
    for name, taken in times.items():
        ratios = [of(taken) / of(times[YARDSTICK]) for of in (min, median)]
        print(f"{name:12} {1e3 * min(taken):9.1f} {1e3 * median(taken):9.1f}", end="   ")
        print(f"{ratios[0]:.2f} {ratios[1]:.2f}")


if __name__ == "__main__":
    main()

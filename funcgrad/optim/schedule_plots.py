"""Pictures of schedules, by Matplotlib, which is loaded when it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from funcgrad.errors import ArgumentError, MissingPackageError
from funcgrad.optim.base import LearningRate
from funcgrad.optim.option_types import check_option
from funcgrad.tensor.tensor import tensor

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_PLACES = 1000


def plot(schedule: LearningRate, steps: int, ax: Axes | None = None) -> Axes:
    """Plot the rates of a schedule.

    Parameters
    ----------
    schedule : schedule
        A function from the number of earlier steps to a rate.
    steps : int
        How many steps are shown; of more than a thousand, a thousand of them.
    ax : matplotlib.axes.Axes, optional
        Where to plot, in a new figure by default.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    MissingPackageError
        Matplotlib is not installed.
    FunctionError
        ``schedule`` is not a function.
    ArgumentError
        ``steps`` is not an integer above 0, or ``ax`` are not axes.

    Examples
    --------
    >>> from funcgrad.optim import schedules
    >>> ax = schedules.plot(schedules.cosine(0.1, 0.0, steps=100, warmup=10), steps=100)
    >>> ax.get_xlabel(), len(ax.lines[0].get_ydata())
    ('step', 100)
    """
    check_option("schedules.plot", "schedule", "Schedule", schedule)
    check_option("schedules.plot", "steps", "Count", steps)
    if ax is not None and not callable(getattr(ax, "plot", None)):
        raise ArgumentError(
            f"schedules.plot: ax has to be Matplotlib's axes, as plt.gca() is, got {ax!r:.200}."
        )
    axes = _new_axes() if ax is None else ax
    counts = np.unique(np.linspace(0, steps - 1, min(steps, _MOST_PLACES)).round().astype(int))
    axes.plot(counts, [float(tensor(schedule(tensor(int(count))))) for count in counts])
    axes.set_xlabel("step")
    axes.set_ylabel("rate")
    return axes


def _new_axes() -> Axes:
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise MissingPackageError(
            "schedules.plot: Matplotlib draws, and it is not installed. Install it with `pip"
            " install matplotlib`."
        ) from error
    _, axes = pyplot.subplots()
    return axes

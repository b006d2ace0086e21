"""Which paths the examples of a batch take through a function under ``vmap``.

>>> def relu(x):
...     return x if x > 0 else 0.0
>>> paths(relu)(np.array([1.0, -2.0, 3.0]))
paths of relu: 2 for 3 examples
  2 examples: 0, 2
    <doctest ...>:2: True
  1 example: 1
    <doctest ...>:2: False
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._transforms.arguments import check_function
from funcgrad._transforms.batch import batched, check_in_axes
from funcgrad._transforms.callables import Axes
from funcgrad._transforms.paths import Group

_SHOWN: Final = 10


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BatchPath:
    """The examples of a batch that take one path.

    Attributes
    ----------
    examples : numpy.ndarray of int
        Their positions in the batch.
    answers : tuple of (str, object)
        The lines at which they separated from other examples, each with their value of the
        condition.
    """

    examples: np.ndarray[Any, Any]
    answers: tuple[tuple[str, object], ...]

    def __repr__(self) -> str:
        count = len(self.examples)
        shown = ", ".join(map(str, self.examples[:_SHOWN].tolist()))
        more = ", ..." if count > _SHOWN else ""
        lines = [f"{count} example{'' if count == 1 else 's'}: {shown}{more}"]
        lines += [f"  {line}: {answer!r}" for line, answer in self.answers]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BatchPaths:
    """The paths of a batch, in the order of their first examples.

    Attributes
    ----------
    function : str
        The name of the function.
    paths : tuple of BatchPath
    """

    function: str
    paths: tuple[BatchPath, ...]

    def __len__(self) -> int:
        return len(self.paths)

    def __repr__(self) -> str:
        size = sum(len(path.examples) for path in self.paths)
        lines = [f"paths of {self.function}: {len(self)} for {size} examples"]
        for path in self.paths[:_SHOWN]:
            lines += [f"  {line}" for line in repr(path).splitlines()]
        if len(self) > _SHOWN:
            lines.append(f"  ... and {len(self) - _SHOWN} more")
        return "\n".join(lines)


def paths(
    f: Callable[..., Any], in_axes: Axes = 0, axis_size: int | None = None
) -> Callable[..., BatchPaths]:
    """List the paths that the examples of a batch take through a function.

    ``vmap`` runs the function once for each path, and once more each time the batch splits.

    Parameters
    ----------
    f : callable
        The function that ``vmap`` is to batch.
    in_axes, axis_size :
        As for ``vmap``.

    Returns
    -------
    callable
        It takes the arguments of ``vmap(f)``, calls that function, and returns the paths.

    Examples
    --------
    >>> import funcgrad as fg
    >>> def steps(x):
    ...     while x > 1.0:
    ...         x = x / 2
    ...     return x
    >>> found = fg.debug.paths(steps)(fg.tensor([0.5, 3.0, 2.5]))
    >>> [(path.examples.tolist(), [answer for _, answer in path.answers]) for path in found.paths]
    [([0], [False]), ([1, 2], [True])]
    """
    check_function("paths", f)
    check_in_axes(in_axes)

    def listed(*args: object, **kwargs: object) -> BatchPaths:
        groups: list[Group] = []
        batched(f, in_axes, 0, axis_size, report=groups.extend)(*args, **kwargs)
        paths_taken = [BatchPath(group.rows, tuple(group.answers())) for group in groups]
        return BatchPaths(getattr(f, "__name__", type(f).__name__), tuple(paths_taken))

    return listed

"""A folder of checkpoints, from which a killed run resumes bit for bit."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from math import isnan, nan
from operator import index
from pathlib import Path
from threading import Thread
from typing import Any, Final, Self, SupportsFloat, SupportsIndex, TypeAlias
from warnings import warn

from funcgrad._backends.devices.placement import DeviceLike
from funcgrad._base.locks import ProcessLock, begin_thread
from funcgrad._base.users_line import warn_user
from funcgrad.errors import (
    ArgumentError,
    DtypeError,
    FileFormatError,
    FuncgradError,
    MissingFileError,
    StorageError,
)
from funcgrad.io.atomic_files import checked_path
from funcgrad.io.loading import describe, load, verify
from funcgrad.io.saving import PathLike, Snapshot, snapshot, write_snapshot

_NAME: Final = re.compile(r"step-(\d+)\.safetensors")
_METRICS: Final = "metrics"
_Mark: TypeAlias = tuple[int, ...]


class Checkpoints:
    """A folder that holds the state of a run at some of its steps.

    Files are written atomically, so a process may be killed at any moment. `latest` finds the
    newest complete file by reading. Several processes may use one folder.

    Parameters
    ----------
    directory : str or path
        The folder; it is made if it does not exist.
    keep : int or None, optional
        The number of newest complete steps to keep; older files are removed after each save. None
        keeps all. If another run has saved later steps in the folder, the last steps of this object
        are kept as well.
    best : tuple of str and int, optional
        ``("loss", 2)`` also keeps the two steps with the least ``loss`` among their metrics; NaN
        counts as the worst.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> checkpoints = Checkpoints(tempfile.mkdtemp(), keep=2)
    >>> state = {"x": np.zeros(2)}
    >>> step, state = checkpoints.latest(state) or (0, state)
    >>> for step in range(step + 1, 6):
    ...     state = {"x": state["x"] + 1.0}
    ...     checkpoints.save(step, state)
    >>> checkpoints.wait()
    >>> checkpoints.latest(state)
    (5, {'x': Tensor([5., 5.])})
    >>> checkpoints.steps()
    (4, 5)
    """

    def __init__(
        self, directory: PathLike, keep: int | None = 3, best: tuple[str, int] | None = None
    ) -> None:
        if keep is not None and (type(keep) is not int or keep < 1):
            raise ArgumentError(f"Checkpoints: keep has to be None or at least 1, got {keep!r}.")
        match best:
            case None:
                pass
            case (str(), int(count)) if count > 0:
                pass
            case _:
                raise ArgumentError(
                    f"Checkpoints: best has to be None or like ('loss', 2), got {best!r}."
                )
        self._directory = checked_path(directory, "Checkpoints", "directory")
        self._keep, self._best = keep, best
        self._thread: Thread | None = None
        self._failure: BaseException | None = None
        self._saved: list[int] = []
        self._whole: dict[int, tuple[_Mark, bool]] = {}
        self._lock = ProcessLock()
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(
                f"Checkpoints: cannot make the folder {str(directory)!r}: {error.strerror}. Choose"
                " another, or change the permissions of the folder above it.",
                error.errno,
            ) from error
        self._older = self._listed()

    def save(
        self,
        step: SupportsIndex,
        tree: object,
        wait: bool = False,
        metrics: Mapping[str, SupportsFloat] | None = None,
    ) -> None:
        """Save the state after a step, in a background thread.

        Only writable NumPy arrays are copied for the thread, since tensors are immutable. If an
        earlier save is still running, the call waits for it first.

        Parameters
        ----------
        step : int
            The index of the step, not negative. An existing file of this step is replaced.
        tree : pytree
            Everything needed to resume: parameters, the optimizer's state, the key.
        wait : bool, optional
            Whether to return only when the file is on the disk.
        metrics : mapping from str to float, optional
            Values by which ``best`` ranks the steps, the smaller the better.

        Raises
        ------
        StorageError
            The file of this call (with ``wait``) or of an earlier call could not be written.
            Existing checkpoints are unchanged.
        LeafError, TracerError
            The tree cannot be saved.
        ArgumentError, DtypeError
            The step is not an integer from 0 on, or the metrics are not a dict from str to numbers.
        """
        number, numbers = _step(step), _numbers(metrics)
        if self._best is not None and self._best[0] not in numbers:
            raise ArgumentError(
                f"Checkpoints.save: best={self._best} needs metrics={{{self._best[0]!r}: ...}}."
            )
        texts = {_METRICS: json.dumps(numbers)}

        def begin() -> None:
            self._wait()
            content = snapshot(tree, texts, "Checkpoints.save")
            if not self._saved:
                self._warn_of_another_run(number)
            self._thread = begin_thread(lambda: self._write(number, content))
            if wait:
                self._wait()

        self._lock.run(begin)

    def _write(self, step: int, content: Snapshot) -> None:
        try:
            write_snapshot(self._path(step), content, "Checkpoints.save")
            self._whole[step] = _mark(self._path(step)), True
            others = [other for other in self._saved if other != step]
            self._saved = [*others, step][-(self._keep or 1) :]
            self._prune()
        except BaseException as error:
            self._failure = error

    def wait(self) -> None:
        """Wait for the running save, and raise its error if it failed.

        Call it at the end of a run, or write ``with Checkpoints(...) as checkpoints``.
        """
        self._lock.run(self._wait)

    def _wait(self) -> None:
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.wait()

    def steps(self) -> tuple[int, ...]:
        """List the steps that have a file, in ascending order, after waiting for a running save.

        Returns
        -------
        tuple of int
        """
        self.wait()
        return self._listed()

    def latest(
        self, like: object = None, device: DeviceLike | None = None
    ) -> tuple[int, Any] | None:
        """Load the newest complete checkpoint.

        Files are read from the newest on. A damaged file is skipped with a warning.

        Parameters
        ----------
        like : pytree, optional
            A tree with the structure of the state, as for `load`.
        device : Device, str or DeviceBackend, optional
            The device to put the tensors on, as for `load`.

        Returns
        -------
        tuple of int and pytree, or None
            The step and the state; None without a checkpoint.

        Raises
        ------
        TreeError
            The newest complete checkpoint differs from ``like``.
        DeviceError
            The device does not exist.
        """
        self.wait()
        passed: set[int] = set()
        while steps := [step for step in self._listed() if step not in passed]:
            try:
                return steps[-1], self._loaded(steps[-1], like, device)
            except MissingFileError:  # another process has just removed it
                passed.add(steps[-1])
            except FileFormatError as error:
                passed.add(steps[-1])
                warn(f"Checkpoints.latest: skipped a step. {error}", stacklevel=2)
        return None

    def _listed(self) -> tuple[int, ...]:
        try:
            names = [path.name for path in self._directory.iterdir()]
        except OSError as error:
            raise StorageError(
                f"Checkpoints: cannot list {str(self._directory)!r}: {error.strerror}. Check that"
                " the folder is there, and its permissions.",
                error.errno,
            ) from error
        return tuple(sorted(int(match[1]) for match in map(_NAME.fullmatch, names) if match))

    def _path(self, step: int) -> Path:
        return self._directory / f"step-{step:010d}.safetensors"

    def _loaded(self, step: int, like: object, device: DeviceLike | None = None) -> Any:
        path = self._path(step)
        mark = _mark(path)
        tree = load(path, like, device=device)
        self._whole[step] = mark, True
        return tree

    def _warn_of_another_run(self, first: int) -> None:
        last = max(self._older, default=0)
        if last > first and last in self._listed():
            warn_user(
                f"Checkpoints.save: {str(self._directory)!r} has steps up to {last} already, and"
                f" this run begins with {first}: latest() still returns step {last}. Begin with"
                " latest(), choose another folder, or remove the older files.",
                UserWarning,
            )

    def _prune(self) -> None:
        """Remove older files; damaged files are not counted and not removed."""
        if self._keep is None:
            return
        listed = [(step, self._metrics(step)) for step in self._listed()]
        metrics = {step: numbers for step, numbers in listed if numbers is not None}
        staying = {*self._saved, *sorted(metrics)[-self._keep :]}
        if self._best is not None:
            name, count = self._best
            numbers = {step: known.get(name, nan) for step, known in metrics.items()}
            ranked = sorted(numbers, key=lambda step: (isnan(numbers[step]), numbers[step]))
            staying |= set(ranked[:count])
        for step in metrics.keys() - staying:
            self._path(step).unlink(missing_ok=True)

    def _metrics(self, step: int) -> Mapping[str, float] | None:
        """The metrics of a file, which are read without its tensors; None if it is damaged.

        The tensors of a file are compared with their digests once, unless this object wrote or
        loaded the file in its current state: an earlier process or the disk may have damaged it.
        """
        path = self._path(step)
        mark = _mark(path)
        with suppress(FuncgradError):
            if self._whole.get(step, (None,))[0] != mark:
                self._whole[step] = mark, False
                verify(path)
                self._whole[step] = mark, True
            if self._whole[step][1]:
                return _read_metrics(describe(path).metadata.get(_METRICS, ""))
        return None


def _mark(path: Path) -> _Mark:
    """File attributes that change when the file is written to; empty if it is gone."""
    try:
        facts = path.stat()
    except OSError:  # another process has just removed it
        return ()
    return facts.st_ino, facts.st_size, facts.st_mtime_ns


def _read_metrics(text: str) -> dict[str, float]:
    """Read metrics; files that were written by hand have none."""
    try:
        return {str(name): float(x) for name, x in json.loads(text).items()}
    except (ValueError, TypeError, AttributeError):
        return {}


def _step(step: object) -> int:
    try:
        number = index(step)  # type: ignore[arg-type]  # what has no index is refused in words
    except TypeError:
        number = -1
    if number < 0:
        raise ArgumentError(
            f"Checkpoints.save: step has to be an integer, at least 0, got {step!r:.60}."
        )
    return number


def _numbers(metrics: object) -> dict[str, float]:
    """Convert metrics, which may be tensors, to Python floats."""
    try:
        return {str(name): float(x) for name, x in dict(metrics or {}).items()}  # type: ignore[call-overload]  # as above
    except (TypeError, ValueError) as error:
        raise DtypeError(
            f"Checkpoints.save: metrics map names to numbers, such as {{'loss': 0.5}}; got"
            f" {metrics!r:.60}."
        ) from error

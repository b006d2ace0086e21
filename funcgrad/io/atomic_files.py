"""Files that are replaced atomically: a reader sees the whole old file or the whole new one.

The bytes go to a temporary file in the same folder and are flushed to the disk. Then the file is
renamed, and the folder is flushed, so that the new name survives a power failure, too.

>>> import tempfile
>>> path = Path(tempfile.mkdtemp()) / "numbers"
>>> with replacing(path, "save") as file:
...     _ = file.write(b"123")
>>> path.read_bytes(), len(list(path.parent.iterdir()))
(b'123', 1)
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, Final

from funcgrad._base.locks import begin_thread
from funcgrad.errors import ArgumentError, MissingFileError, StorageError

try:
    import fcntl
except ImportError:  # Windows, where a file that is open cannot be removed
    fcntl = None  # type: ignore[assignment]

PREFIX: Final = ".funcgrad-"
"""The prefix of temporary files. They are hidden, and end in ``.tmp``."""

LARGE: Final = 2**24
"""The size in bytes from which freeing a file takes longer than starting a thread."""

_FULL: Final = "The file does not fit: free some space, or save to another disk."
_FORBIDDEN: Final = "Change the permissions of its folder, or save to another one."
_REMEDIES: Final[Mapping[int, str]] = MappingProxyType(
    {
        errno.ENOSPC: _FULL,
        errno.EDQUOT: _FULL,
        errno.EFBIG: _FULL,
        errno.EACCES: _FORBIDDEN,
        errno.EPERM: _FORBIDDEN,
        errno.EROFS: _FORBIDDEN,
        errno.EISDIR: "This is a folder: add the name of a file.",
        errno.ENOTDIR: "A part of the path is a file, not a folder: correct it.",
        errno.ENOENT: "Make its folder first: path.parent.mkdir(parents=True).",
        errno.ENAMETOOLONG: "Shorten its name.",
        errno.EEXIST: "Only files are replaced, not devices and pipes: choose another path.",
    }
)


def checked_path(path: object, operation: str, name: str = "path") -> Path:
    """Convert a user's path.

    Raises
    ------
    ArgumentError
        The path is neither a string nor a path, or has a NUL character.
    """
    if isinstance(path, (str, os.PathLike)):
        place = Path(path)
        if "\0" in str(place):
            raise ArgumentError(f"{operation}: {name} {str(place)!r} has a NUL character.")
        return place
    raise ArgumentError(
        f"{operation}: {name} has to be a str or a pathlib.Path, got {type(path).__name__}."
    )


@contextmanager
def replacing(path: Path, operation: str) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces ``path`` when the block ends without an error.

    After an error the older file is unchanged, and the temporary file is removed. Temporary files
    that killed processes left in the folder are removed, too.

    Raises
    ------
    StorageError
        The file cannot be written; the message names the path and a remedy.
    """
    target = Path(os.path.realpath(path))
    try:
        if target.exists() and not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if target.exists() and not target.is_file():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        _remove_stale(target.parent)
        file, temporary = _temporary(target.parent)
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if fcntl is None:
                file.close()  # Windows renames closed files only
            with _freed_by_a_thread(target):
                os.replace(temporary, target)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
        finally:
            with suppress(OSError):  # it would repeat the error above
                file.close()
        _flush_folder(target.parent)
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        remedy = _REMEDIES.get(error.errno or 0, "Save to another place.")
        raise StorageError(
            f"{operation}: cannot write {str(path)!r}: {error.strerror or error}. {remedy} Files"
            " that were saved earlier are unchanged.",
            error.errno,
        ) from error


@contextmanager
def _freed_by_a_thread(target: Path) -> Iterator[None]:
    """Keep a large file open while it is replaced, and let a thread free its blocks.

    The system frees the blocks when the last user closes the file, which takes a third of the time
    of writing it: 25 ms of 115 when 100 MB are saved again.
    """
    descriptor = _open_if_large(target)
    try:
        yield
    finally:
        if descriptor is not None:
            begin_thread(lambda: os.close(descriptor))


def _open_if_large(path: Path) -> int | None:
    with suppress(OSError):  # the file is missing or unreadable
        if fcntl is not None and path.stat().st_size >= LARGE:  # Windows replaces closed files only
            return os.open(path, os.O_RDONLY)
    return None


def _temporary(folder: Path) -> tuple[BinaryIO, Path]:
    """Make a temporary file, which this process locks while it is open."""
    while True:
        path = folder / f"{PREFIX}{secrets.token_hex(8)}.tmp"
        file = open(path, "xb")  # noqa: SIM115 - the caller closes it
        if fcntl is None:
            return file, path
        with suppress(OSError):  # some network folders have no locks; files are never removed there
            fcntl.flock(file, fcntl.LOCK_EX)
        # Another process may have removed it as stale before it was locked.
        if path.exists():
            return file, path
        file.close()


def _remove_stale(folder: Path) -> None:
    """Remove temporary files of dead processes: their locks are free."""
    for path in folder.glob(f"{PREFIX}*.tmp"):
        with suppress(OSError):
            if fcntl is None:
                path.unlink()  # fails if a process has it open
                continue
            with open(path, "rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails if a process writes it
                path.unlink()


def _flush_folder(folder: Path) -> None:
    if os.name == "nt":  # folders cannot be opened there
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # folders that cannot be flushed
            raise
    finally:
        os.close(descriptor)


@contextmanager
def reading(path: Path, operation: str) -> Iterator[BinaryIO]:
    """Open a file for reading; errors of the disk name the path and a remedy.

    Raises
    ------
    MissingFileError
        The file does not exist; the message has similar names.
    StorageError
        The file cannot be read.
    """
    try:
        with open(path, "rb") as file:
            yield file
    except FileNotFoundError as error:
        names = [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
        nearest = get_close_matches(path.name, names, 3)
        remedy = (
            f"Similar names: {', '.join(nearest)}." if nearest else "Check the folder's name, too."
        )
        raise MissingFileError(
            f"{operation}: the file {str(path)!r} does not exist. {remedy}", errno.ENOENT
        ) from error
    except OSError as error:
        raise StorageError(
            f"{operation}: cannot read {str(path)!r}: {error.strerror or error}. Check that it is a"
            " file, and its permissions.",
            error.errno,
        ) from error

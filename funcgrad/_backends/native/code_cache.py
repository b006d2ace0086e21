"""Machine code on disk, so that a program is compiled once and not in each process.

Files lie in a folder of the user's, ``$XDG_CACHE_HOME/funcgrad`` or ``~/.cache/funcgrad``. A file's
name is a hash of everything that its code depends on, and it begins with a hash of its contents.
Code is run as the user, so a file that others could have written is never read: folder and file
belong to the user, nobody else may write to them, and they are not links. Files are written under
another name first and then renamed, so that processes may share the folder, and be killed at any
time.

The environment variable ``FUNCGRAD_CACHE=0`` switches this off. Whatever goes wrong on the disk
costs time only.

>>> digest(["a", "bc"]) == digest(["ab", "c"])
False
"""

from __future__ import annotations

import os
import stat
from _blake2 import blake2b  # hashlib loads OpenSSL
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

_MOST_FILES: Final = 4096
_MOST_BYTES: Final = 1 << 26


def digest(texts: Sequence[str]) -> str:
    """A name for texts, which others have with no probability that matters."""
    state = blake2b(digest_size=32)
    for text in texts:
        data = text.encode()
        state.update(b"%d:" % len(data) + data)
    return state.hexdigest()


def is_on() -> bool:
    """Whether there is a folder for code."""
    return _folder() is not None


def read_code(name: str) -> bytes | None:
    """The contents of a file; None where there is none that can be trusted."""
    folder = _folder()
    if folder is None:
        return None
    try:
        descriptor = os.open(f"{folder}/{name}", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            about = os.fstat(descriptor)
            if not stat.S_ISREG(about.st_mode) or not _is_private(about):
                return None
            data = file.read(_MOST_BYTES)
    except OSError:
        return None
    contents = data[32:]
    return contents if data[:32] == _seal(name, contents) else None


def write_code(name: str, contents: bytes) -> None:
    """Write a file, if possible."""
    folder = _folder()
    if folder is None or len(contents) > _MOST_BYTES - 32:
        return
    draft = f"{folder}/{name}.{os.urandom(8).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with suppress(OSError):
        try:
            with open(os.open(draft, flags, 0o600), "wb") as file:
                file.write(_seal(name, contents) + contents)
            os.rename(draft, f"{folder}/{name}")
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(draft)
            raise
        if name.startswith("00"):  # for one file of 256
            _prune(folder)


def _seal(name: str, contents: bytes) -> bytes:
    return blake2b(name.encode() + contents, digest_size=32).digest()


def _folder() -> str | None:
    """The folder; None if there is to be none, or one that others could write to."""
    if os.environ.get("FUNCGRAD_CACHE") == "0" or not hasattr(os, "getuid"):
        return None
    base = os.environ.get("XDG_CACHE_HOME", "")
    parent = base if os.path.isabs(base) else os.path.expanduser("~/.cache")
    folder = f"{parent}/funcgrad"
    try:
        if not os.path.exists(folder):
            os.makedirs(parent, exist_ok=True)
            with suppress(FileExistsError):
                os.mkdir(folder, 0o700)
        about = os.lstat(folder)
    except OSError:  # a folder that cannot be written to
        return None
    return folder if stat.S_ISDIR(about.st_mode) and _is_private(about) else None


def _is_private(about: os.stat_result) -> bool:
    return about.st_uid == os.getuid() and not about.st_mode & 0o077


def _prune(folder: str) -> None:
    """Delete the oldest files where there are too many, and drafts of killed processes."""
    with os.scandir(folder) as entries:
        files = sorted(entries, key=lambda entry: entry.stat().st_mtime, reverse=True)
    for file in files[_MOST_FILES // 2 :] if len(files) > _MOST_FILES else ():
        with suppress(FileNotFoundError):
            os.unlink(file)

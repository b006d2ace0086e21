"""``python -m tests.tools.emulated PYTHON TESTS``: run tests of machine code on another processor.

``PYTHON`` is a command that runs a Python for that processor, emulated, with NumPy, llvmlite and
pytest; so it is some 20 times slower. This process compiles for it: the emulated one writes the
texts of its modules into a folder, and takes the object files from there. What is tested is the
other processor's machine code, and all of the emulated Python's calls of it. Options of pytest may
follow the tests; ``--record`` counts the run on the page of proofs.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from tests.tools import proofs

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = "FUNCGRAD_TEXTS_OF_MODULES"
_PAUSE: Final = 0.02


def pytest_configure() -> None:
    """In the emulated process, which loads this file as a plugin: ask for object files."""
    from funcgrad._backends.native.processor import Toolchain

    toolchain: Any = Toolchain
    toolchain._compile = _asked


def _asked(tools: Any, text: str, level: int) -> bytes:
    processor = tools.processor
    about = [processor.cpu, processor.features, processor.bits, processor.triple]
    name = f"{os.getpid()}-{time.monotonic_ns()}"
    folder = Path(os.environ[FOLDER])
    _write(folder / f"{name}.text", json.dumps([*about, text, level]).encode())
    answer = folder / f"{name}.object"
    while not answer.exists():
        time.sleep(_PAUSE)
    return answer.read_bytes()


def _write(file: Path, data: bytes) -> None:
    draft = file.with_suffix(".draft")
    draft.write_bytes(data)
    draft.rename(file)


def compiled(text: str) -> bytes:
    """The object file that an emulated process asks for."""
    from funcgrad._backends.native.processor import Processor, Toolchain, llvm

    binding: Any = llvm()
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    *about, source, level = json.loads(text)
    return Toolchain(Processor(*about)).compiled(source, level)


def served(process: subprocess.Popen[str], folder: Path) -> int:
    """Compile until a process ends; return how many modules that were."""
    count = 0
    while process.poll() is None:
        for file in folder.glob("*.text"):
            with suppress(FileNotFoundError):
                made = compiled(file.read_text())
                file.unlink()
                _write(file.with_suffix(".object"), made)
                count += 1
        time.sleep(_PAUSE)
    return count


def main(arguments: Sequence[str]) -> int:
    """Run tests, and return pytest's status."""
    python, *others = [word for word in arguments if word != "--record"]
    options = ["-n", "0", "-p", "no:cacheprovider", "-p", "tests.tools.emulated"]
    with tempfile.TemporaryDirectory(prefix="modules-") as folder:
        process = subprocess.Popen(
            [python, "-m", "pytest", *options, *others],
            cwd=ROOT,
            env={**os.environ, FOLDER: folder, "FUNCGRAD_CACHE": "0"},
            text=True,
            stdout=subprocess.PIPE,
        )
        modules = served(process, Path(folder))
        printed = process.communicate()[0]
    print(printed)
    passed, failed = [
        sum(map(int, re.findall(rf"(\d+) {word}", printed))) for word in ("passed", "failed")
    ]
    print(f"{modules} modules were compiled")
    if "--record" in arguments:
        files = ", ".join(f"`{word}`" for word in others if word.startswith("tests/"))
        proofs.record("arm", passed=passed, failed=failed, modules=modules, files=files)
    return int(process.returncode)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Checkpoints: the newest whole one is found, failures are told, and nothing is lost or left."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import io
from funcgrad.errors import ArgumentError, DtypeError, StorageError, TreeError
from funcgrad.io import checkpoints as checkpoint_files
from funcgrad.io.loading import verify
from funcgrad.io.saving import snapshot
from funcgrad.io.tree_texts import _static_text
from tests.io.kills import killed, moved, train
from tests.scripts import printed

STATE = {"x": np.zeros(3)}


def state(step: int) -> Any:
    return {"x": fnp.full(3, float(step))}


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def step_file(folder: Path, step: int) -> Path:
    return folder / f"step-{step:010d}.safetensors"


def test_an_empty_folder_has_no_checkpoint(tmp_path: Path) -> None:
    checkpoints = io.Checkpoints(tmp_path / "new" / "folder")
    assert checkpoints.latest(STATE) is None
    assert checkpoints.steps() == ()


@pytest.mark.parametrize("wait", [False, True])
def test_the_newest_steps_stay(tmp_path: Path, wait: bool) -> None:
    checkpoints = io.Checkpoints(tmp_path, keep=2)
    for step in range(1, 6):
        checkpoints.save(step, state(step), wait=wait)
    assert checkpoints.steps() == (4, 5)
    assert names(tmp_path) == [step_file(tmp_path, step).name for step in (4, 5)]
    latest = io.Checkpoints(tmp_path).latest(STATE)
    assert latest is not None
    assert latest[0] == 5
    assert latest[1]["x"].tolist() == [5.0] * 3


def test_the_best_steps_stay_too(tmp_path: Path) -> None:
    checkpoints = io.Checkpoints(tmp_path, keep=1, best=("loss", 2))
    for step, value in enumerate([3.0, 1.0, 2.0, 5.0, 4.0]):
        checkpoints.save(step, state(step), metrics={"loss": fg.tensor(value)})
    assert checkpoints.steps() == (1, 2, 4)
    with pytest.raises(ArgumentError, match=r"needs metrics={'loss'"):
        checkpoints.save(5, state(5))


def test_what_is_nan_is_never_the_best(tmp_path: Path) -> None:
    checkpoints = io.Checkpoints(tmp_path, keep=1, best=("loss", 1))
    for step, value in enumerate([float("nan"), 1.0, 5.0, float("nan"), 3.0]):
        checkpoints.save(step, state(step), metrics={"loss": value})
    assert checkpoints.steps() == (1, 4)


def test_all_may_stay(tmp_path: Path) -> None:
    checkpoints = io.Checkpoints(tmp_path, keep=None)
    for step in range(6):
        checkpoints.save(step, state(step))
    assert checkpoints.steps() == tuple(range(6))


def test_a_run_that_began_anew_does_not_remove_what_it_saves(tmp_path: Path) -> None:
    for step in (100, 101, 102):
        io.Checkpoints(tmp_path).save(step, state(step), wait=True)
    anew = io.Checkpoints(tmp_path, keep=2)
    with pytest.warns(UserWarning, match=r"steps up to 102 already, .* begins with 0: latest\(\)"):
        anew.save(0, state(0))
    for step in range(1, 5):
        anew.save(step, state(step), wait=True)
        assert anew.steps() == (step - 1, step, *(100, 101, 102)[-2:])
    anew.save(3, state(3))
    assert anew.steps() == (3, 4, 101, 102)


def test_a_run_that_goes_on_is_not_warned(tmp_path: Path) -> None:
    checkpoints = io.Checkpoints(tmp_path)
    for _ in range(3):
        checkpoints = io.Checkpoints(tmp_path)
        step, _ = checkpoints.latest() or (0, None)
        with checkpoints:
            for more in range(1, 4):
                checkpoints.save(step + more, state(step + more))
    assert checkpoints.steps() == (7, 8, 9)


def damage(file: Path) -> None:
    """Change a file's last byte, which belongs to its numbers."""
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


@pytest.mark.parametrize("keep", [1, 2, 3])
@pytest.mark.parametrize("resumed", [False, True])
def test_files_with_damaged_numbers_count_for_nothing(
    tmp_path: Path, keep: int, resumed: bool
) -> None:
    first = io.Checkpoints(tmp_path, keep=None)
    for step in range(1, 7):
        first.save(step, state(step), metrics={"loss": step})
    first.wait()
    checkpoints = io.Checkpoints(tmp_path, keep=keep, best=("loss", 1))
    if resumed:
        assert checkpoints.latest(STATE) is not None
    for step in (1, 5, 6):
        damage(step_file(tmp_path, step))
    checkpoints.save(7, state(7), metrics={"loss": 7}, wait=True)
    whole = {7: (2, 7), 6: (2, 4, 7), 5: (2, 3, 4, 7)}[8 - keep]
    assert checkpoints.steps() == tuple(sorted({1, 5, 6, *whole}))
    checkpoints.save(8, state(8), metrics={"loss": 8}, wait=True)
    damage(step_file(tmp_path, 8))
    with pytest.warns(UserWarning, match="skipped a step"):
        latest = io.Checkpoints(tmp_path).latest(STATE)
    assert latest is not None
    assert latest[0] == (2 if keep == 1 else 7)


def test_numbers_that_are_known_to_be_whole_are_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verified: list[str] = []

    def noted(path: Path) -> None:
        verified.append(path.name)
        verify(path)

    monkeypatch.setattr(checkpoint_files, "verify", noted)
    checkpoints = io.Checkpoints(tmp_path)
    for step in range(1, 6):
        checkpoints.save(step, state(step), wait=True)
    assert verified == []
    damage(step_file(tmp_path, 4))
    resumed = io.Checkpoints(tmp_path)
    assert resumed.latest() is not None  # which reads step 5
    for step in (6, 7):
        resumed.save(step, state(step), wait=True)
    assert sorted(verified) == [step_file(tmp_path, step).name for step in (3, 4)]


@pytest.mark.parametrize(
    "metadata", [{}, {"metrics": ""}, {"metrics": "[1]"}, {"metrics": '{"loss": "low"}'}]
)
def test_a_file_that_was_written_by_hand_is_a_step_without_metrics(
    tmp_path: Path, metadata: dict[str, str]
) -> None:
    io.save(step_file(tmp_path, 3), STATE, metadata)
    checkpoints = io.Checkpoints(tmp_path, keep=1, best=("loss", 1))
    latest = checkpoints.latest(STATE)
    assert latest is not None
    assert latest[0] == 3
    for step in (4, 5):
        checkpoints.save(step, state(step), metrics={"loss": step}, wait=True)
    assert checkpoints.steps() == (4, 5)


def test_a_damaged_checkpoint_is_passed_over(tmp_path: Path) -> None:
    checkpoints = io.Checkpoints(tmp_path, keep=3)
    for step in (1, 2, 3):
        checkpoints.save(step, state(step), wait=True)
    whole = step_file(tmp_path, 3).read_bytes()
    step_file(tmp_path, 3).write_bytes(whole[:-1] + b"!")
    step_file(tmp_path, 4).write_bytes(whole[:-1])
    step_file(tmp_path, 5).write_bytes(b"")
    with pytest.warns(UserWarning, match="skipped a step") as warnings:
        latest = checkpoints.latest(STATE)
    assert latest is not None
    assert latest[0] == 2
    assert len(warnings) == 3
    # Files that cannot be read do not count as kept ones.
    checkpoints.save(6, state(6), wait=True)
    assert checkpoints.steps() == (1, 2, 3, 4, 5, 6)


def test_a_state_of_another_structure_is_an_error(tmp_path: Path) -> None:
    checkpoints = io.Checkpoints(tmp_path)
    checkpoints.save(1, state(1))
    with pytest.raises(TreeError, match=r"missing in the file \(1\): y"):
        checkpoints.latest({"y": 1.0})


def test_arrays_that_change_afterwards_are_saved_as_they_were(tmp_path: Path) -> None:
    array = np.ones(10**6)
    checkpoints = io.Checkpoints(tmp_path)
    checkpoints.save(1, {"x": array})
    array[:] = 2.0
    loaded = checkpoints.latest()
    assert loaded is not None
    assert (np.asarray(loaded[1]["x"]) == 1.0).all()


def test_tensors_are_not_copied_for_the_thread() -> None:
    tensor = fnp.ones(1000)
    content = snapshot({"x": tensor, "n": np.ones(3)}, {}, "save")
    assert np.shares_memory(content.arrays["x"], np.asarray(tensor))


@pytest.mark.parametrize("keep", [0, -1, 1.5, True])
def test_bad_options_are_refused(tmp_path: Path, keep: Any) -> None:
    with pytest.raises(ArgumentError, match="keep has to be"):
        io.Checkpoints(tmp_path, keep=keep)
    with pytest.raises(ArgumentError, match="best has to be"):
        io.Checkpoints(tmp_path, best="loss")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="best has to be"):
        io.Checkpoints(tmp_path, best=("loss", -1))
    with pytest.raises(ArgumentError, match="directory has to be a str"):
        io.Checkpoints(None)  # type: ignore[arg-type]
    for step in (-1, 1.5):
        with pytest.raises(ArgumentError, match="step has to be an integer, at least 0"):
            io.Checkpoints(tmp_path).save(step, STATE)  # type: ignore[arg-type]
    with pytest.raises(DtypeError, match="metrics map names to numbers"):
        io.Checkpoints(tmp_path).save(1, STATE, metrics={"loss": "low"})  # type: ignore[dict-item]


# ------------------------------------------------------------------------------------- failures


def no_room(descriptor: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_is_told_by_the_next_call_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints = io.Checkpoints(tmp_path, keep=1)
    checkpoints.save(1, state(1), wait=True)
    monkeypatch.setattr(os, "fsync", no_room)
    for call in (
        checkpoints.wait,
        checkpoints.steps,
        checkpoints.latest,
        lambda: checkpoints.save(3, state(3)),
        lambda: checkpoints.__exit__(None),
    ):
        checkpoints.save(2, state(2))
        with pytest.raises(StorageError, match=r"step-0000000002.*No space left.*free some") as e:
            call()
        assert e.value.errno == errno.ENOSPC
    monkeypatch.undo()
    assert names(tmp_path) == [step_file(tmp_path, 1).name]
    latest = checkpoints.latest(STATE)
    assert latest is not None
    assert latest[0] == 1


LIMITED = """
import resource, sys
import numpy as np
from funcgrad import io
from funcgrad.errors import StorageError
checkpoints = io.Checkpoints(sys.argv[1])
checkpoints.save(1, {"x": np.zeros(3)}, wait=True)
resource.setrlimit(resource.RLIMIT_FSIZE, (10**5, 10**5))
for wait in (True, False):
    try:
        checkpoints.save(2, {"x": np.zeros(10**6)}, wait=wait)
        checkpoints.wait()
    except StorageError as error:
        print(error)
print(checkpoints.steps())
"""


def test_a_limit_of_the_size_of_files_is_an_error(tmp_path: Path) -> None:
    assert resource.RLIMIT_FSIZE  # a process of its own: the limit cannot be lifted again
    first, second, last = printed(LIMITED, str(tmp_path)).splitlines()
    assert first == second
    assert "File too large. The file does not fit" in first
    assert last == "(1,)"
    assert names(tmp_path) == [step_file(tmp_path, 1).name]


def test_a_lost_permission_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoints = io.Checkpoints(tmp_path)
    checkpoints.save(1, state(1), wait=True)

    def replace(old: object, new: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os, "replace", replace)  # root may do all, so the system is asked to refuse
    with pytest.raises(StorageError, match=r"Permission denied.*Change the permissions.*unchanged"):
        checkpoints.save(2, state(2), wait=True)
    monkeypatch.undo()
    assert names(tmp_path) == [step_file(tmp_path, 1).name]
    blocked = tmp_path / "file"
    blocked.touch()
    with pytest.raises(StorageError, match="cannot make the folder"):
        io.Checkpoints(blocked)


def test_a_read_only_file_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    io.save(tmp_path / "x", 1.0)
    monkeypatch.setattr(os, "access", lambda *args: False)
    with pytest.raises(StorageError, match="Permission denied"):
        io.save(tmp_path / "x", 2.0)
    monkeypatch.undo()
    assert io.load(tmp_path / "x") == 1.0


def test_a_folder_that_vanished_is_an_error(tmp_path: Path) -> None:
    checkpoints = io.Checkpoints(tmp_path / "run")
    (tmp_path / "run").rmdir()
    with pytest.raises(StorageError, match="Make its folder first"):
        checkpoints.save(1, state(1), wait=True)
    with pytest.raises(StorageError, match="cannot list"):
        checkpoints.steps()


def test_temporary_files_of_dead_processes_go_and_those_in_use_stay(tmp_path: Path) -> None:
    (tmp_path / ".funcgrad-0123.tmp").write_bytes(b"half")
    script = """
import sys
from pathlib import Path
from funcgrad.io.atomic_files import replacing
with replacing(Path(sys.argv[1]) / "slow", "save") as file:
    file.write(b"begun")
    print("begun", flush=True)
    input()
"""
    command = [sys.executable, "-c", script, str(tmp_path)]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        (used,) = [name for name in names(tmp_path) if name.endswith(".tmp")]
        io.save(tmp_path / "x", 1.0)
        assert names(tmp_path) == [used, "x"]
        process.send_signal(signal.SIGKILL)
    assert names(tmp_path) == [used, "x"]
    io.save(tmp_path / "x", 2.0)
    assert names(tmp_path) == ["x"]


WRITER = """
import sys
import numpy as np
from funcgrad import io
checkpoints = io.Checkpoints(sys.argv[1], keep=2)
for step in range(40):
    checkpoints.save(step, {"x": np.full(1000, float(step))})
    if step % 8 == 0:
        step, state = checkpoints.latest({"x": np.zeros(1000)})
        assert (np.asarray(state["x"]) == step).all()
checkpoints.wait()
"""


def test_two_processes_may_use_one_folder(tmp_path: Path) -> None:
    begun = "ignore:Checkpoints.save"  # the one that is later begins below the other's steps
    command = [sys.executable, "-W", "error", "-W", begun, "-c", WRITER, str(tmp_path)]
    processes = [subprocess.Popen(command) for _ in range(2)]
    assert [process.wait() for process in processes] == [0, 0]
    checkpoints = io.Checkpoints(tmp_path, keep=2)
    assert checkpoints.steps()[-2:] == (38, 39)
    assert not [name for name in names(tmp_path) if name.endswith(".tmp")]
    for step in checkpoints.steps():
        io.verify(step_file(tmp_path, step))


def test_threads_may_share_checkpoints(tmp_path: Path) -> None:
    checkpoints = io.Checkpoints(tmp_path, keep=None)
    threads = [
        threading.Thread(target=checkpoints.save, args=(step, state(step))) for step in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert checkpoints.steps() == tuple(range(12))


def test_a_save_that_runs_at_the_end_of_a_process_is_finished(tmp_path: Path) -> None:
    script = """
import sys
import numpy as np
from funcgrad import io
io.Checkpoints(sys.argv[1]).save(1, {"x": np.ones(4 * 10**6), "y": np.ones(4 * 10**6)})
"""
    printed(script, str(tmp_path))
    io.verify(step_file(tmp_path, 1))


@pytest.mark.slow
def test_a_run_that_is_killed_ends_with_the_bits_of_one_that_is_not(tmp_path: Path) -> None:
    expected = train(str(tmp_path / "whole"), 20)
    count, _, digest = killed(tmp_path / "killed", 20, kills=3, longest=0.02)
    assert count == 3
    assert digest == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    "devices",
    [("fake", "cpu"), ("cpu", "fake"), ("cpu", "xla:cpu:1"), ("xla:cpu:0", "xla:cpu:1")],
    ids="_to_".join,
)
def test_a_run_that_is_killed_on_one_device_goes_on_on_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, devices: tuple[str, str]
) -> None:
    is_exact = not any(name.startswith("xla") for name in devices)
    if not is_exact:
        pytest.importorskip("jax")
        monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=2")
        monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    steps = moved(tmp_path / "moved", devices, more=10)
    train(str(tmp_path / "whole"), steps)
    folders = [io.Checkpoints(tmp_path / name) for name in ("moved", "whole")]
    moved_to, whole = [fg.tree.leaves(folder.latest()) for folder in folders]
    assert len(moved_to) == len(whole)
    for x, y in zip(moved_to, whole, strict=True):
        assert fg.tensor(x).dtype == fg.tensor(y).dtype
        np.testing.assert_allclose(x, y, 0.0, 0.0 if is_exact else 1e-13)


def test_static_values_that_tell_their_parts_are_described_by_them() -> None:
    class Told:
        def __init__(self, number: int) -> None:
            self.number = number

        def __static_parts__(self) -> Any:
            return ("number", self.number)

    assert _static_text(Told(1)) == _static_text(Told(1)) != _static_text(Told(2))

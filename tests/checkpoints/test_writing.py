"""Writing a checkpoint: a machine that stops at any call leaves the newest complete one loadable."""

import errno
import os
from pathlib import Path
from shutil import copytree

import pytest
from support.checkpoints.disks import LOSSES, Crash, CrashingDisk, FullDisk, QuickDisk
from support.checkpoints.written import write_checkpoint

from weft.checkpoints import writing
from weft.checkpoints.disk import Disk
from weft.checkpoints.folder import (
    find_newest,
    lock,
    name_of,
    partial_of,
    partials_in,
    put_back,
    remove_partials,
    steps_in,
)
from weft.checkpoints.manifest import read_manifest
from weft.checkpoints.tensor_file import read_tensors
from weft.checkpoints.writing import abandon, mark_finished


def newest(folder: Path) -> int:
    """The step of the newest complete checkpoint, whose numbers are all as they were written."""
    path, manifest, _ = find_newest(folder)
    assert path is not None
    assert manifest is not None
    for part in manifest.workers:
        tensors = read_tensors(path / part.file.name, part.file.size, part.file.tensors)
        assert (tensors["worker.model.w"].as_array() == manifest.step + part.rank).all()
    return manifest.step


def num_calls_of(folder: Path, num_workers: int) -> int:
    disk = CrashingDisk()
    write_checkpoint(folder, 4, disk, num_workers)
    return disk.num_calls


@pytest.mark.parametrize("what", LOSSES)
@pytest.mark.parametrize("num_workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_after_a_crash_at_any_call_the_newest_complete_checkpoint_loads(
    what: str, num_workers: int, tmp_path: Path
) -> None:
    before, found = tmp_path / "before", []
    before.mkdir()
    for step in (1, 2, 3):
        write_checkpoint(before, step, QuickDisk(), num_workers)
    for at in range(num_calls_of(copytree(before, tmp_path / "counted"), num_workers)):
        folder = copytree(before, tmp_path / f"crash-{at}")
        disk = CrashingDisk(at)
        with pytest.raises(Crash):
            write_checkpoint(folder, 4, disk, num_workers)
        disk.lose(what)
        found.append(newest(folder))
        remove_partials(folder)
        assert newest(folder) == found[-1]
        write_checkpoint(folder, 4, QuickDisk(), num_workers)
        assert (newest(folder), steps_in(folder), partials_in(folder)) == (4, [4, 3, 2], [])
    assert found == sorted(found)
    assert set(found) == {3, 4}


@pytest.mark.parametrize("what", LOSSES)
def test_after_a_crash_at_any_call_one_that_takes_the_place_of_another_of_its_step_leaves_one_of_them(
    what: str, tmp_path: Path
) -> None:
    before = tmp_path / "before"
    before.mkdir()
    write_checkpoint(before, 4, QuickDisk(), 1)
    num_calls = num_calls_of(copytree(before, tmp_path / "counted"), 1)
    for at in range(num_calls):
        folder = copytree(before, tmp_path / f"crash-{at}")
        disk = CrashingDisk(at)
        with pytest.raises(Crash):
            write_checkpoint(folder, 4, disk, 1)
        disk.lose(what)
        put_back(folder)
        remove_partials(folder)
        assert newest(folder) == 4
        assert sorted(path.name for path in folder.iterdir()) == [name_of(4)]


def test_a_manifest_that_would_not_be_read_again_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_checkpoint(tmp_path, 1, QuickDisk(), 1)
    monkeypatch.setattr(writing, "MANIFEST_BYTES_MAX", 100)
    with pytest.raises(OSError, match=r"its manifest would have \d+ bytes, of at most 100"):
        write_checkpoint(tmp_path, 2, QuickDisk(), 1)
    assert newest(tmp_path) == 1


def test_the_last_three_are_kept_and_others_of_the_folder_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    for step in (10, 20, 30, 40, 50):
        write_checkpoint(tmp_path, step)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.txt", *map(name_of, (30, 40, 50))]


@pytest.mark.parametrize("num_writes", range(3))
def test_on_a_full_disk_the_checkpoint_before_is_as_it_was(num_writes: int, tmp_path: Path) -> None:
    write_checkpoint(tmp_path, 1)
    with pytest.raises(OSError, match="No space left"):
        write_checkpoint(tmp_path, 2, FullDisk(num_writes))
    abandon(tmp_path, 2, Disk())
    assert (newest(tmp_path), partials_in(tmp_path)) == (1, [])


def test_a_damaged_checkpoint_of_the_same_step_is_replaced(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, 1)
    (write_checkpoint(tmp_path, 2) / "manifest.json").write_text("{}")
    write_checkpoint(tmp_path, 2)
    assert newest(tmp_path) == 2


@pytest.mark.parametrize("what", LOSSES)
def test_a_finished_checkpoint_says_so_and_is_complete_at_every_moment(what: str, tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path, 1)
    counted = CrashingDisk()
    mark_finished(write_checkpoint(tmp_path, 2), counted)
    assert read_manifest(tmp_path / name_of(2)).is_finished
    for at in range(counted.num_calls):
        disk = CrashingDisk(at)
        with pytest.raises(Crash):
            mark_finished(path, disk)
        disk.lose("nothing" if what.startswith("renames") else what)
        assert find_newest(tmp_path).path == tmp_path / name_of(2)
        assert read_manifest(path).step == 1
    lock(tmp_path)


def test_if_a_checkpoint_cannot_take_the_place_of_another_that_one_stays(tmp_path: Path) -> None:
    class NoNewNames(QuickDisk):
        """Takes the one there aside, but does not let the other have its name."""

        def rename(self, source: Path, target: Path) -> None:
            if target.name == name_of(4) and source.name.endswith(partial_of(4)):
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            super().rename(source, target)

    write_checkpoint(tmp_path, 4, QuickDisk())
    with pytest.raises(OSError, match="Input/output error"):
        write_checkpoint(tmp_path, 4, NoNewNames())
    assert newest(tmp_path) == 4
    assert steps_in(tmp_path) == [4]

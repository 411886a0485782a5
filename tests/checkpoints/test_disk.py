"""The calls that write a checkpoint."""

from hashlib import sha256
from pathlib import Path

import pytest
from support.checkpoints.disks import CrashingDisk

from weft.checkpoints.disk import Disk


@pytest.mark.parametrize("disk", [Disk(), CrashingDisk()], ids=["plain", "short writes"])
def test_a_file_is_written_whole_however_little_each_call_takes(disk: Disk, tmp_path: Path) -> None:
    pieces = [memoryview(b"weft" * 1000), memoryview(b""), memoryview(b"!")]
    assert disk.write_file(tmp_path / "a", pieces) == (4001, sha256(b"weft" * 1000 + b"!").hexdigest())
    assert (tmp_path / "a").read_bytes() == b"weft" * 1000 + b"!"


def test_a_link_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "a").symlink_to(tmp_path / "mine")
    with pytest.raises(OSError, match="symbolic links"):
        Disk().write_file(tmp_path / "a", [memoryview(b"x")])
    assert (tmp_path / "mine").read_text() == "mine"

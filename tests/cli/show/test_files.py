"""Files that verbs write."""

import os
from pathlib import Path
from typing import Any

import pytest

from weft.cli.show import files
from weft.cli.show.files import check_folder, check_writable, remove_old, write_or_show, written
from weft.core.errors import ConfigError


def test_a_file_in_a_folder_that_is_there_can_be_written_and_none_need_not_be(tmp_path: Path) -> None:
    assert check_writable(tmp_path / "a.json") is None
    assert check_writable(Path("a.json")) is None
    assert check_writable(None) is None


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    path = tmp_path / "none" / "a.json"
    with pytest.raises(ConfigError) as refused:
        check_writable(path)
    assert str(refused.value) == f"'{path}' cannot be written: there is no folder '{path.parent}'.\n  Make it first."


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        check_writable(tmp_path)
    assert str(refused.value) == f"'{tmp_path}' cannot be written: it is a folder.\n  Add the name of a file."


def test_a_file_that_the_system_does_not_let_us_write_is_refused() -> None:
    with pytest.raises(ConfigError) as refused:
        check_writable(Path("/proc/weft.json"))
    assert str(refused.value) == (
        "'/proc/weft.json' cannot be written: No such file or directory.\n  Choose another place."
    )


def test_looking_whether_a_file_can_be_written_leaves_it_as_it_was(tmp_path: Path) -> None:
    there, new = tmp_path / "there.json", tmp_path / "new.json"
    there.write_text("something")
    check_writable(there)
    check_writable(new)
    assert there.read_text() == "something"
    assert not new.exists()


def test_other_hosts_that_share_the_folder_never_see_a_file_that_is_only_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    opened = files.NamedTemporaryFile

    def noting(**options: Any) -> Any:
        file = opened(**options)
        seen.extend(os.listdir(tmp_path))
        return file

    monkeypatch.setattr(files, "NamedTemporaryFile", noting)
    for _ in range(2):
        check_writable(tmp_path / "new.json")
    assert len(set(seen)) == 2, "each has a name of its own"
    assert "new.json" not in seen
    assert os.listdir(tmp_path) == []


def test_what_an_earlier_run_wrote_is_removed_and_links_stay(tmp_path: Path) -> None:
    old, link = tmp_path / "old.json", tmp_path / "link"
    old.write_text("[]")
    link.symlink_to(old)
    for path in (None, link, tmp_path, tmp_path / "new.json"):
        remove_old(path)
    assert link.read_text() == "[]"
    remove_old(old)
    assert not old.exists()


def test_a_folder_is_made_and_stays_empty(tmp_path: Path) -> None:
    check_folder(None)
    check_folder(tmp_path / "a" / "b")
    assert list((tmp_path / "a" / "b").iterdir()) == []


def test_a_folder_that_cannot_be_made_is_refused() -> None:
    with pytest.raises(ConfigError) as refused:
        check_folder(Path("/proc/weft"))
    assert str(refused.value).startswith("nothing can be written into the folder '/proc/weft': ")


def test_what_a_disk_cannot_take_is_shown_instead(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert write_or_show("--json", tmp_path / "a.json", "[1]\n")
    assert (tmp_path / "a.json").read_text() == "[1]\n"
    assert not write_or_show("--json", Path("/dev/full"), "[1, '[bold]']\n")
    shown = capsys.readouterr()
    assert shown.err == "--json /dev/full cannot be written: No space left on device; what belongs there comes here\n"
    assert shown.out == "[1, '[bold]']\n\n"


def test_a_picture_that_a_disk_cannot_take_is_told_of(capsys: pytest.CaptureFixture[str]) -> None:
    path = Path("/dev/full")
    assert not written("--plot", path, lambda: path.write_bytes(b"x"))
    told = "--plot /dev/full cannot be written: No space left on device; all else is as it should be\n"
    assert capsys.readouterr().err == told

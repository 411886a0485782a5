"""Files that come from workers elsewhere."""

import os
from pathlib import Path

import pytest

from weft.engines.real.returned_files import ReturnedFiles
from weft.runtime.seats.returned_files import FilePiece


def test_a_file_is_there_when_all_of_it_has_come(tmp_path: Path) -> None:
    home = ReturnedFiles(tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "model").write_bytes(b"old")
    assert home.take(0, FilePiece("out/model", 0, b"new ", False)) is None
    assert (tmp_path / "out" / "model").read_bytes() == b"old"
    assert home.take(0, FilePiece("out/model", 4, b"one", True)) is None
    assert (tmp_path / "out" / "model").read_bytes() == b"new one"
    assert home.brought == [Path("out/model")]
    home.close()
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["model"]


def test_folders_that_the_script_made_elsewhere_are_made_here(tmp_path: Path) -> None:
    home = ReturnedFiles(tmp_path)
    assert home.take(1, FilePiece("runs/1/model", 0, b"x", True)) is None
    assert (tmp_path / "runs" / "1" / "model").read_bytes() == b"x"


@pytest.mark.parametrize("path", ["/etc/passwd", "../model", "out/../../model", "link/model"])
def test_nothing_lands_outside_the_folder(tmp_path: Path, path: str) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    (tmp_path / "there").mkdir()
    (folder / "link").symlink_to(tmp_path / "there")
    home = ReturnedFiles(folder)
    objection = home.take(0, FilePiece(path, 0, b"x", True))
    assert objection == "only files below the folder that a script runs in are brought back"
    assert list((tmp_path / "there").iterdir()) == []
    assert [entry.name for entry in folder.iterdir()] == ["link"]


def test_a_link_in_the_place_of_the_file_is_followed_only_within_the_folder(tmp_path: Path) -> None:
    (tmp_path / "precious").write_bytes(b"precious")
    here = tmp_path / "here"
    here.mkdir()
    (here / "outwards").symlink_to(tmp_path / "precious")
    (here / "inwards").symlink_to("model")
    home = ReturnedFiles(here)
    objection = home.take(0, FilePiece("outwards", 0, b"x", True))
    assert objection == "only files below the folder that a script runs in are brought back"
    assert home.take(0, FilePiece("inwards", 0, b"x", True)) is None
    assert (tmp_path / "precious").read_bytes() == b"precious"
    assert (here / "outwards").is_symlink()
    assert (here / "inwards").is_symlink()
    assert (here / "model").read_bytes() == b"x"


def test_what_is_no_regular_file_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    objection = ReturnedFiles(tmp_path).take(0, FilePiece("pipe", 0, b"x", True))
    assert objection == f"'{tmp_path / 'pipe'}' cannot be saved: it is a named pipe, not a regular file."
    assert [entry.name for entry in tmp_path.iterdir()] == ["pipe"]


def test_pieces_that_do_not_follow_each_other_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    home = ReturnedFiles(tmp_path)
    assert home.take(0, FilePiece("model", 0, b"abc", False)) is None
    assert home.take(0, FilePiece("model", 5, b"x", True)) == "a piece from byte 5 on came where 3 were there"
    assert list(tmp_path.iterdir()) == []


def test_workers_that_save_under_one_name_do_not_mix(tmp_path: Path) -> None:
    home = ReturnedFiles(tmp_path)
    home.take(0, FilePiece("model", 0, b"a", False))
    home.take(1, FilePiece("model", 0, b"b", False))
    home.take(0, FilePiece("model", 1, b"a", True))
    assert (tmp_path / "model").read_bytes() == b"aa"
    home.close()
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_disk_that_refuses_is_told(tmp_path: Path) -> None:
    (tmp_path / "model").touch()
    assert ReturnedFiles(tmp_path).take(0, FilePiece("model/x", 0, b"x", True)) == "File exists"

"""Files that verbs write."""

from pathlib import Path

import pytest

from weft.cli.files import check_writable
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

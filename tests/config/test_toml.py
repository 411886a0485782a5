"""Reading TOML, with errors that name the file."""

from pathlib import Path

import pytest

from weft.config.toml import load_toml, read_toml
from weft.core.errors import ConfigError


def test_a_file_gives_its_tables(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text('name = "größer"\n[compute]\nvariation = 0.1\n', encoding="utf-8")
    assert load_toml(path, "cluster file") == {"name": "größer", "compute": {"variation": 0.1}}


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "none.toml"
    with pytest.raises(ConfigError) as refused:
        load_toml(path, "cluster file")
    assert str(refused.value) == f"cluster file '{path}' cannot be read: No such file or directory.\n  Check the path."


def test_what_is_not_toml_is_refused_with_the_place() -> None:
    with pytest.raises(ConfigError) as refused:
        read_toml("workers = \n", "settings 'weft.toml'")
    message = str(refused.value)
    assert message.startswith("settings 'weft.toml' is not valid TOML: Invalid value (at line 1, column 11)")
    assert message.endswith("\n  Mend that place.")


def test_what_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "binary.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError) as refused:
        load_toml(path, "cluster file")
    assert str(refused.value) == f"cluster file '{path}' is not text in UTF-8.\n  Save it as UTF-8."

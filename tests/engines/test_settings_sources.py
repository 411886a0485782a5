"""Where settings come from besides the command line."""

from pathlib import Path

import pytest

from weft.config.options import set_options
from weft.config.settings import Settings
from weft.core.errors import ConfigError
from weft.engines.settings_sources import settings_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "weft.toml").write_text('strategy = "ssp"\nworkers = 3\nseed = 3\n')
    return tmp_path


def test_the_command_line_beats_the_environment_which_beats_the_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEFT_STRATEGY", "gossip")
    monkeypatch.setenv("WEFT_WORKERS", "2")
    given = Settings(strategy=("allreduce",))
    assert settings_of(given, folder) == Settings(strategy=("allreduce",), workers=2, seed=3)


def test_a_collective_of_the_command_line_beats_that_of_the_environment_which_beats_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def chosen(*texts: str) -> str | None:
        return set_options(settings_of(Settings(set=texts or None), tmp_path).set or ())[0].reduce.collective

    (tmp_path / "weft.toml").write_text('collective = "tree"\nset = ["worker.threads=2"]\n')
    assert chosen() == "tree"
    monkeypatch.setenv("WEFT_COLLECTIVE", "ring")
    assert chosen() == "ring"
    assert chosen("reduce.collective=butterfly") == "butterfly"
    monkeypatch.setenv("WEFT_SET", "data.global_batch=8 reduce.collective=auto")
    assert chosen() == "auto"


def test_nothing_said_anywhere_is_left_open(tmp_path: Path) -> None:
    assert settings_of(Settings(), tmp_path) == Settings()


def test_the_file_is_looked_for_in_the_current_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert settings_of(Settings()) == Settings(strategy=("ssp",), workers=3, seed=3)


def test_an_empty_variable_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_STRATEGY", "")
    assert settings_of(Settings(), tmp_path) == Settings()


def test_variables_that_say_who_may_join_and_how_are_no_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("WEFT_SECRET", "WEFT_SECRET_FILE", "WEFT_INTERFACE"):
        monkeypatch.setenv(name, "anything")
    assert settings_of(Settings(), tmp_path) == Settings()


def test_an_unknown_variable_gets_the_nearest_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_STRATGY", "gossip")
    with pytest.raises(ConfigError) as refused:
        settings_of(Settings(), tmp_path)
    assert str(refused.value) == (
        "the environment (WEFT_...) has an unknown key 'stratgy'.\n  Did you mean 'strategy'?"
    )


def test_a_wrong_value_is_refused_with_its_place(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_SEED", "many")
    with pytest.raises(ConfigError) as refused:
        settings_of(Settings(), folder)
    assert str(refused.value) == (
        "the environment (WEFT_...): seed is 'many', but wants a whole number.\n  Write e.g. 4."
    )


def test_an_unknown_key_of_the_file_gets_the_nearest_name(folder: Path) -> None:
    path = folder / "weft.toml"
    path.write_text("worker = 3\n")
    with pytest.raises(ConfigError) as refused:
        settings_of(Settings(), folder)
    assert str(refused.value) == f"'{path}' has an unknown key 'worker'.\n  Did you mean 'workers'?"

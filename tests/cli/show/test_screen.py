"""What all verbs print alike."""

from pathlib import Path

import pytest

from weft.cli.show.screen import PACKAGE, _is_theirs, show_error
from weft.core.errors import ConfigError, NodeLost, WeftError
from weft.core.shortening import CHARACTERS_MAX
from weft.observe.records.quantities import human_bytes


def shown(error: WeftError, capsys: pytest.CaptureFixture[str]) -> str:
    show_error(error)
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err


def test_an_error_is_its_own_words_whatever_brackets_and_colons_they_hold(capsys: pytest.CaptureFixture[str]) -> None:
    message = "it has [bold]no[/bold] :x: luck and a very long line" + " and so on" * 30
    assert shown(ConfigError(message), capsys) == f"ConfigError: {message}\n"


def test_a_scripts_traceback_comes_last_without_frames_of_weft(capsys: pytest.CaptureFixture[str]) -> None:
    lost = NodeLost("worker 1 raised TypeError at step 0.")
    with pytest.raises(TypeError) as inside_weft:
        human_bytes("much")  # type: ignore[arg-type]
    lost.__cause__ = inside_weft.value
    lines = shown(lost, capsys).splitlines()
    assert lines[:2] == ["NodeLost: worker 1 raised TypeError at step 0.", "Traceback (most recent call last):"]
    assert f'File "{__file__}"' in lines[2]
    assert lines[-1].startswith("TypeError: ")
    assert PACKAGE not in "\n".join(lines)


def test_frames_of_a_folder_that_is_only_named_like_weft_are_shown() -> None:
    assert not _is_theirs(str(Path(PACKAGE) / "cli" / "app.py"))
    assert not _is_theirs("<frozen importlib._bootstrap>")
    assert _is_theirs(PACKAGE.rstrip("/") + "_experiments/train.py")


def test_a_text_without_end_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    lost = NodeLost("worker 1 raised ValueError at step 0: " + "x" * 50_000_000)
    lost.__cause__ = ValueError("x" * 50_000_000)
    said = shown(lost, capsys)
    assert said.startswith("NodeLost: worker 1 raised ValueError at step 0: xxx")
    assert said.count("characters left out)") == 2
    assert len(said) < 4 * CHARACTERS_MAX

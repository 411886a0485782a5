"""Errors leave a command as sentences with an exit code."""

import errno
import resource

import pytest

from weft.cli.show.command_errors import command_errors, out_of_descriptors
from weft.core.errors import ConfigError


def test_what_weft_refuses_is_a_sentence_and_its_own_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left, command_errors():
        raise ConfigError("this cannot be.\n  Do that.")
    assert left.value.code == ConfigError("").exit_code
    assert "this cannot be." in capsys.readouterr().err


def test_too_few_descriptors_are_said_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left, command_errors():
        raise OSError(errno.EMFILE, "Too many open files")
    assert left.value.code == 1
    assert "ulimit -n" in capsys.readouterr().err
    assert f"{resource.getrlimit(resource.RLIMIT_NOFILE)[0]:,}" in str(out_of_descriptors(OSError(0, "")))


def test_other_errors_of_the_system_are_shown_whole() -> None:
    with pytest.raises(OSError, match="No space"), command_errors():
        raise OSError(errno.ENOSPC, "No space")

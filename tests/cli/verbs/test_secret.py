"""weft secret new."""

import stat
from pathlib import Path

from support.processes.commands import assert_refused, weft_command

from weft.engines.real.secret import read_secret


def test_a_new_secret_is_printed_and_is_another_one_each_time() -> None:
    first, second = (weft_command("secret", "new") for _ in range(2))
    assert (first.code, first.err) == (0, "")
    secrets = [read_secret({"WEFT_SECRET": ended.out}) for ended in (first, second)]
    assert secrets[0] is not None
    assert secrets[0] != secrets[1]


def test_a_file_is_for_its_owner_alone_and_what_is_printed_does_not_say_the_secret(tmp_path: Path) -> None:
    path = tmp_path / "job.secret"
    ended = weft_command("secret", "new", path)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == f"A new secret is in '{path}'. Give each host a copy and set WEFT_SECRET_FILE={path}.\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_secret({"WEFT_SECRET_FILE": str(path)}) == bytes.fromhex(path.read_text())


def test_a_file_that_is_there_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "job.secret"
    path.write_text("something else")
    because = f"'{path}' is there already, and jobs may be using it.\n  Remove it first, or choose another name."
    assert_refused("secret", "new", path, because=because)
    assert path.read_text() == "something else"


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "job.secret"
    because = f"'{path}' cannot be written: No such file or directory.\n  Choose another place."
    assert_refused("secret", "new", path, because=because)

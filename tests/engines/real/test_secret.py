"""The job's secret: read from the environment or a file that nobody else can read, and never shown."""

import os
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from weft.core.errors import ConfigError
from weft.engines.real.secret import WRITE_ONE, new_secret, read_secret, secret_of_run, write_secret

SECRET = bytes(range(32))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_secret(SECRET, tmp_path / "job.secret")
    return tmp_path / "job.secret"


def refusal(environ: dict[str, str]) -> str:
    with pytest.raises(ConfigError) as refused:
        read_secret(environ)
    return str(refused.value)


def of_file(path: Path) -> dict[str, str]:
    return {"WEFT_SECRET_FILE": str(path)}


def test_a_secret_comes_from_the_environment_or_a_file_or_is_not_there(path: Path) -> None:
    assert read_secret({"WEFT_SECRET": SECRET.hex()}) == SECRET
    assert read_secret({"WEFT_SECRET": f" {SECRET.hex().upper()}\n"}) == SECRET
    assert read_secret(of_file(path)) == SECRET
    path.chmod(0o400)
    assert read_secret(of_file(path)) == SECRET
    assert read_secret({"WEFT_SECRET": "", "WEFT_SECRET_FILE": "", "HOME": "/"}) is None


def test_every_new_secret_is_another_one() -> None:
    made = {new_secret() for _ in range(100)}
    assert (len(made), {len(secret) for secret in made}) == (100, {32})


@pytest.mark.parametrize("text", [SECRET.hex()[:-1], SECRET.hex() + "0", "g" * 64, "٣" * 64, "x"])
def test_what_is_no_secret_is_refused_without_saying_it(text: str, tmp_path: Path) -> None:
    told = refusal({"WEFT_SECRET": text})
    assert told == (
        f"WEFT_SECRET does not hold a secret of 64 hexadecimal digits (it has {len(text)} characters).\n  {WRITE_ONE}"
    )
    file = tmp_path / "bad.secret"
    file.touch(0o600)
    file.write_text(text)
    told = refusal(of_file(file))
    assert told.startswith(f"the file '{file}' of WEFT_SECRET_FILE does not hold a secret of 64 hexadecimal digits")
    assert len(text) == 1 or text not in told


def test_a_secret_in_two_places_is_refused(path: Path) -> None:
    told = refusal({"WEFT_SECRET": SECRET.hex(), **of_file(path)})
    assert told == "WEFT_SECRET and WEFT_SECRET_FILE are both set, but a job has one secret.\n  Unset one."


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o700, 0o444])
def test_a_file_that_others_can_read_is_refused(path: Path, mode: int) -> None:
    path.chmod(mode)
    assert refusal(of_file(path)) == (
        f"the file '{path}' of WEFT_SECRET_FILE has mode {mode:04o}, but wants 0600 or 0400: others may have read it.\n"
        f"  Make a new one, or: chmod 600 {path}"
    )


def test_a_file_of_somebody_else_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = path.stat().st_uid
    monkeypatch.setattr("os.geteuid", lambda: owner + 1)
    assert refusal(of_file(path)) == (
        f"the file '{path}' of WEFT_SECRET_FILE belongs to user {owner}, not to {owner + 1}, who runs this.\n"
        "  Only a file of your own is believed: copy it."
    )


def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    missing, pipe = tmp_path / "missing", tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    assert refusal(of_file(missing)) == (
        f"the file '{missing}' of WEFT_SECRET_FILE cannot be read: No such file or directory.\n  {WRITE_ONE}"
    )
    for place in (pipe, tmp_path):
        assert refusal(of_file(place)) == f"'{place}' of WEFT_SECRET_FILE is no regular file.\n  {WRITE_ONE}"


def test_a_file_has_its_mode_whatever_the_umask_says(tmp_path: Path) -> None:
    before = os.umask(0o777)
    try:
        write_secret(SECRET, tmp_path / "job.secret")
    finally:
        os.umask(before)
    assert (tmp_path / "job.secret").stat().st_mode & 0o777 == 0o600


def test_every_run_has_a_secret_of_its_own() -> None:
    runs = [("mill/0", "a"), ("mill/0", "b"), ("mill/1", "a")]
    found = {secret_of_run(SECRET, run, token) for run, token in runs}
    assert len(found | {SECRET, secret_of_run(bytes(32), "mill/0", "a")}) == 5
    assert secret_of_run(SECRET, "mill/0", "a") in found
    assert {len(each) for each in found} == {32}


def test_the_secret_of_a_run_is_derived_as_rfc_5869_says() -> None:
    about = b"weft: the secret of one run\0mill/0\0a"
    assert secret_of_run(SECRET, "mill/0", "a") == HKDF(SHA256(), 32, salt=None, info=about).derive(SECRET)

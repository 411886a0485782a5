"""A cluster of Weft's own, and addresses of others'."""

import os
import re
import signal
import socket
import sys
from pathlib import Path

import pytest
from support.processes.launches import FOREVER, TRAIN, Launched, launched

from weft.core.errors import ConfigError
from weft.engines.ray.cluster import address_of, check_ray, meaning, short_folder, worker_env

PATIENCE_S = 240.0
LISTENS = "0A"


def test_the_address_is_the_one_that_is_given_or_the_environments_or_none() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert address_of(address, {"RAY_ADDRESS": "10.0.0.1:6379"}) == address
        assert address_of(None, {"RAY_ADDRESS": address}) == address
    assert address_of(None, {}) is None
    assert address_of(None, {"RAY_ADDRESS": "local"}) is None
    assert address_of("auto", {}) == "auto"


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("ray://10.0.0.1:10001", "is one of Ray Client, over which Weft's workers cannot reach this process"),
        ("10.0.0.1", "the address '10.0.0.1' is not HOST:PORT"),
        ("10.0.0.1:http", "is not HOST:PORT"),
        ("10.0.0.1:70000", "is not HOST:PORT"),
        ("127.0.0.1:1", "nothing answers at '127.0.0.1:1': Connection refused"),
    ],
)
def test_an_address_that_leads_nowhere_is_refused_before_anything_starts(address: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        address_of(address, {})
    assert message in str(caught.value)


def test_without_ray_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=re.escape("pip install 'weft[ray]'")):
        check_ray()


def test_a_cluster_of_our_own_wants_a_new_token_whatever_the_user_has_set() -> None:
    theirs = {"RAY_AUTH_MODE": "disabled", "RAY_AUTH_TOKEN": "old", "RAY_AUTH_TOKEN_PATH": "/x", "RAY_ADDRESS": "auto"}
    first, second = worker_env(None, theirs), worker_env(None, theirs)
    assert first["RAY_AUTH_MODE"] == "token"
    assert re.fullmatch("[0-9a-f]{64}", first["RAY_AUTH_TOKEN"])
    assert first["RAY_AUTH_TOKEN"] != second["RAY_AUTH_TOKEN"]
    assert "RAY_AUTH_TOKEN_PATH" not in first
    assert "RAY_ADDRESS" not in first
    others = worker_env("10.0.0.1:6379", theirs)
    assert {name: others[name] for name in theirs} == theirs


def test_what_ray_says_of_a_post_is_made_short() -> None:
    assert "pip install weft" in meaning("RuntimeError: ...\nModuleNotFoundError: No module named 'weft'")
    assert meaning("The actor died.\n\tclass_name: Post") == "The actor died."


def test_rays_sockets_find_room_below_a_folder_with_a_short_name(tmp_path: Path) -> None:
    usual, other = Path(short_folder("/tmp")), Path(short_folder(str(tmp_path)))
    assert usual.parent == other.parent == Path("/tmp")
    usual.rmdir()
    other.rmdir()


def listening(run: Launched) -> set[str]:
    """The addresses, as the kernel writes them, on which processes of a run listen."""
    links = [link for pid in run.processes() for link in Path(f"/proc/{pid}/fd").glob("*")]
    sockets = {os.readlink(link) for link in links if os.path.lexists(link)}
    lines = [line.split() for kind in ("tcp", "tcp6") for line in Path(f"/proc/net/{kind}").read_text().splitlines()]
    return {line[1].partition(":")[0] for line in lines if line[3] == LISTENS and f"socket:[{line[9]}]" in sockets}


@pytest.mark.ray
def test_a_cluster_of_our_own_is_private_and_leaves_nothing_even_when_the_launcher_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(TRAIN + FOREVER)
    with launched(script, "-n", 2, "--on", "ray", RAY_ADDRESS="") as run:
        run.patience_s = PATIENCE_S
        run.until("trains", 2)
        assert listening(run) == {"0100007F", "0000000000000000FFFF00000100007F"}
        environments = [Path(f"/proc/{pid}/environ").read_bytes().split(b"\0") for pid in run.processes()]
        (token,) = {word for words in environments for word in words if word.startswith(b"RAY_AUTH_TOKEN=")}
        commands = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in run.processes()]
        assert any(b"gcs_server" in command for command in commands)
        assert not any(token.partition(b"=")[2] in command for command in commands)
        (bridge,) = [command.split(b"\0") for command in commands if b"weft.engines.ray.bridge" in command]
        folder = Path(os.fsdecode(bridge[-2]))
        assert folder.is_dir()
        run.signal(signal.SIGKILL)
        assert run.leftovers(within_s=10) == set()
        assert not folder.exists()

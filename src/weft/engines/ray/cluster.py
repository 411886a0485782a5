"""A Ray cluster as a launcher has it: one that is there, or one of its own, with the Ray bridge that speaks with it."""

import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from weft.config.extras import check_extra
from weft.core.errors import ConfigError, NodeLost
from weft.engines.ray.bridge_messages import (
    Answered,
    Ask,
    BridgeConnection,
    Clear,
    Cleared,
    CommandRefused,
    Lost,
    Place,
    Placed,
    Settle,
    Settled,
    ToBridge,
    ToLauncher,
)
from weft.interpreter import python_module

ADDRESS_VARIABLE = "RAY_ADDRESS"
SETTLED_S_MAX = 90.0
"""How long a cluster may take to start, or to take a folder."""
ACTORS_S_MAX = 120.0
"""How long actors may take to come, with their environment, on machines that have much else to do."""
ENDED_S_MAX = 15.0
REACHED_S_MAX = 5.0
LOOK_S = 0.1
WORDS_MAX = 2000
TOKEN_BYTES = 32
FOLDER_CHARACTERS_MAX = 20


def check_ray() -> None:
    """Refuse to go on without Ray."""
    check_extra("ray", "--on ray")


def address_of(given: str | None, environ: Mapping[str, str]) -> str | None:
    """The cluster that is meant: None stands for one that has to be started."""
    address = given or environ.get(ADDRESS_VARIABLE) or None
    if address is None or address == "local":
        return None
    if "://" in address:
        raise ConfigError(
            f"the address '{address}' is of Ray's client, through which Weft's workers do not find back.\n"
            "  Run this on a node of the cluster, and name its controller: --address HOST:6379, or --address auto."
        )
    if address != "auto":
        _check_reachable(address)
    return address


def _check_reachable(address: str) -> None:
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 1 << 16:
        raise ConfigError(f"--address got '{address}', but wants HOST:PORT.\n  Write e.g. --address 10.0.0.1:6379.")
    try:
        socket.create_connection((host.strip("[]"), int(port)), REACHED_S_MAX).close()
    except OSError as error:
        raise ConfigError(
            f"nobody answers at '{address}': {error.strerror or error}.\n  Is a Ray cluster there? ray start --head "
            "starts one; without --address, Weft starts its own on this machine."
        ) from error


def worker_env(address: str | None, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a Ray bridge.

    A cluster of our own listens on loopback alone, and wants a token that is made for it; of another's, whatever the
    user has set holds.
    """
    ours = {**environ, "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0"}
    if address is not None:
        ours.setdefault("RAY_NUM_REDIS_GET_RETRIES", "5")  # it is known that somebody answers there
    else:
        ours.pop(ADDRESS_VARIABLE, None)
        ours.pop("RAY_AUTH_TOKEN_PATH", None)
        ours["RAY_AUTH_MODE"] = "token"
        ours["RAY_AUTH_TOKEN"] = secrets.token_hex(TOKEN_BYTES)
        ours["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # on any system: this machine only
        ours["RAY_USAGE_STATS_ENABLED"] = "0"
        ours["RAY_enable_worker_prestart"] = "0"  # they would not have the folder, and wait in vain
    return ours


def short_folder(usual: str) -> str:
    """A new folder below which Ray's sockets, whose names have some 60 characters more, find room."""
    return tempfile.mkdtemp(prefix="weft-ray-", dir=usual if len(usual) <= FOLDER_CHARACTERS_MAX else "/tmp")


class RayCluster:
    """A cluster with a script's folder on it; used inside `with`. Whatever ends it, nothing of ours is left there."""

    def __init__(self, address: str | None, resources: Mapping[str, float], folder: Path) -> None:
        self._given = address
        self._temporary = short_folder(tempfile.gettempdir())
        mine, theirs = socket.socketpair()
        self._line = BridgeConnection(mine, ToLauncher)
        self._words = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the rest)
        with theirs:
            self._process = subprocess.Popen(
                python_module("weft.engines.ray.bridge", [str(theirs.fileno()), self._temporary]),
                stdin=subprocess.DEVNULL,
                stdout=self._words,
                stderr=self._words,
                pass_fds=[theirs.fileno()],
                env=worker_env(address, os.environ),
                start_new_session=True,
            )
        self._settle = Settle(address, dict(resources), self._temporary, str(folder))
        self.address = ""
        """By which the cluster knows this machine."""
        self.nodes: list[str] = []
        """By the resource that each node has for itself."""

    def __enter__(self) -> "RayCluster":
        return self

    def __exit__(self, *error: object) -> None:
        self._line.close()
        try:
            self._process.wait(ENDED_S_MAX)
        except subprocess.TimeoutExpired:  # a cluster of its own ends with it
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._temporary, ignore_errors=True)
        self._words.close()

    def fileno(self) -> int:
        """Readable when there is something to hear."""
        return self._line.fileno()

    def settle(self, check: Callable[[], None]) -> None:
        """Wait until the cluster is there; `check` is called now and then meanwhile."""
        if not self.address:
            settled = self._request(self._settle, Settled, SETTLED_S_MAX, check)
            self.address, self.nodes = settled.address, settled.nodes

    def place(
        self,
        bundles: Sequence[Mapping[str, float]],
        patience_s: float,
        check: Callable[[], None],
        *,
        spreads: bool = False,
    ) -> None:
        """Find a place for each worker, or say what is lacking."""
        message = Place([dict(bundle) for bundle in bundles], patience_s, spreads)
        self._request(message, Placed, patience_s + SETTLED_S_MAX, check)

    def ask(self, rank: int, command: str, argument: bytes = b"") -> None:
        """Let a worker's actor do something; what comes of it will be heard."""
        self._line.send(Ask(rank, command, argument))

    def ask_all(self, command: str, arguments: Sequence[bytes], check: Callable[[], None]) -> list[bytes]:
        """Let all actors do something, and wait for what they answer."""
        for rank, argument in enumerate(arguments):
            self.ask(rank, command, argument)
        answers: dict[int, bytes] = {}
        deadline_s = time.monotonic() + ACTORS_S_MAX
        while len(answers) < len(arguments):
            for said in self._hear(
                LOOK_S, deadline_s, f"'{command}' of {len(arguments) - len(answers)} workers", check
            ):
                if isinstance(said, Lost):
                    raise NodeLost(f"worker {said.rank} has no process on the Ray cluster: {meaning(said.text)}")
                assert isinstance(said, Answered)
                answers[said.rank] = said.answer
        return [answer for _, answer in sorted(answers.items())]

    def hear(self) -> Iterator[Answered | Lost]:
        """What actors have done meanwhile."""
        yield from self._line.receive()
        if self._line.is_closed:
            raise self._ended()

    def clear(self) -> None:
        """Give all places back."""
        for said in self._until(Clear(), SETTLED_S_MAX, "the places to be given back", lambda: None):
            if isinstance(said, Cleared):
                return

    def _request(self, message: ToBridge, kind: type[Any], timeout_s: float, check: Callable[[], None]) -> Any:
        for said in self._until(message, timeout_s, "the Ray cluster", check):
            if isinstance(said, CommandRefused):
                raise ConfigError(said.text)
            if isinstance(said, kind):
                return said
        raise AssertionError("what is waited for comes, or is refused")

    def _until(self, message: ToBridge, timeout_s: float, what: str, check: Callable[[], None]) -> Iterator[Any]:
        """Everything that is heard after a message, until whoever listens has what it wanted."""
        self._line.send(message)
        deadline_s = time.monotonic() + timeout_s
        while True:
            yield from self._hear(LOOK_S, deadline_s, what, check)

    def _hear(self, wait_s: float, deadline_s: float, what: str, check: Callable[[], None]) -> list[Any]:
        said = list(self._line.receive(wait_s))
        check()
        if self._line.is_closed and not said:
            raise self._ended()
        if time.monotonic() > deadline_s:
            raise NodeLost(f"waited too long for {what}.\n{self._last_words()}")
        return said

    def _ended(self) -> NodeLost:
        return NodeLost(f"the process that speaks with Ray has ended.\n{self._last_words()}")

    def _last_words(self) -> str:
        self._words.seek(0)
        text = self._words.read().decode(errors="replace")[-WORDS_MAX:].strip()
        return f"  It wrote last:\n{text}" if text else "  It wrote nothing."


def meaning(text: str) -> str:
    """What Ray says of an actor that could not be, and what to do."""
    if "No module named 'weft'" in text:
        return "Weft is not installed there.\n  pip install weft, the same version, on every node of the cluster."
    return text.strip().partition("\n")[0]

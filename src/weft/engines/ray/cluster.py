"""A Ray cluster as the launcher sees it, found or started for the run, and reached through a Ray bridge process."""

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
"""How long a cluster may take to start, or to accept the uploaded folder."""
ACTORS_S_MAX = 120.0
"""How long actors may take to start, with their runtime environment, on busy machines."""
ENDED_S_MAX = 15.0
REACHED_S_MAX = 5.0
LOOK_S = 0.1
WORDS_MAX = 2000
TOKEN_BYTES = 32
FOLDER_CHARACTERS_MAX = 20


def check_ray() -> None:
    """Raise ConfigError if Ray is not installed."""
    check_extra("ray", "--on ray")


def address_of(given: str | None, environ: Mapping[str, str]) -> str | None:
    """The address of the cluster, by option or RAY_ADDRESS; None: one has to be started on this machine."""
    address = given or environ.get(ADDRESS_VARIABLE) or None
    if address is None or address == "local":
        return None
    if "://" in address:
        raise ConfigError(
            f"the address '{address}' is one of Ray Client, over which Weft's workers cannot reach this process.\n"
            "  Run this on a node of the cluster, and name its head node: --set ray.address=HOST:6379, or auto."
        )
    if address != "auto":
        _check_reachable(address)
    return address


def _check_reachable(address: str) -> None:
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 1 << 16:
        raise ConfigError(f"the address '{address}' is not HOST:PORT.\n  Write e.g. 10.0.0.1:6379.")
    try:
        socket.create_connection((host.strip("[]"), int(port)), REACHED_S_MAX).close()
    except OSError as error:
        raise ConfigError(
            f"nothing answers at '{address}': {error.strerror or error}.\n  Is a Ray cluster there? ray start --head "
            "starts one; without an address, Weft starts its own on this machine."
        ) from error


def worker_env(address: str | None, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a Ray bridge.

    A cluster that Weft starts listens on loopback only, and requires a fresh token (RAY_AUTH_MODE=token). For another
    cluster, the user's settings are left as they are.
    """
    ours = {**environ, "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0"}
    if address is not None:
        ours.setdefault("RAY_NUM_REDIS_GET_RETRIES", "5")  # the address is known to answer: few retries are enough
    else:
        ours.pop(ADDRESS_VARIABLE, None)
        ours.pop("RAY_AUTH_TOKEN_PATH", None)
        ours["RAY_AUTH_MODE"] = "token"
        ours["RAY_AUTH_TOKEN"] = secrets.token_hex(TOKEN_BYTES)
        ours["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # on every operating system: loopback only
        ours["RAY_USAGE_STATS_ENABLED"] = "0"
        ours["RAY_enable_worker_prestart"] = "0"  # prestarted processes lack the uploaded folder: none is used
    return ours


def short_folder(usual: str) -> str:
    """A new folder with a short path: a Unix socket's path has 107 bytes at most, and Ray appends some 60."""
    return tempfile.mkdtemp(prefix="weft-ray-", dir=usual if len(usual) <= FOLDER_CHARACTERS_MAX else "/tmp")


class RayCluster:
    """A cluster with `folder` uploaded to it; a context manager. However the launcher ends, the bridge kills its
    actors."""

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
        """This machine's address in the cluster."""
        self.nodes: list[str] = []
        """The names of the Ray resources 'node:ADDRESS', of which each node has one that no other node has."""

    def __enter__(self) -> "RayCluster":
        return self

    def __exit__(self, *error: object) -> None:
        self._line.close()
        try:
            self._process.wait(ENDED_S_MAX)
        except subprocess.TimeoutExpired:  # a cluster that the bridge started ends with it
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._temporary, ignore_errors=True)
        self._words.close()

    def fileno(self) -> int:
        """A descriptor that is readable when the bridge has sent something."""
        return self._line.fileno()

    def settle(self, check: Callable[[], None]) -> None:
        """Block until the bridge is connected to the cluster; `check` is called every LOOK_S meanwhile."""
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
        """Reserve a bundle for each worker and start its actor, or raise a ConfigError that says what is lacking."""
        message = Place([dict(bundle) for bundle in bundles], patience_s, spreads)
        self._request(message, Placed, patience_s + SETTLED_S_MAX, check)

    def ask(self, rank: int, command: str, argument: bytes = b"") -> None:
        """Send a command to the actor of worker `rank`; `hear` yields its answer."""
        self._line.send(Ask(rank, command, argument))

    def ask_all(self, command: str, arguments: Sequence[bytes], check: Callable[[], None]) -> list[bytes]:
        """Send a command to all actors, and block until all have answered."""
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
        """Answers of actors that have arrived; raises NodeLost if the bridge has ended."""
        yield from self._line.receive()
        if self._line.is_closed:
            raise self._ended()

    def clear(self) -> None:
        """Kill all actors, and give their resources back."""
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
        """Send `message`, and yield everything that the bridge sends after it, until the caller stops."""
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
        return NodeLost(f"the process that connects to Ray has ended.\n{self._last_words()}")

    def _last_words(self) -> str:
        self._words.seek(0)
        text = self._words.read().decode(errors="replace")[-WORDS_MAX:].strip()
        return f"  It wrote last:\n{text}" if text else "  It wrote nothing."


def meaning(text: str) -> str:
    """Translates Ray's error `text` about an actor into a message for the user, with what to do."""
    if "No module named 'weft'" in text:
        return "Weft is not installed there.\n  pip install weft, the same version, on every node of the cluster."
    return text.strip().partition("\n")[0]

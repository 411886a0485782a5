"""A rendezvous over torch's TCPStore, which torchrun serves, or the first process of a run."""

import socket
from collections.abc import Sequence
from datetime import timedelta

from torch.distributed import DistError
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import TCPStore  # type: ignore[attr-defined]

from weft.core.errors import TransportError

CONNECT_S = 60.0
SHOWN_MAX = 8
"""Missing keys that an error names at most."""


class TorchRendezvous:
    """Notes in a TCPStore, under a prefix that keeps them apart from other runs and from earlier attempts."""

    def __init__(self, store: Store, run: str) -> None:
        self._store = PrefixStore(f"weft/{run}", store)

    @classmethod
    def at(
        cls, host: str, port: int, run: str, *, is_host: bool = False, timeout_s: float = CONNECT_S
    ) -> "TorchRendezvous":
        """The rendezvous at an address. With `is_host`, this process serves it, on that address only."""
        timeout = timedelta(seconds=timeout_s)
        try:
            if is_host:
                family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
                listener = socket.create_server(address[:2], family=family)
                store = TCPStore(
                    host,
                    listener.getsockname()[1],
                    is_master=True,
                    timeout=timeout,
                    wait_for_workers=False,
                    master_listen_fd=listener.detach(),
                )
            else:
                store = TCPStore(host, port, is_master=False, timeout=timeout, wait_for_workers=False)
        except (OSError, DistError) as error:
            what = "made" if is_host else "reached"
            raise TransportError(
                f"the store at {host}:{port}, where the run's processes meet, cannot be {what}: {_first_line(error)}\n"
                "  Is that address this run's, and its port open between the hosts?"
            ) from error
        return cls(store, run)

    def post(self, key: str, value: bytes) -> None:
        try:
            self._store.set(key, value)  # type: ignore[arg-type]  # any bytes will do
        except DistError as error:
            raise self._gone(error) from error

    def read(self, keys: Sequence[str], timeout_s: float) -> list[bytes]:
        if not keys:
            return []
        try:
            self._store.wait(list(keys), timedelta(seconds=max(timeout_s, 1e-3)))
            return [self._store.get(key) for key in keys]
        except DistError as error:
            missing = self._missing(keys)
            if not missing:
                raise self._gone(error) from error
            more = f" and {len(missing) - SHOWN_MAX} more" if len(missing) > SHOWN_MAX else ""
            raise TransportError(
                f"after {timeout_s:g} s no process had posted {', '.join(map(repr, missing[:SHOWN_MAX]))}{more}."
            ) from error

    def claim(self, key: str) -> int:
        try:
            return self._store.add(f"claimed/{key}", 1)
        except DistError as error:
            raise self._gone(error) from error

    def _missing(self, keys: Sequence[str]) -> list[str]:
        try:
            return [key for key in keys if not self._store.check([key])]
        except DistError as error:
            raise self._gone(error) from error

    def _gone(self, error: Exception) -> TransportError:
        return TransportError(
            f"the store where the run's processes meet is gone: {_first_line(error)}\n"
            "  The process that hosts it has ended: what it printed last may say why."
        )


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".") + "."

"""`weft.once` on the engine's side: one worker of each host loads a value, the others map it from shared memory."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from weft.runtime.messages import OnceAnswer, OnceAsked, OnceLoaded


@dataclass
class Loading:
    """One value on one host: who loads it, who waits for it, and its form (types and offsets) once it is loaded."""

    loader: int
    waiting: list[int] = field(default_factory=list)
    form: bytes | None = None


class Loadings:
    """All values of all hosts; `hosts` has the number of each worker's host."""

    def __init__(self, hosts: Sequence[int], send: Callable[[int, OnceAnswer], None]) -> None:
        self._hosts = hosts
        self._send = send
        self._loadings: dict[tuple[int, str], Loading] = {}
        self._stops: Counter[int] = Counter()
        """Where the used part of each host's memfd ends."""

    def ask(self, rank: int, message: OnceAsked) -> None:
        """Answer worker `rank`, which wants a value: the first of its host to ask is told to load it."""
        host = self._hosts[rank]
        loading = self._loadings.get((host, message.key))
        if loading is None:
            self._loadings[host, message.key] = Loading(rank)
            self._send(rank, OnceAnswer(self._stops[host], None))
        elif loading.form is None:
            loading.waiting.append(rank)
        else:
            self._send(rank, OnceAnswer(0, loading.form))

    def lose(self, rank: int) -> None:
        """Worker `rank` is lost: what it was loading is loaded by the first that waits for it."""
        for (host, key), loading in list(self._loadings.items()):
            loading.waiting = [waiting for waiting in loading.waiting if waiting != rank]
            if loading.loader != rank or loading.form is not None:
                continue
            if not loading.waiting:
                del self._loadings[host, key]
                continue
            loading.loader = loading.waiting.pop(0)
            self._send(loading.loader, OnceAnswer(self._stops[host], None))

    def take(self, rank: int, message: OnceLoaded) -> None:
        """Worker `rank` has loaded a value: send its form to the workers of that host that wait for the value."""
        host = self._hosts[rank]
        loading = self._loadings[host, message.key]
        loading.form = message.form
        self._stops[host] = max(self._stops[host], message.stop)
        for waiting in loading.waiting:
            self._send(waiting, OnceAnswer(0, loading.form))

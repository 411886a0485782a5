"""The mixed transport: rings to the processes of this host, sockets to those of other hosts."""

from collections.abc import Callable, Hashable, Mapping, Sequence

from weft.transports.transport import FindRoom, Frame, Rank, Traffic, Transport


class MixedTransport:
    """One transport made of two; the sender need not know on which host the receiver is."""

    def __init__(self, on_host: Sequence[Rank], rings: Transport, sockets: Transport) -> None:
        """`on_host` are the ranks of this host's workers by local rank, which is how rings address them."""
        self._on_host = list(on_host)
        self._local_ranks = {rank: local_rank for local_rank, rank in enumerate(on_host)}
        self._rings = rings
        self._sockets = sockets

    @property
    def bytes_sent(self) -> int:
        return self._rings.bytes_sent + self._sockets.bytes_sent

    @property
    def num_copies(self) -> int:
        return self._rings.num_copies + self._sockets.num_copies

    @property
    def refused(self) -> dict[str, int]:
        return self._sockets.refused  # only processes of this run have the rings' memfd

    def send(
        self, to: Rank, header: bytes, data: bytes, body: memoryview | None, lent_for: Hashable | None = None
    ) -> None:
        local_rank = self._local_ranks.get(to)
        if local_rank is None:
            self._sockets.send(to, header, data, body, lent_for)
        else:
            self._rings.send(local_rank, header, data, body, lent_for)

    def take_back(self, lent_for: Hashable) -> None:
        self._rings.take_back(lent_for)
        self._sockets.take_back(lent_for)

    def receive_into(self, find_room: FindRoom) -> None:
        self._rings.receive_into(find_room)
        self._sockets.receive_into(find_room)

    def poll(self, take: Callable[[Frame], None]) -> int:
        def take_local(frame: Frame) -> None:
            take(frame._replace(sender=self._on_host[frame.sender]))

        return self._rings.poll(take_local) + self._sockets.poll(take)

    def forget(self, lost: Sequence[Rank]) -> None:
        self._rings.forget([self._local_ranks[rank] for rank in lost if rank in self._local_ranks])
        self._sockets.forget([rank for rank in lost if rank not in self._local_ranks])

    def reconnect(self, newcomers: Mapping[Rank, int], view: int) -> list[Rank]:
        return self._sockets.reconnect(newcomers, view)  # the rings of this host stay as they are

    def outbox_bytes(self, to: Rank | None = None) -> int:
        if to is None:
            return self._rings.outbox_bytes() + self._sockets.outbox_bytes()
        local_rank = self._local_ranks.get(to)
        return self._sockets.outbox_bytes(to) if local_rank is None else self._rings.outbox_bytes(local_rank)

    def traffic(self) -> dict[Rank, Traffic]:
        return self._sockets.traffic()

    def fileno_set(self) -> list[int]:
        return [*self._rings.fileno_set(), *self._sockets.fileno_set()]

    def door_set(self) -> list[int]:
        return self._sockets.door_set()

    def is_answering(self) -> bool:
        return self._sockets.is_answering()

    def close(self) -> None:
        self._rings.close()
        self._sockets.close()

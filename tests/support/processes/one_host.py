"""Several workers of one host in one process: arenas and bells over one nameless file, progressed in turn."""

import os
from collections.abc import Sequence

import numpy as np

from weft.core.names import Bucket
from weft.store.arena import Arena
from weft.store.live import LiveStore
from weft.transports.bells import NUM_BELLS, Bells


class Memory:
    """As much of a replica as a store needs; its arrays are where they are put."""

    def __init__(self, buckets: Sequence[Bucket], params: Sequence[np.ndarray], gradient: Sequence[np.ndarray]) -> None:
        self.buckets = tuple(buckets)
        self._arrays = {"params": params, "gradient": gradient}
        self.applied: list[dict[int, np.ndarray]] = []

    def array(self, slot: str, bucket: int) -> np.ndarray:
        return self._arrays[slot][bucket]

    def apply(self, gradients: dict[int, np.ndarray], scale: float, hyper: object) -> None:
        self.applied.append({bucket: array.copy() for bucket, array in gradients.items()})
        for bucket, array in gradients.items():
            self._arrays["params"][bucket][:] -= scale * array

    def hyper(self) -> None:
        return None


class Host:
    """Workers that share an arena."""

    def __init__(self, num_workers: int, buckets: Sequence[Bucket], *, has_devices: bool = False) -> None:
        self.fd = os.memfd_create("test")
        flags = os.EFD_CLOEXEC | os.EFD_NONBLOCK
        self.eventfds = [[os.eventfd(0, flags) for _ in range(NUM_BELLS)] for _ in range(num_workers)]
        ranks = range(num_workers)
        self.arenas = [Arena(self.fd, rank, num_workers, buckets, has_devices=has_devices) for rank in ranks]
        lines = [self.arenas[0].sleeping_line(rank) for rank in range(num_workers)]
        self.bells = [Bells(rank, self.arenas[rank].words, lines, self.eventfds) for rank in range(num_workers)]
        self.memories = [arena.replica_memory(shares_params=False) for arena in self.arenas]
        self.stores = [
            LiveStore(Memory(buckets, p.params, p.seen), (), {})  # type: ignore[arg-type]
            for p in self.memories
        ]

    def close(self) -> None:
        for store in self.stores:  # it refers to itself: what is mapped would stay until circles are looked for
            vars(store).clear()
        for fd in (self.fd, *(fd for pair in self.eventfds for fd in pair)):
            os.close(fd)

"""The descriptors that the workers of a host inherit or receive: memfds, eventfds, network namespaces."""

from collections.abc import Sequence

from msgspec import Struct


class Descriptors(Struct, frozen=True):
    """Four memfds that all workers of a host share, and the two eventfds (bells) of each worker, in order of rank."""

    arena: int
    rings: int
    initial: int
    once: int
    bells: list[list[int]]
    namespaces: list[int] = []
    """Network namespaces, if the launcher made them: one per host, or one per worker if there is one host only."""

    @staticmethod
    def of(fds: Sequence[int], num_namespaces: int = 0) -> "Descriptors":
        """Make them from the flat list in which descriptors are passed between processes."""
        arena, rings, initial, once, *flat = fds
        bells, namespaces = flat[: len(flat) - num_namespaces], flat[len(flat) - num_namespaces :]
        pairs = [list(pair) for pair in zip(bells[::2], bells[1::2], strict=True)]
        return Descriptors(arena, rings, initial, once, pairs, namespaces)

    def flat(self) -> list[int]:
        """The list that `of` takes, without namespaces."""
        return [self.arena, self.rings, self.initial, self.once, *(bell for pair in self.bells for bell in pair)]

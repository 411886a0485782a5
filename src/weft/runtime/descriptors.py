"""The nameless files that the workers of a host inherit."""

from collections.abc import Sequence

from msgspec import Struct


class Descriptors(Struct, frozen=True):
    """Nameless files that all workers of a host inherit, and the bells of each of them, in order of rank."""

    arena: int
    rings: int
    initial: int
    once: int
    bells: list[list[int]]
    namespaces: list[int] = []
    """Of each host, if the launcher made a network for them; of each worker where all are on one."""

    @staticmethod
    def of(fds: Sequence[int], num_namespaces: int = 0) -> "Descriptors":
        """From a plain list, as it is handed from process to process."""
        arena, rings, initial, once, *flat = fds
        bells, namespaces = flat[: len(flat) - num_namespaces], flat[len(flat) - num_namespaces :]
        pairs = [list(pair) for pair in zip(bells[::2], bells[1::2], strict=True)]
        return Descriptors(arena, rings, initial, once, pairs, namespaces)

    def flat(self) -> list[int]:
        """The plain list again, without namespaces."""
        return [self.arena, self.rings, self.initial, self.once, *(bell for pair in self.bells for bell in pair)]

"""Finds workers that take turns at a stream and do not read the same one: samples would be lost or used twice."""

from weft.core.errors import ConfigError


class SameStream:
    """Hears a digest of the first item that each worker reads of the run's first stream."""

    def __init__(self) -> None:
        self._first: tuple[int, str] | None = None

    def hear(self, rank: int, digest: str | None) -> None:
        """Take a worker's; refuses it if it is not what others read."""
        if digest is None:
            return
        if self._first is None:
            self._first = rank, digest
        first, known = self._first
        if digest != known:
            raise ConfigError(
                f"workers {min(first, rank)} and {max(first, rank)} read different streams, but worker.share lets all "
                "workers take turns at one: samples would be lost.\n"
                "  If each worker reads a part of its own, say worker.share(stream, sharded=True). Else let the stream "
                "draw from torch's, numpy's or Python's own random numbers, or from a generator with a fixed seed."
            )

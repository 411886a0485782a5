"""Stolen shares: all workers take portions from one queue, each when it has time; so faster ones take more."""

from weft.core.errors import ConfigError


class Queues:
    """One queue of portions for each share that the scripts begin; every portion is given once."""

    def __init__(self) -> None:
        self._queues: dict[int, tuple[int, int]] = {}
        """By share: how many portions there are, and the next one."""

    def take(self, worker: int, share: int, num_portions: int) -> int | None:
        """The next portion of a share for a worker; None when all are taken."""
        known, portion = self._queues.get(share, (num_portions, 0))
        if known != num_portions:
            raise ConfigError(
                f"worker {worker} came to share {share + 1} with {num_portions} portions, but others have {known}.\n"
                "  Let all workers share the same data, equally often."
            )
        if portion == num_portions:
            return None
        self._queues[share] = num_portions, portion + 1
        return portion

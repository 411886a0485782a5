"""A link: how long bytes take from one end to the other."""

from typing import NamedTuple


class Link(NamedTuple):
    """Full-duplex: latency L, and G = 1 / bandwidth seconds for each byte."""

    latency_s: float
    bandwidth_bytes_per_s: float

    def seconds(self, num_bytes: float) -> float:
        """L + mG: the time of one message on an idle link."""
        return self.latency_s + num_bytes / self.bandwidth_bytes_per_s

"""What a worker tells about itself while it runs, and what it amounts to at the end."""

from msgspec import Struct


class Status(Struct, frozen=True, tag=True):
    """One worker at one moment; everything counts from the beginning of the run."""

    rank: int
    time_s: float
    """Since the run began."""
    step: int
    samples: float
    loss: float | None
    waiting_s: float
    """Time in which its script waited for others."""
    staleness_mean: float
    staleness_max: float
    bytes_sent: int
    num_copies: int
    refused: int
    """Frames and connections that were refused."""
    steps_total: int | None
    """How many steps its script will make, if it has said so."""
    doing: str
    """A few words: what it does or waits for."""
    is_waiting: bool = False

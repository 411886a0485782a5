"""What a worker tells about itself while it runs, and what it amounts to at the end."""

from collections.abc import Iterable
from math import sqrt

from msgspec import Struct

from weft.observe.records.left_out import LeftOut


class CodingStatus(Struct, frozen=True):
    """What codecs have done for one worker, and for servers that sit with it."""

    bytes_before: int
    """Of what was encoded."""
    bytes_after: int
    encode_s: float
    decode_s: float
    residual_norm: float
    """The length of all that was left out and is to be said later."""
    num_not_finite: int
    """Numbers of its gradients that were not finite, and therefore not sent."""


def in_all(told: Iterable[CodingStatus]) -> CodingStatus | None:
    """That of several workers together; None if nothing was coded."""
    each = list(told)
    if not each:
        return None
    return CodingStatus(
        sum(one.bytes_before for one in each),
        sum(one.bytes_after for one in each),
        sum(one.encode_s for one in each),
        sum(one.decode_s for one in each),
        sqrt(sum(one.residual_norm**2 for one in each)),
        sum(one.num_not_finite for one in each),
    )


class Mark(Struct, frozen=True, array_like=True):
    """A worker at the end of one of its steps; everything counts from the beginning of the run.

    Computing and reading are without the time in which its script was ready to go on and had no core.
    """

    step: int
    """How many it has made."""
    time_s: float
    samples: float
    compute_s: float
    input_s: float
    paused_s: float


class LinkStatus(Struct, frozen=True, array_like=True):
    """A worker's connection to another one, as its own end of it sees it, so far."""

    peer: int
    network_s: float
    """Time in which something was under way to the other, and not because that one did not take it."""
    num_bytes: int
    """That have arrived there."""
    round_trip_s: float
    """The shortest there and back."""
    bytes_received: int = 0
    """That have come from the other."""


class DeviceStatus(Struct, frozen=True):
    """What a worker on a device has copied, and where sums are made."""

    bytes_in: int
    """From the host to the device."""
    bytes_out: int
    place: str
    """host, device, or host and device if buckets differ."""
    prices_s: dict[str, float]
    """What a sum of the whole model costs in either place, by what was measured when the run began."""


class Status(Struct, frozen=True, tag=True, kw_only=True):
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
    coding: CodingStatus | None = None
    compute_s: float = 0.0
    """Time in which its script computed, the driver's own work between its calls included."""
    input_s: float = 0.0
    """Time in which its script waited for its own loader."""
    paused_s: float = 0.0
    """Time in which the whole process stood still."""
    cpu_s: float = 0.0
    """Time that its script's thread had a core, but for evaluating and saving."""
    marks: list[Mark] = []
    """Its last steps, those that it has not told of before."""
    links: list[LinkStatus] = []
    """To the others; none in shared memory, where there is no network."""
    device: DeviceStatus | None = None
    """Only of a worker that is on one."""
    left_out: LeftOut | None = None
    """Its last gradient that was left out because it was not finite."""
    notices: list[str] = []
    """All that it has had to say to the user so far."""
    first_gradient: str | None = None
    """A digest of it, if the script draws its samples by itself."""
    first_item: str | None = None
    """A digest of that of a stream at which the workers take turns."""


class StackTold(Struct, frozen=True, tag=True):
    """A worker whose script has been in one place for so long, and does not wait for others there."""

    seconds: float
    stack: str
    """As a traceback shows it, the innermost place last."""


Told = Status | StackTold
"""What a worker says of itself without being asked."""

"""The two ways of an all-reduce between workers on the host and workers on devices (Choi 2019), and their prices.

m are the bytes of a bucket, P the workers, H of them on the host and D on devices, each device behind a link of its
own. Devices reach each other's memory; the host does not reach it.

    host     Every device worker copies its gradient out, all P sum a P-th of everybody's, and every device worker
             copies the result in: 2 (L + mG) and the sum of m bytes.
    device   Every device worker has a D-th of the sum: it copies that of every host worker in, sums P of them on the
             device, and copies its part of the result out: (H + 1) (L + mG/D) and the sum of P m/D bytes.

So few host workers beside many devices move to them, and many beside few have the devices come; slow starts of copies
speak for the host, which has only two.
"""

from collections.abc import Sequence
from typing import NamedTuple

from weft.cost.links import Link

AUTO, HOST, DEVICE = "auto", "host", "device"
PLACES = (AUTO, HOST, DEVICE)
"""Where sums are made; auto: wherever it is cheaper."""


class Speeds(NamedTuple):
    """What was measured of one worker. Sums are in bytes of contributions that are read and added up in a second."""

    host_sums_bytes_per_s: float
    copies: Link | None = None
    """To and from its device; None: it is on the host."""
    device_sums_bytes_per_s: float = 0.0


def host_s(num_bytes: float, workers: Sequence[Speeds]) -> float:
    """The slowest device's copies out and in, and the slowest sum."""
    copies_s = max(2 * worker.copies.seconds(num_bytes) for worker in workers if worker.copies is not None)
    return copies_s + num_bytes / min(worker.host_sums_bytes_per_s for worker in workers)


def device_s(num_bytes: float, workers: Sequence[Speeds]) -> float:
    """The slowest device's copies of its part, and its sum of everybody's; no copies if nobody is on the host."""
    num_hosts = sum(worker.copies is None for worker in workers)
    part = num_bytes / (len(workers) - num_hosts)
    num_copies = num_hosts + 1 if num_hosts else 0
    return max(
        num_copies * worker.copies.seconds(part) + len(workers) * part / worker.device_sums_bytes_per_s
        for worker in workers
        if worker.copies is not None
    )


def prices_s(bucket_bytes: Sequence[float], workers: Sequence[Speeds]) -> dict[str, float]:
    """What these buckets cost either way, one after another; at least one worker is on a device."""
    return {
        HOST: sum(host_s(num_bytes, workers) for num_bytes in bucket_bytes),
        DEVICE: sum(device_s(num_bytes, workers) for num_bytes in bucket_bytes),
    }


def cheaper(num_bytes: float, workers: Sequence[Speeds]) -> str:
    """The place where a bucket costs less; of equals the host, which needs no memory of the devices."""
    return DEVICE if device_s(num_bytes, workers) < host_s(num_bytes, workers) else HOST

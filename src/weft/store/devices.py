"""Memory that the host cannot reach: a device with copies in and out, and sums of its own.

A fake one stands for a GPU where there is none. It has memory of its own, into which numpy cannot look by accident;
its copies take as long as its link says; and it counts them. The script of its worker computes on the host in truth,
so what it computed is moved to the device, and what it shall see is shown to it, without a price.
"""

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from weft.cost.links import Link
from weft.store.reduction import reduce_into

Array = NDArray[Any]

TRIALS = 3
SMALL_BYTES = 64
LARGE_BYTES = 64 << 10, 16 << 20
"""A measurement copies so little for the latency, and for the bandwidth from so much to so much: as soon as it is the
bytes that take the time."""

TELLING = 5.0
"""Large copies take so many times as long as small ones when they tell the bandwidth."""

SUM_BYTES = 1 << 20


class DeviceArray:
    """Memory of a device: it can be handed around, but not looked into."""

    __slots__ = ("__hidden",)

    def __init__(self, hidden: Array) -> None:
        self.__hidden = hidden

    def part(self, start: int, stop: int) -> "DeviceArray":
        """A stretch of it."""
        return DeviceArray(self.__hidden[start:stop])

    def __array__(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("this memory is on a device, where numpy cannot reach it.\n  Copy it out first.")

    @staticmethod
    def behind(array: "DeviceArray") -> Array:
        """What only a device may see."""
        return array.__hidden


class Device(Protocol):
    """What a worker's device can do. Devices of one host reach memory that is attached to any of them."""

    bytes_in: int
    bytes_out: int

    def allocate(self, num_elements: int, itemsize: int) -> DeviceArray:
        """New memory."""

    def attach(self, shared: Array) -> DeviceArray:
        """Memory that other devices of the host reach, too; whoever attaches it leaves it alone from then on."""

    def copy_in(self, source: Array, into: DeviceArray) -> None:
        """From the host to the device."""

    def copy_out(self, source: DeviceArray, into: Array) -> None:
        """From the device to the host."""

    def reduce(self, into: DeviceArray, payloads: Sequence[DeviceArray], weights: Sequence[float], op: str) -> None:
        """As `reduce_into`, on the device."""

    def take(self, computed: Array, into: DeviceArray) -> None:
        """What the worker's script has computed on the device is there; the host has it no longer."""

    def show(self, source: DeviceArray, into: Array) -> None:
        """Let the worker's script see what is there."""


class FakeDevice:
    """A device whose memory is the host's, hidden, and whose copies take the time of a link."""

    def __init__(self, link: Link, sleep: Callable[[float], None] = time.sleep) -> None:
        self._link = link
        self._sleep = sleep
        self.bytes_in = 0
        self.bytes_out = 0

    def allocate(self, num_elements: int, itemsize: int) -> DeviceArray:
        return DeviceArray(np.zeros(num_elements, f"f{itemsize}"))

    def attach(self, shared: Array) -> DeviceArray:
        return DeviceArray(shared)

    def copy_in(self, source: Array, into: DeviceArray) -> None:
        self._copy(source, DeviceArray.behind(into))
        self.bytes_in += source.nbytes

    def copy_out(self, source: DeviceArray, into: Array) -> None:
        self._copy(DeviceArray.behind(source), into)
        self.bytes_out += into.nbytes

    def _copy(self, source: Array, into: Array) -> None:
        began = time.perf_counter()
        np.copyto(into, source)
        left_s = self._link.seconds(source.nbytes) - (time.perf_counter() - began)
        if left_s > 0:
            self._sleep(left_s)

    def reduce(self, into: DeviceArray, payloads: Sequence[DeviceArray], weights: Sequence[float], op: str) -> None:
        reduce_into(DeviceArray.behind(into), [DeviceArray.behind(each) for each in payloads], weights, op)

    def take(self, computed: Array, into: DeviceArray) -> None:
        np.copyto(DeviceArray.behind(into), computed)
        computed.fill(np.nan)  # whoever reads it on the host without a copy shall notice

    def show(self, source: DeviceArray, into: Array) -> None:
        np.copyto(into, DeviceArray.behind(source))


def measured_copies(device: Device, clock: Callable[[], float] = time.perf_counter) -> Link:
    """What copies to and from a device cost, by a few of them."""
    before = device.bytes_in, device.bytes_out
    small_s, (num_bytes, most) = _round_trip_s(device, SMALL_BYTES, clock) / 2, LARGE_BYTES
    large_s = _round_trip_s(device, num_bytes, clock) / 2
    while large_s < TELLING * small_s and num_bytes < most:
        num_bytes *= 4
        large_s = _round_trip_s(device, num_bytes, clock) / 2
    device.bytes_in, device.bytes_out = before  # a trial is no part of the run
    return Link(small_s, (num_bytes - SMALL_BYTES) / max(large_s - small_s, 1e-9))


def _round_trip_s(device: Device, num_bytes: int, clock: Callable[[], float]) -> float:
    host, there = np.zeros(num_bytes // 4, np.float32), device.allocate(num_bytes // 4, 4)

    def trial() -> None:
        device.copy_in(host, there)
        device.copy_out(there, host)

    return _median_s(trial, clock)


def measured_sums(device: Device | None, clock: Callable[[], float] = time.perf_counter) -> float:
    """Bytes that are read and summed in a second on a device, or on the host."""
    num_elements = SUM_BYTES // 4
    if device is None:
        arrays = [np.zeros(num_elements, np.float32) for _ in range(3)]
        took_s = _median_s(lambda: reduce_into(arrays[0], arrays[1:], [1.0, 1.0], "sum"), clock)
    else:
        there = [device.allocate(num_elements, 4) for _ in range(3)]
        took_s = _median_s(lambda: device.reduce(there[0], there[1:], [1.0, 1.0], "sum"), clock)
    return 2 * SUM_BYTES / max(took_s, 1e-9)


def _median_s(trial: Callable[[], None], clock: Callable[[], float]) -> float:
    """Of a few trials, after one that does not count."""
    trial()
    times_s = []
    for _ in range(TRIALS):
        began = clock()
        trial()
        times_s.append(clock() - began)
    return median(times_s)

"""Reduce on one host where some workers are on devices: sums are made in host memory, or on the devices.

States, words and fences are those of reduce/shared.py. What differs is where contributions lie, which workers sum which
stretch, and where the result is read from. All workers sum a bucket in the same place, for the whole run.
"""

from collections.abc import Sequence

from weft.core.names import GRADIENT
from weft.cost.links import Link
from weft.cost.staging import AUTO, HOST, Speeds, cheaper
from weft.runtime.measure.tracer import Tracer
from weft.runtime.reduce.shared import Lane, SharedReduce, SharedReduction
from weft.store.arena import Arena, stretch
from weft.store.devices import Device, DeviceArray, measured_copies, measured_sums
from weft.store.numpy import NumpyStore
from weft.transports.bells import Bells, fence

TOLD = 4
"""The word of a worker's line of speeds that is set when the four numbers before it are written."""


class DeviceReduce(SharedReduce):
    """This worker's part in reductions where some workers have devices; `device` is None if this one has none."""

    def __init__(
        self,
        arena: Arena,
        bells: Bells,
        store: NumpyStore,
        *,
        gradient_is_given: bool,
        tracer: Tracer | None = None,
        device: Device | None,
        on_devices: Sequence[int],
        places: Sequence[str],
    ) -> None:
        super().__init__(arena, bells, store, gradient_is_given=gradient_is_given, tracer=tracer)
        self.device = device
        self.places = places
        """Where each bucket is summed: HOST or DEVICE of cost/staging.py."""
        self._on_devices = on_devices
        self._held: dict[tuple[int, int, int], DeviceArray] = {}

    def _there(self, lane: Lane, bucket: int, worker: int) -> DeviceArray:
        """Device memory of the contribution of `worker`, or of the sum if `worker` is `num_workers`."""
        assert self.device is not None
        key = int(lane.is_staged), bucket, worker
        if key not in self._held:
            self._held[key] = self.device.attach(self._arena.array(f"device.{key[0]}.{worker}", bucket))
        return self._held[key]

    def _give(self, lane: Lane, bucket: int) -> None:
        if self.device is None:
            return
        mine = self._there(lane, bucket, self._arena.local_rank)
        self.device.take(lane.contribution, mine)
        if self.places[bucket] == HOST:
            self.device.copy_out(mine, lane.contribution)

    def _add_up(self, reduction: SharedReduction) -> None:
        bucket = reduction.action.buffer.bucket
        if self.places[bucket] == HOST:
            super()._add_up(reduction)
        elif self.device is not None and any(reduction.weights):
            self._add_up_there(reduction, self.device)

    def _add_up_there(self, reduction: SharedReduction, device: Device) -> None:
        """Sum this device's stretch: copy host workers' contributions in, sum, copy the sum out for host workers."""
        lane, bucket, arena = reduction.lane, reduction.action.buffer.bucket, self._arena
        which = list(self._on_devices).index(arena.local_rank)
        start, stop = stretch(arena.buckets[bucket].num_elements, which, len(self._on_devices))
        if start == stop:
            return
        payloads = [self._there(lane, bucket, worker).part(start, stop) for worker in range(arena.num_workers)]
        region = "staged" if lane.is_staged else "given"
        for worker, payload in enumerate(payloads):
            if worker not in self._on_devices and reduction.weights[worker]:
                device.copy_in(arena.array(f"{region}.{worker}", bucket)[start:stop], payload)
        total = self._there(lane, bucket, arena.num_workers).part(start, stop)
        device.reduce(total, payloads, reduction.weights, reduction.action.op)
        self.bytes_shared += (stop - start) * arena.buckets[bucket].itemsize * arena.num_workers
        if len(self._on_devices) < arena.num_workers:
            device.copy_out(total, arena.array(f"reduced.{int(lane.is_staged)}", bucket)[start:stop])

    def _take(self, reduction: SharedReduction, weight: float) -> None:
        if self.device is None:
            super()._take(reduction, weight)
            return
        lane, buffer, arena = reduction.lane, reduction.action.buffer, self._arena
        result = self._there(lane, buffer.bucket, arena.local_rank)
        if weight and self.places[buffer.bucket] == HOST:
            self.device.copy_in(arena.array(f"reduced.{int(lane.is_staged)}", buffer.bucket), result)
        elif weight:
            result = self._there(lane, buffer.bucket, arena.num_workers)
        if not lane.is_staged:
            self.device.show(result, self._store.replica.array(GRADIENT, buffer.bucket))
        elif weight:
            self.device.show(result, lane.contribution)
            self._store.write(buffer, lane.contribution)


def measured(device: Device | None) -> Speeds:
    """Speeds of this worker's sums and copies, measured on a few of them."""
    if device is None:
        return Speeds(measured_sums(None))
    return Speeds(measured_sums(None), measured_copies(device), measured_sums(device))


def tell_speeds(arena: Arena, speeds: Speeds) -> None:
    """Publish this worker's measured speeds in its line of the arena, then set TOLD."""
    latency_s, bandwidth = speeds.copies or (0.0, 0.0)
    values = (speeds.host_sums_bytes_per_s, latency_s, bandwidth, speeds.device_sums_bytes_per_s)
    line = arena.speed_line(arena.local_rank)
    for word, value in enumerate(values):
        arena.doubles[line + word] = value
    fence()  # the numbers are visible before the word that announces them
    arena.words[line + TOLD] = 1


def have_all_told(arena: Arena) -> bool:
    return all(arena.words[arena.speed_line(worker) + TOLD] for worker in range(arena.num_workers))


def all_speeds(arena: Arena) -> list[Speeds]:
    """The speeds that all workers have published. All read the same numbers, and so make the same choice."""
    found = []
    for worker in range(arena.num_workers):
        line = arena.speed_line(worker)
        host_sums, latency_s, bandwidth, device_sums = arena.doubles[line : line + TOLD]
        found.append(Speeds(host_sums, Link(latency_s, bandwidth) if bandwidth else None, device_sums))
    return found


def chosen_places(asked: str, bucket_bytes: Sequence[int], workers: Sequence[Speeds]) -> list[str]:
    """Where each bucket is summed: as `asked` for or, for AUTO, where it is cheaper."""
    if asked != AUTO:
        return [asked] * len(bucket_bytes)
    return [cheaper(num_bytes, workers) for num_bytes in bucket_bytes]

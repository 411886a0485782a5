"""Reductions where some workers are on devices: the right bits either way, and what was copied."""

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.processes.one_host import Host
from support.processes.real import real
from support.scripts.training_scripts import write

from weft.config.devices import FakeKind
from weft.config.options import Options, ReduceOptions
from weft.core.actions import MAX, MEAN, SUM, Reduce
from weft.core.events import Reduced
from weft.core.names import Bucket, Buffer
from weft.cost.links import Link
from weft.cost.staging import AUTO, DEVICE, HOST, Speeds
from weft.runtime.reduce.device import DeviceReduce, all_speeds, chosen_places, have_all_told, measured, tell_speeds
from weft.store.devices import FakeDevice
from weft.store.reduction import reduce_arrays

BUCKETS = (Bucket(100), Bucket(7, 8))
FREE = Link(0.0, 1e15)


def reducers(host: Host, on_devices: Sequence[int], places: Sequence[str], is_given: bool = True) -> list[DeviceReduce]:
    return [
        DeviceReduce(
            arena,
            bells,
            store,
            gradient_is_given=is_given,
            device=FakeDevice(FREE) if rank in on_devices else None,
            on_devices=on_devices,
            places=places,
        )
        for rank, (arena, bells, store) in enumerate(zip(host.arenas, host.bells, host.stores, strict=True))
    ]


def reduce(bucket: int, clock: int, weight: float, num_workers: int, slot: str = "gradient", op: str = MEAN) -> Reduce:
    return Reduce(tuple(range(num_workers)), "gradient", clock, Buffer(slot, bucket), op, weight)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    on_devices=st.lists(st.integers(0, 3), min_size=1, unique=True).map(sorted),
    places=st.tuples(st.sampled_from([HOST, DEVICE]), st.sampled_from([HOST, DEVICE])),
    op=st.sampled_from([MEAN, SUM, MAX]),
)
def test_any_interleaving_gives_the_bits_of_a_host_without_devices(
    seed: int, on_devices: list[int], places: tuple[str, str], op: str
) -> None:
    chance, rng, num_workers = Random(seed), np.random.default_rng(seed), 4
    host = Host(num_workers, BUCKETS, has_devices=True)
    workers = reducers(host, on_devices, places)
    for clock in range(2):
        inputs, weights = {}, {}
        todo = [(rank, bucket) for rank in range(num_workers) for bucket in range(len(BUCKETS))]
        for rank, bucket in todo:
            inputs[rank, bucket] = rng.normal(size=BUCKETS[bucket].num_elements).astype(f"f{BUCKETS[bucket].itemsize}")
            host.memories[rank].given[bucket][:] = inputs[rank, bucket]
            weights[rank, bucket] = chance.choice([0.0, 1.0, 1.0, 3.0])
        done: dict[int, list[Reduced]] = {rank: [] for rank in range(num_workers)}
        while todo or any(len(events) < len(BUCKETS) for events in done.values()):
            rank = chance.randrange(num_workers)
            mine = [each for each in todo if each[0] == rank]
            if mine and chance.random() < 0.5:
                todo.remove(mine[0])
                workers[rank].join(reduce(mine[0][1], clock, weights[mine[0]], num_workers, op=op))
            workers[rank].progress(done[rank].append)
        for bucket in range(len(BUCKETS)):
            told = [weights[rank, bucket] for rank in range(num_workers)]
            values = [inputs[rank, bucket] for rank in range(num_workers)]
            for rank in range(num_workers):
                expected = reduce_arrays(values, told, op) if any(told) else values[rank]
                assert np.array_equal(host.memories[rank].seen[bucket], expected)
    host.close()


@pytest.mark.parametrize("place", [HOST, DEVICE])
def test_what_is_no_gradient_is_staged_and_written_back_on_devices_too(place: str) -> None:
    host = Host(3, BUCKETS, has_devices=True)
    workers = reducers(host, [1], [place] * 2, is_given=False)
    for rank, worker in enumerate(workers):
        host.memories[rank].params[0][:] = rank
        worker.join(reduce(0, 0, 1.0, 3, slot="params"))
    ended: list[Reduced] = []
    for worker in (*workers, *workers):
        worker.progress(ended.append)
    assert len(ended) == 3
    assert all(np.array_equal(memory.params[0], np.ones(100)) for memory in host.memories)
    host.close()


@pytest.mark.parametrize(
    ("on_devices", "place", "copied"),
    [
        ([1], HOST, [(400, 400)]),
        ([1], DEVICE, [(3 * 400, 400)]),
        ([1, 2, 3], HOST, [(400, 400)] * 3),
        ([1, 2, 3], DEVICE, [(32 * 4, 32 * 4), (32 * 4, 32 * 4), (36 * 4, 36 * 4)]),
        ([0, 1, 2, 3], DEVICE, [(0, 0)] * 4),
    ],
)
def test_so_much_is_copied_either_way(on_devices: list[int], place: str, copied: list[tuple[int, int]]) -> None:
    host = Host(4, BUCKETS, has_devices=True)
    workers = reducers(host, on_devices, [place] * 2)
    for rank, worker in enumerate(workers):
        host.memories[rank].given[0][:] = rank
        worker.join(reduce(0, 0, 1.0, 4))
    for worker in (*workers, *workers):
        worker.progress(lambda event: None)
    devices = [worker.device for worker in workers if worker.device is not None]
    assert [(device.bytes_in, device.bytes_out) for device in devices] == copied
    assert all(np.array_equal(memory.seen[0], np.full(100, 1.5)) for memory in host.memories)
    host.close()


def test_all_workers_read_the_same_speeds() -> None:
    host = Host(2, BUCKETS, has_devices=True)
    speeds = [Speeds(5.0), Speeds(6.0, Link(0.5, 7.0), 8.0)]
    tell_speeds(host.arenas[0], speeds[0])
    assert not have_all_told(host.arenas[0])
    tell_speeds(host.arenas[1], speeds[1])
    assert have_all_told(host.arenas[0])
    assert all_speeds(host.arenas[0]) == all_speeds(host.arenas[1]) == speeds
    host.close()


def test_buckets_are_summed_where_it_is_asked_for_or_cheaper() -> None:
    workers = [Speeds(1e12), Speeds(1e12), *[Speeds(1e12, Link(0.001, 1e6), 1e12)] * 2]
    assert chosen_places(HOST, [10, 10_000], workers) == [HOST, HOST]
    assert chosen_places(DEVICE, [10, 10_000], workers) == [DEVICE, DEVICE]
    assert chosen_places(AUTO, [10, 10_000], workers) == [HOST, DEVICE]


def test_a_worker_measures_its_sums_and_its_copies() -> None:
    assert measured(None).copies is None
    there = measured(FakeDevice(Link(0.002, 1e9)))
    assert there.copies is not None
    assert there.copies.latency_s >= 0.002
    assert there.copies.bandwidth_bytes_per_s < 1.5e9
    assert min(there.host_sums_bytes_per_s, there.device_sums_bytes_per_s) > 0


STEPS = 12
SCRIPT = """
import sys, time
import numpy as np
import weft

rng = np.random.default_rng(3)
x, y = rng.normal(size=(96, 2000)), rng.normal(size=96)
w, times = np.zeros(2000), []
worker = weft.join(arrays={"w": w}, optimizer=weft.Momentum(lr=1e-4))
for epoch in worker.epochs(2):
    for rows in worker.share(96, batch_size=4):
        error = x[rows] @ w - y[rows]
        began = time.perf_counter()
        worker.step({"w": error @ x[rows]}, samples=len(rows), loss=float(error @ error))
        times.append(time.perf_counter() - began)
np.savez(sys.argv[1] + f".{worker.rank}", w=w, step_s=np.median(times))
"""


def trained(
    folder: Path, devices: dict[int, FakeKind], place: str = AUTO
) -> tuple[np.ndarray, list[dict[str, Any] | None], float]:
    """The parameters that 4 workers ended with, what those on devices told, and how long a step took."""
    script, options = write(folder, SCRIPT), Options(reduce=ReduceOptions(place=place))
    outcome = real(script, 4, "allreduce", folder / place, devices=devices, options=options)
    ended = [np.load(folder / f"{place}.{rank}.npz") for rank in range(4)]
    assert all(np.array_equal(ended[0]["w"], each["w"]) for each in ended)
    return ended[0]["w"], [row["device"] for row in outcome.to_json()["per_worker"]], float(ended[0]["step_s"])


def test_runs_with_devices_end_with_the_same_parameters(tmp_path: Path) -> None:
    plain, told, _ = trained(tmp_path, {})
    assert told == [None] * 4
    devices = {1: FakeKind(), 3: FakeKind()}
    for place in (HOST, DEVICE):
        ended, told, _ = trained(tmp_path, devices, place)
        assert np.allclose(ended, plain, rtol=0, atol=1e-9)
        assert [row and row["place"] for row in told] == [None, place, None, place]
        # either way as much: two devices take the whole sum in, or each its half of what two host workers have
        assert sum(row["bytes_in"] for row in told if row) == 2 * plain.nbytes * STEPS


@pytest.mark.parametrize(
    ("kind", "place"), [(FakeKind(0.01, 1e9), HOST), (FakeKind(1e-5, 1e6), DEVICE)], ids=["slow starts", "slow copies"]
)
def test_auto_takes_the_way_that_measures_cheaper_and_is(tmp_path: Path, kind: FakeKind, place: str) -> None:
    """With 2 workers on the host and 2 on devices: 2 L + 2 mG against 3 L + 1.5 mG."""
    devices = {2: kind, 3: kind}
    other = DEVICE if place == HOST else HOST
    _, told, _ = trained(tmp_path, devices)
    assert told[2] is not None
    assert told[2]["place"] == place
    assert told[2]["prices_s"][place] < told[2]["prices_s"][other]
    step_s = {way: trained(tmp_path, devices, way)[2] for way in (HOST, DEVICE)}
    assert step_s[place] < step_s[other]

"""Devices: memory that the host cannot reach, and what copies cost."""

import numpy as np
import pytest

from weft.cost.links import Link
from weft.store.devices import SUM_BYTES, TRIALS, DeviceArray, FakeDevice, measured_copies, measured_sums


class Naps:
    """Instead of sleeping, time is added up."""

    def __init__(self) -> None:
        self.slept_s = 0.0

    def __call__(self, duration_s: float) -> None:
        self.slept_s += duration_s


def test_what_goes_in_comes_out_and_is_counted() -> None:
    device = FakeDevice(Link(0.0, 1e12))
    there, back = device.allocate(4, 8), np.zeros(3)
    device.copy_in(np.arange(4.0), there)
    device.copy_out(there.part(1, 4), back)
    assert list(back) == [1.0, 2.0, 3.0]
    assert (device.bytes_in, device.bytes_out) == (32, 24)


def test_numpy_cannot_look_into_a_device() -> None:
    there = FakeDevice(Link(0.0, 1e12)).allocate(4, 4)
    with pytest.raises(TypeError, match=r"^this memory is on a device, where numpy cannot reach it\.\n  Copy it out"):
        np.add(there, 1.0)
    with pytest.raises(TypeError):
        np.copyto(np.zeros(4), there)
    assert not hasattr(there, "hidden")


def test_a_copy_takes_as_long_as_its_link_says() -> None:
    naps = Naps()
    device = FakeDevice(Link(5.0, 8.0), naps)
    device.copy_in(np.zeros(4), device.allocate(4, 8))
    assert 8.5 < naps.slept_s <= 9.0


def test_sums_are_made_on_the_device_with_the_bits_of_the_host() -> None:
    device = FakeDevice(Link(0.0, 1e12))
    inputs = np.random.default_rng(1).normal(size=(3, 5))
    there = [device.attach(each.copy()) for each in inputs]
    into, out = device.allocate(5, 8), np.zeros(5)
    device.reduce(into, there, [1.0, 0.0, 3.0], "mean")
    device.show(into, out)
    assert np.allclose(out, (inputs[0] + 3 * inputs[2]) / 4, rtol=1e-15)
    assert (device.bytes_in, device.bytes_out) == (0, 0)


def test_what_a_script_computed_on_a_device_is_no_longer_on_the_host() -> None:
    device = FakeDevice(Link(0.0, 1e12))
    computed, there, seen = np.arange(3.0), device.allocate(3, 8), np.zeros(3)
    device.take(computed, there)
    assert np.isnan(computed).all()
    device.show(there, seen)
    assert list(seen) == [0.0, 1.0, 2.0]


def test_attached_memory_is_that_of_all_devices() -> None:
    shared, seen = np.zeros(2), np.zeros(2)
    one, other = FakeDevice(Link(0.0, 1e12)), FakeDevice(Link(0.0, 1e12))
    one.copy_in(np.ones(2), one.attach(shared))
    other.copy_out(other.attach(shared), seen)
    assert list(seen) == [1.0, 1.0]


class Bench:
    """A device whose copies and sums take the time that a clock shows, and nothing else does."""

    def __init__(self, latency_s: float) -> None:
        self.latency_s = latency_s
        self.now_s = 0.0
        self.largest = 0
        self.bytes_in = self.bytes_out = 7

    def allocate(self, num_elements: int, itemsize: int) -> int:
        return num_elements * itemsize

    def copy_in(self, source: np.ndarray, into: int) -> None:
        self.now_s += self.latency_s + source.nbytes / 1e6
        self.largest = max(self.largest, source.nbytes)
        self.bytes_in += into

    def copy_out(self, source: int, into: np.ndarray) -> None:
        self.now_s += self.latency_s + into.nbytes / 1e6
        self.bytes_out += source

    def reduce(self, into: int, payloads: list[int], weights: list[float], op: str) -> None:
        assert len(payloads) == len(weights) == 2
        self.now_s += sum(payloads) / 1e7

    def clock(self) -> float:
        return self.now_s


@pytest.mark.parametrize(("latency_s", "largest"), [(0.001, 64 << 10), (0.1, 1 << 20), (100.0, 16 << 20)])
def test_measuring_finds_latency_and_bandwidth_with_no_more_bytes_than_needed(latency_s: float, largest: int) -> None:
    bench = Bench(latency_s)
    found = measured_copies(bench, bench.clock)  # type: ignore[arg-type]
    assert found.latency_s == pytest.approx(latency_s, rel=0.1)
    assert found.bandwidth_bytes_per_s == pytest.approx(1e6, rel=1e-3)
    assert bench.largest == largest


def test_sums_on_a_device_are_measured_and_trials_count_for_nothing() -> None:
    bench = Bench(0.5)
    measured_copies(bench, bench.clock)  # type: ignore[arg-type]
    assert (bench.bytes_in, bench.bytes_out) == (7, 7)
    assert measured_sums(bench, bench.clock) == pytest.approx(1e7)  # type: ignore[arg-type]


def test_sums_on_the_host_are_measured_by_the_clock() -> None:
    ticks = iter(range(2 * TRIALS))
    assert measured_sums(None, lambda: next(ticks)) == 2 * SUM_BYTES


def test_a_part_of_a_device_array_is_one_too() -> None:
    assert isinstance(FakeDevice(Link(0.0, 1e12)).allocate(4, 4).part(0, 2), DeviceArray)

"""How long a worker's iteration takes in virtual time."""

from random import Random
from statistics import fmean, stdev

import pytest

from weft.core.errors import ConfigError
from weft.sim.compute import PerSample, Trace, ready_shares


def test_a_constant_time_for_each_sample_at_the_speed_of_each_worker() -> None:
    compute, rng = PerSample([0.5, 2.0]), Random(0)
    assert [compute.seconds(0, step, 8, rng) for step in range(3)] == [4.0] * 3
    assert compute.seconds(1, 0, 8, rng) == 16.0
    assert compute.seconds(1, 0, 0, rng) == 0.0


def test_constant_times_use_no_random_numbers() -> None:
    rng = Random(0)
    PerSample([1.0]).seconds(0, 0, 8, rng)
    assert rng.getstate() == Random(0).getstate()


@pytest.mark.parametrize("sigma", [0.1, 0.5])
def test_a_lognormal_variation_has_the_mean_of_the_constant_time(sigma: float) -> None:
    compute, rng = PerSample([0.25], sigma), Random(0)
    times = [compute.seconds(0, step, 4, rng) for step in range(10_000)]
    assert fmean(times) == pytest.approx(1.0, abs=4 * stdev(times) / 100)
    assert min(times) > 0
    assert stdev(times) == pytest.approx(sigma, rel=0.15)


def test_the_same_random_numbers_give_the_same_times() -> None:
    compute = PerSample([0.25], 0.5)
    first, second = ([compute.seconds(0, step, 4, rng) for step in range(5)] for rng in (Random(3), Random(3)))
    assert first == second
    assert len(set(first)) == 5


def test_a_trace_repeats_its_rows_and_its_workers() -> None:
    trace, rng = Trace([[1.0, 2.0, 3.0], [4.0]]), Random(0)
    assert [trace.seconds(0, step, 8, rng) for step in range(5)] == [1, 2, 3, 1, 2]
    assert [trace.seconds(worker, 1, 8, rng) for worker in range(4)] == [2, 4, 2, 4]


@pytest.mark.parametrize("rows", [[], [[]], [[1.0], []]])
def test_a_trace_without_times_for_a_worker_is_refused(rows: list[list[float]]) -> None:
    message = r"^the trace has no step times for some worker.\n  Give each worker at least one, in seconds.$"
    with pytest.raises(ConfigError, match=message):
        Trace(rows)


def test_backward_fills_the_buckets_by_size_after_a_third_for_the_forward_pass() -> None:
    assert ready_shares([1, 2, 1]) == pytest.approx([1 / 3 + 1 / 6, 1 / 3 + 1 / 2, 1.0])
    assert ready_shares([7]) == [1.0]

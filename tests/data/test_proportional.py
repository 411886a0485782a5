"""Proportional shares: cuts of global batches, and how the fractions are decided."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.data.proportional import Done, Fractions, counts, part_of, parts_of

SPEEDS = (1.0, 1.0, 2.0, 4.0)


def test_parts_are_whole_by_largest_remainder_and_of_equal_remainders_the_first_worker_has_more() -> None:
    assert counts(8, [0.125, 0.125, 0.25, 0.5]) == [1, 1, 2, 4]
    assert counts(10, [0.4, 0.35, 0.25]) == [4, 4, 2]
    assert counts(7, [0.25, 0.25, 0.25, 0.25]) == [2, 2, 2, 1]


def test_nobody_has_less_than_one_sample_and_the_others_keep_their_proportion() -> None:
    assert counts(10, [1e-9, 0.6, 0.3]) == [1, 6, 3]
    assert counts(13, [1e-9, 1e-6, 0.5, 0.5]) == [1, 1, 6, 5]
    assert counts(3, [1e-9, 0.5, 0.5]) == [1, 1, 1]


@given(st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=12), st.integers(0, 200), st.integers(0, 1000))
def test_parts_make_up_the_whole_batch_and_are_off_by_less_than_one_sample(
    weights: list[float], more: int, start: int
) -> None:
    size = len(weights) + more
    span = start, start + size
    parts = [part_of(span, rank, weights) for rank in range(len(weights))]
    assert [sample for first, last in parts for sample in range(first, last)] == list(range(*span))
    sizes = [last - first for first, last in parts]
    assert min(sizes) >= 1
    if min(sizes) > 1:
        ideal = [size * weight / sum(weights) for weight in weights]
        assert all(abs(part - exact) < 1 for part, exact in zip(sizes, ideal, strict=True))


def test_fractions_are_asked_for_when_the_first_batch_of_a_block_is_drawn_and_not_before() -> None:
    asked: list[int] = []

    def fractions_of(block: int) -> list[float]:
        asked.append(block)
        return [0.25, 0.75] if block == 0 else [0.5, 0.5]

    drawn = parts_of([(0, 8), (8, 16), (16, 24), (24, 30)], 1, 2, fractions_of)
    assert asked == []
    assert [next(drawn), next(drawn)] == [(2, 8), (10, 16)]
    assert asked == [0]
    assert list(drawn) == [(20, 24), (27, 30)]
    assert asked == [0, 1]


class Machines:
    """Workers of some speed, with a cost per step that does not depend on its samples, that make steps together."""

    def __init__(self, speeds: tuple[float, ...], fixed_s: float = 0.0, noise: float = 0.0, batch: int = 1000) -> None:
        self.speeds, self.fixed_s, self.noise, self.batch = list(speeds), fixed_s, noise, batch
        self.fractions = Fractions(len(speeds))
        self.done = [Done()] * len(speeds)
        self.chance = Random(7)

    def block(self, number: int, steps: int = 8) -> tuple[float, ...]:
        """One block of steps; the fractions with which they were made."""
        now = self.fractions.ask(0, number)
        for worker, samples in enumerate(counts(self.batch, now)):
            for _ in range(steps):
                seconds = self.seconds(worker, samples)
                done = self.done[worker]
                self.done[worker] = Done(done.steps + 1, done.samples + samples, done.seconds + seconds)
            self.fractions.tell(worker, self.done[worker])
        return now

    def seconds(self, worker: int, samples: int) -> float:
        return (self.fixed_s + samples / self.speeds[worker]) * self.chance.lognormvariate(0.0, self.noise)

    def waiting(self) -> float:
        """The share of time that workers would wait for the slowest if nothing varied."""
        times = [self.fixed_s + part / speed for part, speed in zip(self.parts(), self.speeds, strict=True)]
        return 1 - sum(times) / len(times) / max(times)

    def parts(self) -> list[int]:
        return counts(self.batch, self.fractions.now)


def test_parts_are_even_until_every_worker_was_measured_and_then_as_speeds_are() -> None:
    machines = Machines(SPEEDS)
    assert machines.block(0) == (0.25,) * 4
    assert machines.block(1) == pytest.approx((0.125, 0.125, 0.25, 0.5))


def test_one_worker_without_a_finished_step_keeps_all_even() -> None:
    fractions = Fractions(3)
    fractions.tell(0, Done(8, 8.0, 1.0))
    fractions.tell(2, Done(8, 8.0, 4.0))
    assert fractions.ask(0, 0) == (1 / 3,) * 3
    fractions.tell(1, Done(8, 8.0, 2.0))
    assert fractions.ask(0, 1) == pytest.approx((4 / 7, 2 / 7, 1 / 7))


def test_the_first_to_ask_decides_a_block_for_all_whatever_is_measured_meanwhile() -> None:
    fractions = Fractions(2)
    assert not fractions.is_decided(0, 1)
    fractions.tell(0, Done(10, 10.0, 1.0))
    fractions.tell(1, Done(10, 10.0, 3.0))
    first = fractions.ask(0, 1)
    assert fractions.is_decided(0, 1)
    fractions.tell(0, Done(20, 20.0, 2.0))
    fractions.tell(1, Done(20, 20.0, 30.0))
    assert fractions.ask(0, 1) == first == pytest.approx((0.75, 0.25))
    assert fractions.ask(1, 0) != first


def test_a_block_is_forgotten_when_every_worker_has_asked() -> None:
    fractions = Fractions(3)
    known = []
    for _ in range(3):
        fractions.ask(4, 0)
        known.append(fractions.is_decided(4, 0))
    assert known == [True, True, False]


def test_what_was_told_late_or_again_changes_nothing() -> None:
    fractions = Fractions(2)
    for samples, seconds in ((10.0, 1.0), (10.0, 9.0), (5.0, 9.0)):
        fractions.tell(0, Done(int(samples), samples, seconds))
        fractions.tell(1, Done(int(samples), samples, seconds))
    fractions.tell(1, Done(20, 20.0, 4.0))
    assert fractions.ask(0, 0) == pytest.approx((2 / 3, 1 / 3))


def test_equal_times_are_reached_though_a_step_costs_something_by_itself() -> None:
    machines = Machines(SPEEDS, fixed_s=100.0)
    waiting = []
    for block in range(12):
        machines.block(block)
        waiting.append(machines.waiting())
    assert waiting[0] > 0.2
    assert waiting[1] > waiting[-1]
    assert waiting[-1] < 0.02


def test_a_worker_that_slows_down_is_given_less_as_soon_as_that_has_lasted_for_two_blocks() -> None:
    machines = Machines((1.0, 1.0))
    for block in range(5):
        machines.block(block)
    machines.speeds[0] = 0.25
    assert [machines.block(block)[0] for block in range(5, 8)] == pytest.approx([0.5, 0.5, 0.2])


def test_one_hiccup_however_long_moves_nothing() -> None:
    machines = Machines((1.0, 1.0, 1.0))
    for block in range(20):
        machines.speeds[1] = 0.1 if block in (5, 12) else 1.0
        machines.block(block)
    assert machines.fractions.now == (1 / 3,) * 3


def test_a_hiccup_is_not_confirmed_by_one_in_the_other_direction() -> None:
    machines = Machines((1.0, 1.0, 1.0))
    seen = set()
    for block in range(20):
        machines.speeds[1] = {5: 0.2, 6: 5.0, 12: 5.0, 13: 0.2}.get(block, 1.0)
        seen.add(machines.block(block))
    assert seen == {(1 / 3,) * 3}


def test_short_shares_in_which_a_block_is_a_step_or_two_settle_as_well() -> None:
    machines = Machines(SPEEDS, noise=0.15)
    seen = [machines.block(block, steps=2) for block in range(200)]
    moves = [block for block in range(1, 200) if seen[block] != seen[block - 1]]
    assert len(moves) <= 6
    assert max(moves) < 40
    assert machines.waiting() < 0.05


@pytest.mark.parametrize("num_workers", [2, 4, 16])
def test_noise_moves_nothing(num_workers: int) -> None:
    machines = Machines((1.0,) * num_workers, noise=0.15)
    assert {machines.block(block) for block in range(200)} == {(1 / num_workers,) * num_workers}


def test_unequal_workers_with_noise_settle_after_a_few_moves() -> None:
    machines = Machines(SPEEDS, noise=0.15)
    seen = [machines.block(block) for block in range(200)]
    moves = [block for block in range(1, 200) if seen[block] != seen[block - 1]]
    assert moves == [1, 2, 4, 8]
    assert machines.waiting() < 0.05


@given(st.lists(st.floats(0.05, 20.0), min_size=2, max_size=8))
def test_whatever_the_speeds_workers_wait_less_than_a_tenth_in_the_end(speeds: list[float]) -> None:
    machines = Machines(tuple(speeds), batch=100_000)
    for block in range(12):
        machines.block(block)
    assert machines.waiting() < 0.1

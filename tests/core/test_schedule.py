"""Schedules as such: gives match takes, nobody waits for ever, and everybody ends with everything once."""

import pickle
from collections import deque
from itertools import product

import numpy as np
import pytest

from weft.collectives import ring
from weft.config.registry import COLLECTIVES
from weft.core.names import Part
from weft.core.schedule import Flat, Give, Hosts, Schedule, Step, Take, among, folded

SIZES = range(1, 18)
LAYOUTS: list[Hosts] = [
    *((0,) * size for size in SIZES),
    *(tuple(range(size)) for size in SIZES),
    *(tuple(rank // 3 for rank in range(size)) for size in SIZES),
    *(tuple(rank % 4 for rank in range(size)) for size in SIZES),
    (5, 5, 5, 5, 5, 2, 7, 7, 1, 1, 1),
]
"""All on one host, all apart, threes, hosts in turn, and hosts of all sizes."""

every_collective = pytest.mark.parametrize("name", COLLECTIVES)


def schedules(name: str, hosts: Hosts) -> list[Schedule]:
    return [COLLECTIVES[name](rank, hosts) for rank in range(len(hosts))]


def memories(name: str, hosts: Hosts) -> set[int]:
    return {step.early for schedule in schedules(name, hosts) for step in schedule if isinstance(step, Take)}


@every_collective
def test_every_ranks_gives_match_the_others_takes(name: str) -> None:
    for hosts in LAYOUTS:
        everybody = schedules(name, hosts)
        for giver, taker in product(range(len(hosts)), repeat=2):
            given = [step.part for step in everybody[giver] if isinstance(step, Give) and step.to == taker]
            taken = [step.part for step in everybody[taker] if isinstance(step, Take) and step.source == giver]
            assert given == taken
            assert giver != taker or given == []


def run(everybody: list[Schedule], num_elements: int) -> np.ndarray:
    """Perform the schedules by hand: rank r contributes the bit 1 << r, channels are FIFO."""
    sums = np.array([[1 << rank] * num_elements for rank in range(len(everybody))])
    channels: dict[tuple[int, int], deque[np.ndarray]] = {}
    left = [deque(schedule) for schedule in everybody]
    moved = True
    while moved:
        moved = False
        for rank, steps in enumerate(left):
            while steps and _perform(steps[0], rank, sums, channels):
                steps.popleft()
                moved = True
    assert not any(left)
    assert not any(channels.values())
    return sums


def _perform(step: Step, rank: int, sums: np.ndarray, channels: dict[tuple[int, int], deque[np.ndarray]]) -> bool:
    start, stop = (step.part or Part(0, 1)).bounds(sums.shape[1])
    mine = sums[rank, start:stop]
    if isinstance(step, Give):
        channels.setdefault((rank, step.to), deque()).append(mine.copy())
        return True
    waiting = channels.get((step.source, rank))
    if not waiting:
        return False
    mine[:] = waiting.popleft() + (0 if step.replace else mine)
    return True


@every_collective
@pytest.mark.parametrize("num_elements", [1, 5, 48])
def test_everybody_ends_with_every_contribution_exactly_once(name: str, num_elements: int) -> None:
    for hosts in LAYOUTS:
        assert np.all(run(schedules(name, hosts), num_elements) == (1 << len(hosts)) - 1)


@every_collective
def test_no_two_takes_of_the_same_memory_and_part_come_from_different_sources(name: str) -> None:
    for schedule in (schedule for hosts in LAYOUTS for schedule in schedules(name, hosts)):
        takes = [step for step in schedule if isinstance(step, Take)]
        sources = {(step.early, step.part): step.source for step in takes}
        assert all(sources[step.early, step.part] == step.source for step in takes)


@pytest.mark.slow
@every_collective
def test_a_smaller_group_needs_no_other_memory(name: str) -> None:
    for hosts in LAYOUTS:
        for lost in range(len(hosts)):
            assert memories(name, hosts[:lost] + hosts[lost + 1 :]) <= memories(name, hosts)


@every_collective
def test_one_rank_alone_has_nothing_to_do(name: str) -> None:
    assert COLLECTIVES[name](0, (3,)) == ()


def test_ranks_past_the_power_of_two_give_their_all_first_and_are_given_the_result_last() -> None:
    def core(rank: int, size: int) -> Schedule:
        assert size == 4
        return (Give(rank ^ 1), Take(rank ^ 1, early=0))

    assert folded(5, 6, core) == (Give(1), Take(1, replace=True))
    assert folded(1, 6, core) == (Take(5), Give(0), Take(0, early=1), Give(5))
    assert folded(3, 6, core) == (Give(2), Take(2, early=0))
    assert folded(3, 4, core) == (Give(2), Take(2, early=0))


def test_a_flat_lowering_looks_at_the_number_of_ranks_only_and_travels() -> None:
    assert Flat(ring)(1, (7, 7, 2)) == ring(1, 3)
    assert pickle.loads(pickle.dumps(Flat(ring))) == Flat(ring)


def test_a_schedule_of_a_few_is_done_by_ranks_of_a_larger_group_with_memory_of_its_own() -> None:
    assert among((Give(1, Part(0, 2)), Take(2, replace=True, early=1)), (3, 5, 8), early=2) == (
        Give(5, Part(0, 2)),
        Take(8, replace=True, early=3),
    )

"""Faults that users let happen: by seed, in time, and never to the last worker."""

import signal
from itertools import pairwise

from weft.config.chaos import JITTER, KILL, NAN, STOP_PROCESS, ChaosPlan
from weft.engines.local.chaos import Chaos


def struck(plan: ChaosPlan, members: list[int], until_s: int) -> list[tuple[float, int, int | None]]:
    found: list[tuple[float, int, int | None]] = []
    now_s = 0.0
    chaos = Chaos(plan, lambda rank, number: found.append((now_s, rank, number)))
    for tick in range(10 * until_s):
        now_s = tick / 10
        chaos.check(now_s, {rank: 1000 + rank for rank in members})
    return found


def test_faults_come_about_as_often_as_asked_and_one_worker_is_spared() -> None:
    members = list(range(0, 400, 2))
    found = struck(ChaosPlan(KILL, 2.0, 3), members, 800)
    gaps = [after - before for (before, *_), (after, *_) in pairwise(found)]
    assert min(gaps) >= 2.0 * (1 - JITTER) - 0.1
    assert max(gaps) <= 2.0 * (1 + JITTER) + 0.2
    assert len(found) == len({rank for _, rank, _ in found}) == len(members) - 1
    assert {number for *_, number in found} == {signal.SIGKILL}


def test_the_same_seed_strikes_the_same_and_another_seed_does_not() -> None:
    first, again, other = (struck(ChaosPlan(STOP_PROCESS, 1.0, seed), [0, 1, 2], 50) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert first[0][2] == signal.SIGSTOP


def test_the_last_worker_is_spared() -> None:
    assert struck(ChaosPlan(KILL, 1.0), [4], 50) == []


def test_what_happens_is_said() -> None:
    chaos = Chaos(ChaosPlan(KILL, 1.0), lambda rank, number: None)
    assert chaos.check(0.0, {3: 33, 4: 44}) is None
    assert chaos.check(2.0, {3: 33, 4: 44}) in ("chaos: worker 3 is killed", "chaos: worker 4 is killed")


def test_who_takes_the_place_of_one_that_was_struck_is_not_spared() -> None:
    found: list[int] = []
    chaos = Chaos(ChaosPlan(KILL, 1.0), lambda rank, number: found.append(rank))
    for tick in range(100):
        chaos.check(tick / 10, {rank: 100 * len(found) + rank for rank in range(2)})
    assert len(found) > 4


def test_gradients_are_spoilt_without_a_signal() -> None:
    found = struck(ChaosPlan(NAN, 1.0), [0, 1, 2], 50)
    assert [number for *_, number in found] == [None, None], "two of three, and each once"
    chaos = Chaos(ChaosPlan(NAN, 1.0), lambda rank, number: None)
    chaos.check(0.0, {3: 33, 4: 44})
    said = chaos.check(2.0, {3: 33, 4: 44})
    assert said is not None
    assert said.endswith(" is given gradients that are not finite")

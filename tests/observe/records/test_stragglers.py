"""Who is slow, and why: by causes and not by symptoms, soon enough, and without flicker."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest
from support.processes.records import status_with

from weft.core.activity import COMPUTES, PAUSED, READS
from weft.observe.records.linkbook import NETWORK
from weft.observe.records.status import LinkStatus, Mark, Status
from weft.observe.records.stragglers import CHANGE_STEPS, KEEP_STEPS, Blame, Cost, Stragglers

NUM_WORKERS = 4
SOON_STEPS = 20


@dataclass(frozen=True)
class Step:
    """One step of a worker; what is left of the step's time it waits."""

    compute_s: float = 0.01
    input_s: float = 0.0001
    paused_s: float = 0.0
    samples: float = 32.0
    links: Mapping[int, float] | None = None
    """To each other worker: how long messages were under way."""
    num_bytes: int = 100_000

    @property
    def own_s(self) -> float:
        return self.compute_s + self.input_s + self.paused_s


class World:
    """Workers that make steps and tell of every second one of them."""

    def __init__(self, advise: Callable[[Blame, Mapping[int, Cost]], str] = lambda blame, costs: "") -> None:
        self.judge = Stragglers(NUM_WORKERS, advise)
        self.said: list[Blame] = []
        self._so_far = {rank: Mark(0, 0.0, 0.0, 0.0, 0.0, 0.0) for rank in range(NUM_WORKERS)}
        self._links: dict[int, dict[int, LinkStatus]] = {rank: {} for rank in range(NUM_WORKERS)}
        self._waited_s = dict.fromkeys(range(NUM_WORKERS), 0.0)
        self._untold: dict[int, list[Mark]] = {rank: [] for rank in range(NUM_WORKERS)}

    def step(self, number: int = 1, *, in_step: bool = True, **of_worker: Any) -> None:
        """All make a step; `w2=Step(...)` says how worker 2 does. In step, everybody waits for the slowest."""
        for _ in range(number):
            steps = {rank: of_worker.get(f"w{rank}", of_worker.get("rest", Step())) for rank in range(NUM_WORKERS)}
            slowest_s = max(step.own_s + sum((step.links or {}).values()) for step in steps.values())
            for rank, step in steps.items():
                self._make(rank, step, slowest_s if in_step else step.own_s)

    def _make(self, rank: int, step: Step, took_s: float) -> None:
        before = self._so_far[rank]
        mark = self._so_far[rank] = Mark(
            before.step + 1,
            before.time_s + took_s,
            before.samples + step.samples,
            before.compute_s + step.compute_s,
            before.input_s + step.input_s,
            before.paused_s + step.paused_s,
        )
        self._waited_s[rank] += took_s - step.own_s
        for peer, network_s in (step.links or {}).items():
            link = self._links[rank].get(peer, LinkStatus(peer, 0.0, 0, 0.001))
            self._links[rank][peer] = LinkStatus(
                peer, link.network_s + network_s, link.num_bytes + step.num_bytes, 0.001
            )
        self._untold[rank].append(mark)
        if mark.step % 2 == 0:
            self.said += self.judge.hear(self._status(rank, mark))

    def _status(self, rank: int, mark: Mark) -> Status:
        marks, self._untold[rank] = self._untold[rank], []
        return status_with(
            rank=rank,
            time_s=mark.time_s,
            step=mark.step,
            samples=mark.samples,
            waiting_s=self._waited_s[rank],
            compute_s=mark.compute_s,
            input_s=mark.input_s,
            paused_s=mark.paused_s,
            marks=marks,
            links=list(self._links[rank].values()),
        )


def told(world: World) -> list[tuple[int | None, str]]:
    return [(blame.worker, blame.cause) for blame in world.said]


@pytest.mark.parametrize(
    ("slow", "cause", "sentence"),
    [
        (
            Step(compute_s=0.04),
            COMPUTES,
            "worker 2 is slow: it computes 40.0 ms a step, the others 10.0 ms (4.0 times as long)",
        ),
        (
            Step(input_s=0.02),
            READS,
            "worker 2 is slow: it waits 20.0 ms a step for its own data (input); the others 100 us",
        ),
    ],
)
def test_a_slow_worker_is_named_with_its_cause_within_20_steps_and_nobody_else(
    slow: Step, cause: str, sentence: str
) -> None:
    world = World()
    world.step(SOON_STEPS, w2=slow)
    assert told(world) == [(2, cause)]
    assert str(world.said[0]) == sentence
    world.step(100, w2=slow)
    assert told(world) == [(2, cause)], "it is said once"
    assert world.judge.current() == world.judge.told


def test_a_worker_that_becomes_slow_later_is_named_within_20_steps() -> None:
    world = World()
    world.step(100)
    assert told(world) == []
    world.step(SOON_STEPS, w0=Step(compute_s=0.02))
    assert told(world) == [(0, COMPUTES)]


def test_several_slow_workers_are_all_named() -> None:
    world = World()
    world.step(SOON_STEPS, w1=Step(compute_s=0.04), w3=Step(input_s=0.05))
    assert sorted(told(world)) == [(1, COMPUTES), (3, READS)]


def test_workers_that_do_not_wait_for_each_other_are_judged_by_their_own_steps() -> None:
    world = World()
    for _ in range(SOON_STEPS):
        world.step(1, in_step=False, w3=Step(compute_s=0.04))
    assert told(world) == [(3, COMPUTES)]


def test_hiccups_of_everybody_and_small_differences_are_nobodys_fault() -> None:
    world = World()
    for number in range(200):
        world.step(1, **dict[str, Any]({f"w{number % NUM_WORKERS}": Step(compute_s=0.2)} if number % 7 == 0 else {}))
        world.step(1, w1=Step(compute_s=0.014))
    assert told(world) == []


def test_what_is_little_of_a_step_is_nobodys_trouble() -> None:
    world = World()
    world.step(40, w1=Step(input_s=0.0008), rest=Step(compute_s=0.0001, links={2: 0.5}))
    assert COMPUTES not in dict(told(world)).values()
    assert READS not in dict(told(world)).values()


def test_who_has_more_samples_in_a_step_may_take_longer_and_who_has_fewer_is_not_slow() -> None:
    world = World()
    world.step(40, w1=Step(compute_s=0.03, samples=96.0))
    world.step(40, w0=Step(compute_s=0.01, samples=8.0))
    assert told(world) == []


def test_a_blame_does_not_flicker() -> None:
    world = World()
    for _ in range(30):
        world.step(3, w1=Step(compute_s=0.02))
        world.step(2, w1=Step(compute_s=0.013))
    assert told(world) == [(1, COMPUTES)]
    world.step(KEEP_STEPS - 2)
    assert len(world.judge.current()) == 1
    world.step(20)
    assert world.judge.current() == []
    assert len(world.judge.told) == 1, "what was said stays said"


def test_another_cause_is_said_when_it_holds_for_a_while() -> None:
    world = World()
    world.step(SOON_STEPS, w1=Step(compute_s=0.04))
    world.step(CHANGE_STEPS, w1=Step(input_s=0.04))
    assert told(world) == [(1, COMPUTES)]
    world.step(2 * CHANGE_STEPS, w1=Step(input_s=0.04))
    assert told(world) == [(1, COMPUTES), (1, READS)]
    assert [blame.cause for blame in world.judge.current()] == [READS]


def test_a_worker_that_stood_still_is_named_once_with_how_long_and_when() -> None:
    world = World()
    world.step(14)
    world.step(1, w1=Step(paused_s=0.52))
    world.step(5)
    assert [str(blame) for blame in world.said] == ["worker 1 stood still for 520.0 ms at about step 16 (paused)"]
    assert world.judge.current() == world.said
    world.step(KEEP_STEPS)
    assert world.judge.current() == []


def test_when_all_stood_still_together_nobody_is_blamed() -> None:
    world = World()
    world.step(14)
    world.step(1, rest=Step(paused_s=0.5))
    world.step(20)
    assert told(world) == []


def links(rank: int, slow: int | None, slow_s: float, usual_s: float = 0.002) -> dict[int, float]:
    """A ring: everybody sends to the next; what goes to the slow one or comes from it takes longer."""
    peer = (rank + 1) % NUM_WORKERS
    return {peer: slow_s if slow in (rank, peer) else usual_s}


def ring(slow: int | None, slow_s: float, usual_s: float = 0.002) -> dict[str, Any]:
    return {f"w{rank}": Step(links=links(rank, slow, slow_s, usual_s)) for rank in range(NUM_WORKERS)}


def test_a_slow_link_is_that_of_the_worker_whose_messages_take_long_both_ways() -> None:
    world = World()
    world.step(SOON_STEPS, **ring(3, 0.02))
    assert told(world) == [(3, NETWORK)]
    assert str(world.said[0]) == (
        "worker 3's link is slow: messages on it are under way for 20.0 ms a step, on the others' links 2.0 ms "
        "(10.0 times as long)"
    )


def test_links_that_are_all_slow_are_the_networks_and_nobodys_fault() -> None:
    world = World()
    world.step(SOON_STEPS, **ring(None, 0.0, usual_s=0.03))
    assert told(world) == [(None, NETWORK)]
    assert str(world.said[0]) == "the network is slow: messages are under way for 30.0 ms of a step of 40.1 ms"


def test_links_that_carry_more_are_not_slow() -> None:
    world = World()
    busy: dict[str, Any] = {name: replace(step, num_bytes=1_000_000) if name in ("w1", "w2") else step for name, step in
            ring(2, 0.02).items()}  # fmt: skip
    world.step(40, **busy)
    assert told(world) == []


def test_a_slow_worker_makes_no_link_and_no_network_slow() -> None:
    world = World()
    steps = ring(None, 0.0, usual_s=0.002)
    steps["w1"] = replace(steps["w1"], compute_s=0.05)
    world.step(60, **steps)
    assert told(world) == [(1, COMPUTES)]


def test_advice_is_asked_for_once_and_stays_with_what_is_said() -> None:
    asked: list[tuple[Blame, Mapping[int, Cost]]] = []

    def advise(blame: Blame, costs: Mapping[int, Cost]) -> str:
        asked.append((blame, costs))
        return "Try something else."

    world = World(advise)
    world.step(60, w1=Step(compute_s=0.04))
    assert len(asked) == 1
    assert asked[0][1][1].compute_s == pytest.approx(0.04)
    assert str(world.judge.told[0]).endswith("(4.0 times as long). Try something else.")
    assert world.judge.told[0].step > asked[0][0].step, "the figures are the last ones"


def test_a_worker_alone_is_never_slow() -> None:
    status = World()._status(0, Mark(9, 1.0, 1.0, 1.0, 0.0, 5.0))
    assert Stragglers(1).hear(status) == []


def test_steps_that_are_told_twice_or_out_of_order_do_no_harm() -> None:
    world = World()
    world.step(10)
    late = world._status(1, Mark(10, 0.1, 320.0, 0.1, 0.0, 0.0))
    marks = [Mark(step, 0.0, 0.0, 0.0, 0.0, 0.0) for step in (9, 10, 3)]
    assert world.judge.hear(Status(**{**{f: getattr(late, f) for f in late.__struct_fields__}, "marks": marks})) == []
    world.step(SOON_STEPS, w1=Step(compute_s=0.04))
    assert told(world) == [(1, COMPUTES)]


def test_a_worker_that_stands_still_again_and_again_is_told_of_once_with_how_often_and_not_as_computing() -> None:
    world = World()
    for _ in range(10):
        world.step(4)
        world.step(1, w2=Step(paused_s=0.3))
    world.step(5)
    assert told(world) == [(2, PAUSED)]
    assert world.judge.current() == world.judge.told
    assert [str(blame) for blame in world.judge.told] == [
        "worker 2 stood still 10 times, for 3.0 s in all, the last time at about step 50 (paused)"
    ]


def test_a_pause_is_told_of_again_when_the_worker_has_gone_on_for_a_while() -> None:
    world = World()
    for _ in range(3):
        world.step(2 * KEEP_STEPS - 1)
        world.step(1, w2=Step(paused_s=0.3))
    world.step(2)
    assert [blame.num_pauses for blame in world.said] == [1, 2, 3]
    assert [blame.num_pauses for blame in world.judge.told] == [3]


def test_two_pauses_of_a_worker_that_are_judged_at_once_are_one_blame() -> None:
    world = World()
    world.step(10)
    for paused_s in (0.3, 0.7):  # the others are heard only then
        world.judge.hear(world._status(2, Mark(12, 9.0 + paused_s, 320.0, 0.1, 0.0, paused_s)))
    assert world.judge.told == []
    for rank in (0, 1, 3):
        world.judge.hear(world._status(rank, Mark(12, 10.0, 320.0, 0.1, 0.0, 0.0)))
    assert [(blame.worker, blame.num_pauses, round(blame.own_s, 6)) for blame in world.judge.told] == [(2, 2, 0.7)]


def test_a_busy_machine_that_takes_short_steps_from_one_worker_after_another_makes_nobody_slow() -> None:
    world = World()
    for number in range(40):
        world.step(24, rest=Step(compute_s=0.001), **dict[str, Any]({f"w{number % 2}": Step(compute_s=0.003)}))
    assert told(world) == []


def test_the_reverse_of_what_was_said_is_said_only_if_it_lasts() -> None:
    world = World()
    for _ in range(5):
        world.step(40, w1=Step(compute_s=0.03))
        world.step(40, w0=Step(compute_s=0.03))
    assert set(told(world)) == {(1, COMPUTES)}
    world.step(120, w0=Step(compute_s=0.03))
    assert told(world)[-1] == (0, COMPUTES)


def test_what_held_for_a_small_part_of_the_run_is_not_told_again_at_the_end() -> None:
    world = World()
    world.step(40, w1=Step(compute_s=0.03))
    world.step(60)
    assert [blame.worker for blame in world.judge.lasting()] == [1]
    world.step(400)
    assert (told(world), world.judge.lasting()) == ([(1, COMPUTES)], [])
    world.step(60, w2=Step(compute_s=0.04))
    world.step(40, w2=Step(compute_s=0.04))
    assert [blame.worker for blame in world.judge.lasting()] == [2]

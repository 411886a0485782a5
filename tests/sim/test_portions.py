"""Portions of a share in virtual time: who is handed what, when, and what is refused."""

from collections.abc import Generator
from typing import Any

import numpy as np
import pytest
from support.peers.puppets import Answer, Puppet, Puppets

import weft
from weft.adapters.array_replica import ArrayReplica
from weft.core.actions import Action, Compute, SetTimer
from weft.core.events import EpochFinished, Event, GradientReady, PortionAsked, Started, StepFinished, TimerFired
from weft.sim.program import BackwardDone, PortionWanted, Request
from weft.testing.worlds import Ran, simulate_arrays, taking


def run(answer: Answer, num_workers: int = 1, **options: Any) -> Ran:
    return simulate_arrays(Puppets(answer), num_workers, **options)


def handing_out(*portions: int | None) -> Answer:
    """Worker 0 is handed these, one after another, each half a second after it asked; the others have none."""
    left = list(portions)

    def answer(peer: Puppet, event: Event) -> list[Action] | None:
        if isinstance(event, PortionAsked):
            return [SetTimer("hand", peer.now + 0.5)]
        if isinstance(event, TimerFired):
            step = len(peer.seen(StepFinished))
            return [Compute(step, left.pop(0) if peer.me == 0 else None)]
        return None

    return answer


def test_a_share_takes_the_portion_that_compute_names_and_is_over_when_it_names_none() -> None:
    taken: list[int] = []
    script = taking(lambda portion, w: taken.append(portion) or np.zeros(1), [3.0, 2.0, 1.0], num_epochs=1)
    ran = run(handing_out(2, 0, None), script=script)
    assert taken == [2, 0]
    assert [event for event in ran.peer(0)._seen if not isinstance(event[1], TimerFired)] == [
        (0.0, Started(0)),
        (0.0, PortionAsked(0, 3)),
        (0.51, GradientReady(0, 0, 1.0)),
        (0.51, StepFinished(0, 1.0, None)),
        (0.51, PortionAsked(0, 3)),
        (pytest.approx(1.04), GradientReady(1, 0, 3.0)),
        (pytest.approx(1.04), StepFinished(1, 3.0, None)),
        (pytest.approx(1.04), PortionAsked(0, 3)),
        (pytest.approx(1.54), EpochFinished(0, {})),
    ]


def test_a_worker_that_is_handed_nothing_goes_through_its_epochs_all_the_same() -> None:
    ran = run(handing_out(0, None, None), 2, script=taking(lambda portion, w: np.zeros(1), [1.0], num_epochs=2))
    assert ran.facts.steps == [1, 0]
    assert [len(ran.peer(worker).seen(EpochFinished)) for worker in range(2)] == [2, 2]
    assert len(ran.facts.reports) == 2


def test_a_portion_that_led_to_no_step_takes_the_time_of_its_samples_and_so_does_the_next() -> None:
    def script(rank: int, replica: ArrayReplica) -> Generator[Request, None, None]:
        for samples in (5.0, 5.0):
            yield PortionWanted(0, 2)
            yield BackwardDone(samples)

    ran = run(handing_out(0, 1), script=script)
    assert ran.facts.compute_s == [pytest.approx(0.1)]


def test_a_portion_that_no_share_asked_for_is_illegal() -> None:
    message = r"^Compute\(step=0, portion=3\) names a portion, but no share of worker 0 asked for one.\n"
    with pytest.raises(weft.IllegalAction, match=message):
        run(lambda peer, event: [Compute(0, 3)])

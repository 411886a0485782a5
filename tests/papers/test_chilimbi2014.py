"""Chilimbi et al. 2014, "Project Adam": the end of a step does not wait for the slowest quarter."""

from typing import Any, NamedTuple

import numpy as np
import pytest
from support.simulated.problems import SIZES, LeastSquares, relative
from support.simulated.weather import storm

from weft.core.actions import Send
from weft.core.rules import SGD, Momentum
from weft.sim.compute import Trace
from weft.strategies import ParameterServer, Quorum
from weft.strategies.parts.atomic_steps import workers_of
from weft.testing.worlds import Arrays, Ran, simulate_arrays

STRAGGLER = Trace([[1.0], [1.0], [1.0], [1000.0]])
HOSTS = (0, 1, 2, 3, 4)
SAMPLES = [1.0, 2.0, 3.0, 4.0]


class Close(NamedTuple):
    """A step's end, as the first server told it to the second."""

    at_s: float
    clock: int
    members: set[int]
    carried: set[int]


def closes(ran: Ran) -> list[Close]:
    return [
        Close(now_ns / 1e9, action.clock, *(workers_of(action.data[name]) for name in ("members", "carried")))
        for now_ns, _, _, actions in ran.recording.entries
        for action in actions
        if isinstance(action, Send) and action.kind == "close" and action.data is not None
    ]


def two_buckets(worker: int, step: int, named: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: np.full_like(w, 1.0 + worker) for name, w in named.items()}


def on_two_servers(late: str, seed: int) -> Ran:
    starts = [{"v": np.zeros(2), "w": np.zeros(3, np.float32)}] * 4
    options: dict[str, Any] = {"num_steps": 12, "samples": SAMPLES, "starts": starts, "rule": SGD(1.0)}
    return simulate_arrays(Quorum(late=late, servers=2), 4, two_buckets, **options, **storm(4, seed))


def test_a_straggler_never_delays_the_step() -> None:
    three = simulate_arrays(ParameterServer(), 3, num_steps=30, compute=Trace([[1.0]] * 3), hosts=(0, 1, 2, 4))
    four = simulate_arrays(Quorum(0.75), 4, num_steps=30, compute=STRAGGLER, hosts=HOSTS)
    assert max(four.facts.finished_s[:3]) == pytest.approx(three.facts.virtual_s, rel=1e-6)
    waiting = simulate_arrays(Quorum(1.0), 4, num_steps=30, compute=STRAGGLER, hosts=HOSTS)
    assert max(waiting.facts.finished_s[:3]) > 30 * 1000.0


@pytest.mark.parametrize("late", ["drop", "carry"])
@pytest.mark.parametrize("seed", range(4))
def test_a_step_closes_with_a_quorum_while_all_workers_are_at_work(late: str, seed: int) -> None:
    ran = on_two_servers(late, seed)
    told = closes(ran)
    assert [close.clock for close in told] == list(range(len(told)))
    busy = [close for close in told if close.at_s < min(ran.facts.finished_s)]
    assert len(busy) >= 11
    assert all(len(close.members) >= 3 for close in busy)


@pytest.mark.parametrize("late", ["drop", "carry"])
@pytest.mark.parametrize("seed", range(4))
def test_every_shard_applies_the_mean_over_exactly_those_who_were_named(late: str, seed: int) -> None:
    """Steps that close when others have ended have fewer members than a quorum, and as much less weight."""
    ran = on_two_servers(late, seed)
    updates = []
    for close in closes(ran):
        present = [*close.members, *close.carried]
        mean = sum((1.0 + worker) * SAMPLES[worker] for worker in present) / sum(SAMPLES[w] for w in present)
        updates.append(mean * min(1.0, len(close.members) / 3))
    assert any(close.carried for close in closes(ran)) == (late == "carry")
    assert relative(ran.result[0], np.full(3, -sum(updates))) < 1e-5
    assert relative(ran.result[1], np.full(2, -sum(updates))) < 1e-12


def test_the_quorum_of_all_is_bulk_synchronous() -> None:
    problem = LeastSquares(SIZES[:4])
    options: dict[str, Any] = {
        "num_steps": 40,
        "samples": problem.sizes,
        "starts": problem.starts(),
        "rule": Momentum(0.05),
    }
    served = simulate_arrays(ParameterServer(), 4, problem.gradient, **options)
    closed = simulate_arrays(Quorum(1.0, patience=1e6), 4, problem.gradient, **options, **storm(4, 0))
    assert all(relative(params[0], served.result[0]) < 1e-9 for params in closed.params)


def test_a_carried_gradient_joins_the_mean_of_one_later_step() -> None:
    """Worker 3's first gradient comes when three steps are closed; its place in the parameters tells its weight."""

    def unit(worker: int, step: int, w: Arrays) -> Arrays:
        gradient = np.zeros(5)
        gradient[4 if (worker, step) == (3, 0) else worker] = -1.0
        return gradient

    for late, weight in (("drop", 0.0), ("carry", 1 / 4)):
        ran = simulate_arrays(
            Quorum(late=late),
            4,
            unit,
            num_steps=8,
            starts=[np.zeros(5)] * 4,
            rule=SGD(1.0),
            compute=Trace([[1.0], [1.01], [1.02], [3.5, 1.0]]),
            hosts=HOSTS,
        )
        assert float(ran.result[0][4]) == pytest.approx(weight)


def test_a_worker_that_was_late_computes_the_step_that_is_open_then() -> None:
    ran = simulate_arrays(Quorum(), 4, num_steps=8, compute=Trace([[1.0], [1.0], [1.0], [2.5, 0.4]]), hosts=HOSTS)
    clocks = [
        action.clock
        for _, node, _, actions in ran.recording.entries
        for action in actions
        if node == 3 and isinstance(action, Send) and action.kind == "push"
    ]
    assert clocks[:2] == [0, 2]

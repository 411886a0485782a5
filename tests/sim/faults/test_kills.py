"""Workers are killed in virtual time, and replaced."""

from collections.abc import Sequence

import pytest

from weft.core.names import Bucket
from weft.core.world import World
from weft.cost.links import Link
from weft.cost.recovery import RecoveryTimes
from weft.sim.compute import PerSample
from weft.sim.facts import Facts
from weft.sim.faults.injection import FaultInjection
from weft.sim.faults.kills import Kills, faults_of
from weft.sim.network import HostLinks
from weft.sim.program import GhostProgram
from weft.sim.reports import NoReports
from weft.sim.simulation import Simulation
from weft.store.building import ghost_store, ghost_stores
from weft.strategies import AllReduce, AsyncGossip

STEP_S = 0.1
TIMES = RecoveryTimes(notice_s=0.05, start_s=0.2, rest_s=0.03)


class Drawn:
    """Kills at these moments of these workers; None: of the lowest that is there."""

    def __init__(self, *kills: tuple[float, int | None]) -> None:
        self._coming = list(kills)
        self._due: list[int | None] = []

    def next_s(self, now_s: float) -> float | None:
        if not self._coming:
            return None
        due_s, worker = self._coming.pop(0)
        self._due.append(worker)
        return due_s

    def victim(self, healthy: Sequence[int]) -> int | None:
        worker = self._due.pop(0)
        return healthy[0] if worker is None else worker if worker in healthy else None


def killed(
    draws: Drawn, num_workers: int = 3, num_steps: int = 20, num_cores: int | None = None, *, gossips: bool = False
) -> tuple[Kills, Facts]:
    strategy = AsyncGossip() if gossips else AllReduce()
    hosts = (0,) * num_workers
    world = World(strategy.roles(num_workers), (Bucket(1),), strategy.graph(num_workers), hosts)
    script = GhostProgram([8], num_steps)
    injection = FaultInjection(
        faults_of(TIMES),
        lambda node: ghost_store(strategy, world, node),
        lambda worker: (ghost_store(strategy, world, worker), script.again()),
        takes_newcomers=True,
    )
    simulation = Simulation(
        strategy,
        world,
        ghost_stores(strategy, world),
        [script.again() for _ in hosts],
        HostLinks(hosts, [Link(0.0, 1e12)], Link(0.0, 1e12)),
        PerSample([0.0] * num_workers, seconds_per_step=[STEP_S] * num_workers),
        NoReports(),
        num_cores=num_cores,
        liveness=injection.make_liveness,
        delivery=injection.make_delivery,
    )
    kills = Kills(simulation, injection, draws, TIMES.notice_s)
    return kills, simulation.run()


def test_a_killed_worker_is_noticed_started_anew_and_comes_in_at_a_rest() -> None:
    kills, facts = killed(Drawn((0.53, 1)))
    (loss,) = kills.losses
    assert (loss.worker, loss.step, loss.lost_s) == (1, 5, 0.53)
    # the others are told at 0.58; the new process asks to come in at 0.78; all rest before step 8, from 0.8 to 0.83
    assert loss.replaced_s == pytest.approx(0.83, abs=0.005)
    assert facts.virtual_s == pytest.approx(20 * STEP_S + 0.03, abs=0.01)
    assert facts.steps == [20, 17, 20], "steps 5 to 7 were made without it"
    assert facts.samples == 8 * (60 - 3)


def test_only_committed_steps_count_and_a_step_under_way_is_lost_with_its_worker() -> None:
    _, facts = killed(Drawn((0.59, 1)), num_steps=6)
    assert facts.steps == [6, 5, 6]


def test_the_cores_of_the_dead_are_free_for_the_others_until_the_new_process_needs_one() -> None:
    usual, without = (killed(draws, 2, 20, 1, gossips=True) for draws in (Drawn(), Drawn((1.0, 1))))
    assert usual[1].virtual_s == pytest.approx(4.0, abs=0.01)
    (loss,) = without[0].losses
    # alone for 0.05 s, then beside a process that needs 0.2 s of a core
    assert loss.replaced_s is not None
    assert loss.replaced_s - loss.lost_s == pytest.approx(0.05 + 2 * 0.2 + 0.03, abs=2 * STEP_S)
    assert without[1].virtual_s < usual[1].virtual_s


def test_a_worker_that_is_not_back_yet_cannot_be_killed_again() -> None:
    kills, _ = killed(Drawn((0.5, 1), (0.6, 1), (0.7, 2)))
    assert [loss.worker for loss in kills.losses] == [1, 2]
    assert kills.num_missed == 1


def test_the_last_worker_is_spared_until_others_are_back() -> None:
    kills, facts = killed(Drawn((0.5, 1), (0.55, None)), num_workers=2)
    first, second = kills.losses
    assert (first.worker, second.worker) == (1, 0)
    assert first.replaced_s is not None
    assert second.lost_s == pytest.approx(first.replaced_s, abs=0.02)
    assert second.replaced_s is not None
    assert facts.steps == [17, 17], "each was away for three of them"


def test_nobody_is_killed_when_a_script_has_ended_and_nobody_comes_then() -> None:
    kills, facts = killed(Drawn((1.95, 1), (2.5, 2)))
    (loss,) = kills.losses
    assert loss.replaced_s is None
    assert facts.finished_s[1] == pytest.approx(1.95)
    assert facts.virtual_s == pytest.approx(2.0, abs=0.06)

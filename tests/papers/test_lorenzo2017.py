"""Lorenzo et al. 2017, "Particle swarm optimization for hyper-parameter selection in deep neural networks"."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.simulated.populations import EPOCH_STEPS, HIGH, LOW, NUM_EPOCHS, live
from support.simulated.weather import FEW, SEEDS

from weft.core.actions import Combine, Send


@FEW
@given(num_workers=st.integers(2, 10), seed=SEEDS)
def test_particles_follow_only_one_that_has_seen_a_better_score_and_stay_within_the_ranges(
    num_workers: int, seed: int
) -> None:
    life = live(num_workers, seed, method="pso")
    best = life.told("best")
    assert life.taken("followed")
    for worker, source, epoch in life.taken("followed"):
        assert best[epoch][source] < best[epoch][worker]
        assert best[epoch][source] == min(best[epoch].values())
    rates = [rate for each in life.rates.values() for rate in each]
    assert min(rates) >= LOW
    assert max(rates) <= HIGH


def test_what_is_told_as_the_best_is_the_best_score_so_far() -> None:
    life = live(4, method="pso")
    badness, best = life.told("badness"), life.told("best")
    for epoch in range(NUM_EPOCHS):
        for worker in range(4):
            assert best[epoch][worker] == min(badness[e][worker] for e in range(epoch + 1))


def test_values_travel_and_parameters_do_not() -> None:
    life = live(5, method="pso")
    actions = [action for _, _, _, actions in life.ran.recording.entries for action in actions]
    assert {action.kind for action in actions if isinstance(action, Send)} == {"score", "ask", "position"}
    assert {action.into.bucket for action in actions if isinstance(action, Combine)} == {1}


def test_velocities_are_inertia_and_the_pulls_of_both_best_positions() -> None:
    """One dimension, followed by hand through the factors that peers drew."""
    life = live(3, method="pso", inertia=0.5, attraction=1.0)
    for worker in range(3):
        velocity, checked = 0.0, 0
        for epoch, moves in enumerate(_moves(life, worker)):
            if epoch + 1 == NUM_EPOCHS:
                break
            now, after = (life.rates[worker][(epoch + k) * EPOCH_STEPS] for k in (0, 1))
            (to_own, own), (to_leader, leader) = moves
            velocity = 0.5 * velocity + to_own * (own - now) + to_leader * (leader - now)
            assert after == pytest.approx(min(max(now + velocity, LOW), HIGH))
            checked += 1
        assert checked == NUM_EPOCHS - 1


def _moves(life: Any, worker: int) -> Any:
    """For each tournament: the pull to the own best position and to the leader's, and where those were."""
    best = life.told("best")
    pulls = [
        [action.scale for action in actions if isinstance(action, Combine) and action.into.slot.endswith("velocity")]
        for _, node, _, actions in life.ran.recording.entries
        if node == worker
    ]

    def position(who: int, epoch: int) -> float:
        since = min(e for e in range(epoch + 1) if best[e][who] == best[epoch][who])
        return life.rates[who][since * EPOCH_STEPS]

    for epoch, (to_own, to_leader, _) in enumerate(filter(None, pulls)):
        leader = min(best[epoch], key=lambda each: (best[epoch][each], each))
        yield (to_own, position(worker, epoch)), (to_leader, position(leader, epoch))

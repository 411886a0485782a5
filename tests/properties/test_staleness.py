"""The staleness bound holds in any weather, and the check of it catches a server that is off by one."""

from dataclasses import dataclass
from random import Random

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from support.oracles.measures import lead_max
from support.simulated.problems import nothing
from support.simulated.weather import MODERATE, SEEDS, storm

from weft.core.names import NodeId
from weft.core.peer import Peer
from weft.core.world import World
from weft.strategies import StaleSync
from weft.testing.worlds import simulate_arrays

STEPS = 9
WORLDS = {
    "num_workers": st.integers(1, 16),
    "staleness": st.integers(0, 5),
    "servers": st.integers(1, 3),
    "seed": SEEDS,
}


@dataclass(frozen=True)
class OffByOne(StaleSync):
    """Its servers answer a pull one step too early."""

    def peer(self, me: NodeId, world: World, rng: Random) -> Peer:
        assert self.staleness is not None
        return StaleSync(self.staleness + 1, self.servers).peer(me, world, rng)


def check_lead(strategy: StaleSync, num_workers: int, seed: int) -> None:
    """Run a world in a storm; nobody may lead by more than the staleness, and everybody comes to the end."""
    ran = simulate_arrays(strategy, num_workers, nothing, num_steps=STEPS, **storm(num_workers, seed))
    assert strategy.staleness is not None
    assert lead_max(ran.recording, ran.world) <= strategy.staleness
    assert ran.facts.steps == [STEPS] * num_workers


@pytest.mark.slow
@MODERATE
@given(**WORLDS)
def test_no_worker_is_ever_more_than_s_steps_ahead(num_workers: int, staleness: int, servers: int, seed: int) -> None:
    check_lead(StaleSync(staleness, servers), num_workers, seed)


@settings(parent=MODERATE, phases=[Phase.generate], report_multiple_bugs=False)
@given(**WORLDS)
def off_by_one(num_workers: int, staleness: int, servers: int, seed: int) -> None:
    check_lead(OffByOne(staleness, servers), num_workers, seed)


def test_a_server_that_answers_one_step_too_early_is_caught() -> None:
    with pytest.raises(AssertionError, match="lead_max"):
        off_by_one()


@MODERATE
@given(num_workers=st.integers(1, 16), seed=SEEDS)
def test_the_noted_staleness_is_within_the_bound(num_workers: int, seed: int) -> None:
    ran = simulate_arrays(StaleSync(2), num_workers, nothing, num_steps=STEPS, **storm(num_workers, seed))
    assert 0 <= ran.facts.staleness_mean <= ran.facts.staleness_max <= 2

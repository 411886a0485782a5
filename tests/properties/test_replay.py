"""A peer is a pure protocol: the recorded events, told to fresh peers, give the same actions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.simulated.problems import SIZES, LeastSquares
from support.simulated.weather import FEW, SEEDS, storm

from weft.config.registry import COLLECTIVES, STRATEGIES, lowered
from weft.core.actions import Compute
from weft.core.recorder import replay
from weft.core.strategy import Strategy
from weft.testing.worlds import Ran, simulate_arrays

pytestmark = pytest.mark.slow


def recorded(strategy: Strategy, num_workers: int, seed: int) -> Ran:
    problem = LeastSquares(SIZES[:num_workers], dim=2)
    return simulate_arrays(
        strategy,
        num_workers,
        problem.gradient,
        num_steps=9,
        samples=problem.sizes,
        starts=problem.starts(),
        epoch_steps=3,
        loss=lambda worker, step, w: problem.loss(w),
        **storm(num_workers, seed),
    )


@pytest.mark.parametrize("name", STRATEGIES)
@FEW
@given(num_workers=st.integers(1, 16), seed=SEEDS)
def test_recorded_events_give_the_same_actions_again(name: str, num_workers: int, seed: int) -> None:
    strategy = STRATEGIES[name]()
    ran = recorded(strategy, max(num_workers, 2 if strategy.tunes else 1), seed)
    assert replay(ran.recording, strategy, ran.world, seed) == []


@pytest.mark.parametrize("collective", COLLECTIVES)
@FEW
@given(num_workers=st.integers(1, 16), seed=SEEDS)
def test_lowered_reductions_replay_as_well(collective: str, num_workers: int, seed: int) -> None:
    strategy = lowered(STRATEGIES["allreduce"](), collective)
    ran = recorded(strategy, num_workers, seed)
    assert replay(ran.recording, strategy, ran.world, seed) == []


def test_an_action_that_differs_is_found() -> None:
    strategy = STRATEGIES["ssp"]()
    ran = recorded(strategy, 3, 0)
    now_ns, node, event, actions = ran.recording.entries[0]
    ran.recording.entries[0] = (now_ns, node, event, [*actions, Compute(99)])
    assert replay(ran.recording, strategy, ran.world, 0) == [
        f"entry 0: worker 0 answered {event} with {actions}, not {[*actions, Compute(99)]}"
    ]

"""Kills in simulated runs: what is refused, and who takes the place of the killed."""

from typing import Any

import pytest

import weft
from weft.config.chaos import KILL, NAN, STOP_PROCESS, ChaosPlan
from weft.core.errors import ConfigError
from weft.core.names import Bucket
from weft.core.strategy import Strategy
from weft.core.world import World
from weft.cost.recovery import RecoveryTimes
from weft.engines.simulated.chaos import DisturbedWorld, check_simulated_chaos
from weft.sim.program import BackwardDone, GhostProgram

PLAN = ChaosPlan(KILL, 0.5, 7)


@pytest.mark.parametrize(
    ("plan", "sharing", "traces", "message"),
    [
        (
            ChaosPlan(STOP_PROCESS, 0.5, 7),
            "static",
            False,
            "--chaos 'stop ...' cannot be simulated: in virtual time workers are killed only.\n"
            "  Use --chaos 'kill every 0.5s seed 7', or weft run.",
        ),
        (ChaosPlan(NAN, 0.5, 7), "static", False, "--chaos 'nan ...' cannot be simulated: in virtual time workers are"),
        (
            PLAN,
            "stealing",
            False,
            "--chaos and --share stealing do not go together: a newcomer would not know what was taken.\n"
            "  Use --share static.",
        ),
        (PLAN, "static", True, "--chaos cannot be traced in virtual time.\n  Leave out --set write.trace, or use weft"),
    ],
)
def test_what_kills_in_virtual_time_cannot_do_is_refused_by_name(
    plan: ChaosPlan, sharing: str, traces: bool, message: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        check_simulated_chaos(plan, sharing, traces=traces)
    assert str(refused.value).startswith(message)
    check_simulated_chaos(PLAN, "static", traces=False)


def disturbed(strategy: Strategy, programs: list[Any]) -> DisturbedWorld:
    world = World(strategy.roles(2), (Bucket(3),), strategy.graph(2), (0,) * sum(strategy.roles(2)))
    return DisturbedWorld(PLAN, RecoveryTimes(), strategy, world, programs)


def test_a_strategy_that_deals_portions_is_refused_as_on_real_workers() -> None:
    with pytest.raises(ConfigError) as refused:
        disturbed(weft.Sandblaster(), [])
    assert str(refused.value) == (
        "--chaos kills workers and replaces them, but this strategy replaces nobody (sandblaster deals out portions).\n"
        "  Use another strategy: `weft strategies` lists them."
    )


def test_a_newcomer_has_the_script_of_the_worker_that_it_replaces_and_empty_tensors() -> None:
    world = disturbed(weft.AllReduce(), [GhostProgram([4], 2), GhostProgram([9, 8], 2)])
    store, program = world._newcomer(1)
    program.begin_at(1)
    assert program.resume() == BackwardDone(8)
    assert store.num_bytes(weft.core.names.Buffer("params", 0)) == 12
    assert world.losses == []

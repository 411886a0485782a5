"""Scenarios are drawn from seeds."""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from weft.config.compression import codec
from weft.config.registry import STRATEGIES
from weft.config.registry import strategy as strategy_of
from weft.fuzz.coding import WIDTH
from weft.fuzz.scenario import draw, example
from weft.sim.faults.plan import KINDS, Crash, Partition, Pause, Slow

SEEDS = range(300)


def test_the_same_seed_draws_the_same_and_another_another() -> None:
    assert [draw(seed) for seed in range(50)] == [draw(seed) for seed in range(50)]
    assert len({draw(seed) for seed in range(50)}) == 50


def test_strategies_take_turns_and_every_kind_of_fault_comes() -> None:
    drawn = [draw(seed) for seed in SEEDS]
    names = Counter(scenario.strategy.partition("(")[0] for scenario in drawn)
    assert set(names) == set(STRATEGIES)
    assert max(names.values()) - min(names.values()) <= 1
    kinds = Counter(type(fault) for scenario in drawn for fault in scenario.faults.schedule)
    assert all(kinds[kind] >= 30 for kind in KINDS)


def test_somebody_is_always_left() -> None:
    for scenario in map(draw, SEEDS):
        lost = set()
        for fault in scenario.faults.schedule:
            lost |= set(fault.workers) if isinstance(fault, Partition) else set()
            lost |= {fault.worker} if isinstance(fault, Crash | Pause) else set()
        assert len(lost) < scenario.num_workers


def test_only_strategies_that_reduce_are_lowered() -> None:
    lowered = {s.strategy.partition("(")[0] for s in map(draw, SEEDS) if s.collective is not None}
    assert lowered
    assert lowered == {name for name, cls in STRATEGIES.items() if cls().reduces}


def test_a_codec_changes_nothing_else_of_a_world_but_a_wider_book() -> None:
    scenario = next(s for s in (draw(seed, ("ssp",)) for seed in SEEDS) if s.compress is not None)
    assert scenario.book.width == WIDTH
    plain = replace(scenario, compress=None)
    assert plain.book.width == 1
    assert scenario.recipe.inner == plain.recipe  # type: ignore[attr-defined]
    assert scenario.recipe.codecs()["push"] == codec(scenario.compress or "")


def test_one_strategy_by_name_or_call_is_drawn_alone() -> None:
    assert {draw(seed, ("ps",)).strategy for seed in range(30)} == {f"ps(servers={k})" for k in (1, 2, 3)}
    assert {draw(seed, ("ps(servers=2)",)).strategy for seed in range(9)} == {"ps(servers=2)"}


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_example_parameters_of_every_strategy_can_be_built(name: str) -> None:
    for seed in range(20):
        built = strategy_of(example(name, Random(seed)))
        drawn = STRATEGIES[name].example_parameters(Random(seed))
        assert type(built) is STRATEGIES[name]
        assert {parameter: getattr(built, parameter) for parameter in drawn} == drawn


def test_one_that_is_named_with_parameters_has_those() -> None:
    assert example("ps(servers=2)", Random(0)) == "ps(servers=2)"
    assert example("hogwild", Random(0)) == "hogwild"


def test_the_bound_leaves_time_for_all_faults_and_slow_steps() -> None:
    scenario = next(s for s in map(draw, SEEDS) if any(isinstance(f, Slow) for f in s.faults.schedule))
    slow = next(fault for fault in scenario.faults.schedule if isinstance(fault, Slow))
    assert scenario.bound_s > scenario.faults.over_s + scenario.num_steps * max(scenario.step_s) * slow.factor


def test_portions_are_handed_out_in_most_scenarios_of_a_strategy_that_deals_them() -> None:
    drawn = [draw(seed, ("sandblaster",)) for seed in range(60)]
    dealt = [scenario for scenario in drawn if scenario.num_portions is not None]
    assert 30 < len(dealt) < 60
    assert all(scenario.num_portions == scenario.epoch_steps for scenario in dealt)
    assert all(draw(seed, ("ps",)).num_portions is None for seed in range(20))

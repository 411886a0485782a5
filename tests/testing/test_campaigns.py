"""Strategies that are not registered are fuzzed by the name of their class."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from weft.config.registry import STRATEGIES
from weft.core.invariants import Codecs, Invariant, holds
from weft.core.world import World
from weft.strategies import LocalSGD
from weft.testing.campaigns import fuzz, story


@dataclass(frozen=True)
class Boaster(LocalSGD):
    """Promises that replicas are equal after every step, and averages every third."""

    period: int = 3

    def invariants(self, world: World) -> tuple[Invariant, ...]:
        return (holds("equality.replicas_are_equal", Codecs.ANY, period=1),)

    @classmethod
    def example_parameters(cls, rng: Random) -> Mapping[str, object]:
        return {}


def test_who_keeps_its_promises_is_not_found() -> None:
    assert fuzz(LocalSGD, range(4)) == []


def test_who_breaks_a_promise_is_found_with_its_seed_and_nothing_stays_registered() -> None:
    before = dict(STRATEGIES)
    found = fuzz(Boaster, range(3))
    assert [(verdict.seed, verdict.strategy) for verdict in found] == [(seed, "Boaster") for seed in range(3)]
    assert {violation.invariant for verdict in found for violation in verdict.violations} == {4}
    assert before == STRATEGIES


def test_the_story_is_of_the_smallest_world_that_breaks_the_promise() -> None:
    first, *_, last = story(Boaster, 0).splitlines()
    assert first.startswith("seed 0: Boaster")
    assert first.endswith(" 2 steps")
    assert last.startswith("invariant 4 is broken: ")


def test_the_story_of_a_world_in_which_all_went_well_is_told_whole() -> None:
    assert "is broken" not in story(LocalSGD, 0)

"""The recipe of a population: what it wants, and what it refuses."""

from random import Random
from typing import Any

import pytest

from weft.core.errors import ConfigError
from weft.core.names import Bucket, Carries, Result, Role, Roles, Slot
from weft.core.world import World
from weft.strategies import Population
from weft.strategies.parts.exploit_explore import AgingPeer, TruncatingPeer
from weft.strategies.parts.particle_swarm import SwarmPeer
from weft.testing.peers import ONE, TWO

TUNED = Bucket(2, 8, trainable=False, tuned=True)


def refusal(**options: Any) -> str:
    with pytest.raises(ConfigError) as refused:
        Population(**options)
    return str(refused.value)


def test_its_result_is_the_best_by_scores_of_each_workers_own_replica() -> None:
    strategy = Population(score="accuracy")
    assert strategy.result is Result.BEST
    assert strategy.scored
    assert strategy.score == "accuracy"
    assert strategy.tunes
    assert not strategy.keeps_replicas_equal
    assert not strategy.allows_closures


@pytest.mark.parametrize(("method", "peer"), [("pbt", TruncatingPeer), ("evolution", AgingPeer), ("pso", SwarmPeer)])
def test_each_method_has_its_peer_and_what_it_needs(method: str, peer: type) -> None:
    strategy = Population(method=method)
    world = World(strategy.roles(3), (*TWO, TUNED))
    assert type(strategy.peer(1, world, Random(0))) is peer
    sent = "position" if method == "pso" else "copy"
    said = dict.fromkeys(("score", "ask", "introduce"), Carries.NOTHING)
    assert strategy.kinds() == {**said, sent: Carries.STATE}
    slots = {Slot("population.personal"), Slot("population.leader"), Slot("population.velocity")}
    kept = {Slot("population.even"), Slot("population.odd")}
    assert set(strategy.slots(Role.WORKER, world)) == (slots if method == "pso" else kept)


def test_one_worker_has_nobody_to_learn_from() -> None:
    assert Population().roles(2) == Roles(2)
    with pytest.raises(ConfigError) as refused:
        Population().roles(1)
    assert str(refused.value) == (
        "a population of 1 worker has nobody to learn from.\n"
        "  Use -n 2 or more; to train alone, leave the strategy out."
    )


def test_a_script_that_declares_nothing_to_tune_is_refused() -> None:
    with pytest.raises(ConfigError) as refused:
        Population().peer(0, World(Roles(2), ONE), Random(0))
    assert str(refused.value) == (
        "a population needs hyper-parameters to change, but the script declares none.\n"
        "  Write e.g. worker.tune(lr=(1e-4, 1e-1)) after weft.join."
    )


def test_methods_that_are_not_known_are_refused() -> None:
    assert refusal(method="evolve") == "method 'evolve' is not known.\n  Did you mean 'evolution'?"


@pytest.mark.parametrize(
    ("name", "values", "words", "write"),
    [
        ("period", (0, -1), "counts epochs, 1 or more", "1"),
        ("fraction", (0.0, 0.6), "is a share of the workers, above 0 and at most 0.5", "0.2"),
        ("sample", (0,), "counts workers, 1 or more", "3"),
        ("perturb", (0.0, 1.0), "is a share of a value, between 0 and 1", "0.2"),
        ("spread", (1.0, 0.5, float("inf")), "is a factor above 1", "3.0"),
        ("inertia", (-0.1, 1.0), "is from 0 to below 1", "0.73"),
        ("attraction", (0.0, float("nan")), "is above 0", "1.5"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(
    name: str, values: tuple[float, ...], words: str, write: str
) -> None:
    for value in values:
        assert refusal(**{name: value}) == f"{name} is {value}, but it {words}.\n  Use 'population({name}={write})'."

"""What every registered strategy must do, for every number of workers: a new one is tested once it has a name."""

import json
import pickle
import re
from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest
from support.simulated.problems import SIZES, LeastSquares
from support.simulated.recipes import recipe
from support.simulated.weather import storm

from weft.config.registry import STRATEGIES
from weft.core.actions import Reduce, Send
from weft.core.errors import ConfigError
from weft.core.peer import Peer
from weft.core.recorder import node_rng, replay
from weft.core.rules import SGD
from weft.core.strategy import Strategy
from weft.testing.worlds import Ran, simulate_arrays, taking

NUM_WORKERS = (1, 2, 3, 5, 7)
STEPS = 12
OF_SEVERAL = ("population",)
"""Strategies that one worker alone cannot follow."""


def run(strategy: Strategy, num_workers: int, seed: int) -> Ran:
    """Three epochs of least squares with unequal batches."""
    problem = LeastSquares(SIZES[:num_workers])
    return simulate_arrays(
        strategy,
        num_workers,
        problem.gradient,
        num_steps=STEPS,
        samples=problem.sizes,
        starts=problem.starts(),
        rule=SGD(0.1),
        epoch_steps=4,
        loss=lambda worker, step, w: problem.loss(w),
        **storm(num_workers, seed),
    )


@cache
def ran_once(name: str, num_workers: int) -> Ran:
    return run(recipe(name), num_workers, seed=5)


every_strategy = pytest.mark.parametrize("name", STRATEGIES)
every_size = pytest.mark.parametrize("num_workers", NUM_WORKERS)
every_case = pytest.mark.parametrize(
    ("name", "num_workers"), [(name, n) for name in STRATEGIES for n in NUM_WORKERS if n > 1 or name not in OF_SEVERAL]
)


@pytest.mark.parametrize("name", OF_SEVERAL)
def test_one_worker_alone_is_refused_where_it_makes_no_sense(name: str) -> None:
    with pytest.raises(ConfigError, match="of 1 worker"):
        recipe(name).check(1)


@every_case
def test_it_runs_to_the_end(name: str, num_workers: int) -> None:
    facts = ran_once(name, num_workers).facts
    assert facts.steps == [STEPS] * num_workers
    assert all(facts.finished_s)
    assert len(facts.reports) == 3


@every_case
def test_it_learns(name: str, num_workers: int) -> None:
    problem = LeastSquares(SIZES[:num_workers])
    losses = [problem.loss(model[0]) for model in ran_once(name, num_workers).members]
    assert sum(losses) / len(losses) < 0.6 * problem.loss(problem.start)


@every_case
def test_the_same_seed_gives_the_same_trace_and_parameters(name: str, num_workers: int) -> None:
    once, again = ran_once(name, num_workers), run(recipe(name), num_workers, seed=5)
    assert again.recording.hexdigest() == once.recording.hexdigest()
    assert all(np.array_equal(a[0], b[0]) for a, b in zip(again.params, once.params, strict=True))


@every_strategy
def test_another_seed_gives_another_trace(name: str) -> None:
    other = run(recipe(name), 3, seed=6)
    assert other.recording.hexdigest() != ran_once(name, 3).recording.hexdigest()


@every_case
def test_recorded_events_replay(name: str, num_workers: int) -> None:
    ran = ran_once(name, num_workers)
    assert replay(ran.recording, recipe(name), ran.world, seed=5) == []


@every_strategy
def test_it_pickles_and_compares_equal(name: str) -> None:
    strategy = STRATEGIES[name]()
    again = pickle.loads(pickle.dumps(strategy))
    assert again == strategy == STRATEGIES[name]()
    assert hash(again) == hash(strategy)


@every_strategy
def test_it_differs_from_every_other(name: str) -> None:
    assert [other for other in STRATEGIES if STRATEGIES[other]() == STRATEGIES[name]()] == [name]


def every_moment(name: str, num_workers: int) -> Iterator[Peer]:
    """Each peer after each of its events, on the way through the recorded run."""
    return every_moment_of(name, ran_once(name, num_workers))


def every_moment_of(name: str, ran: Ran) -> Iterator[Peer]:
    peers = [recipe(name).peer(node, ran.world, node_rng(5, node)) for node in range(ran.world.num_nodes)]
    for now_ns, node, event, _ in ran.recording.entries:
        peers[node].handle(event, now_ns / 1e9)
        yield peers[node]


@every_case
def test_snapshots_are_plain_at_every_moment(name: str, num_workers: int) -> None:
    snapshots = [peer.snapshot() for peer in every_moment(name, num_workers)]
    assert json.loads(json.dumps(snapshots)) == snapshots


@every_case
def test_it_says_at_every_moment_what_it_waits_for(name: str, num_workers: int) -> None:
    sentences = {peer.waiting_for() for peer in every_moment(name, num_workers)}
    assert sentences
    assert [text for text in sentences if not re.fullmatch(r"[^\s].*[^\s,]", text)] == []


@every_case
def test_every_kind_that_it_sends_or_reduces_is_declared(name: str, num_workers: int) -> None:
    entries = ran_once(name, num_workers).recording.entries
    spoken = {action.kind for _, _, _, actions in entries for action in actions if isinstance(action, Send | Reduce)}
    assert spoken <= set(recipe(name).kinds())


@every_strategy
def test_a_gradient_of_no_samples_counts_for_nothing_even_if_it_is_not_a_number(name: str) -> None:
    """A worker whose batch was empty weighs 0 (rule 9 of docs/architecture.md), and its gradient is often NaN."""

    def gradient(worker: int, step: int, w: np.ndarray) -> np.ndarray:
        return np.full_like(w, np.nan) if worker == 2 else w - 1.0

    ran = simulate_arrays(recipe(name), 3, gradient, num_steps=20, samples=[2.0, 2.0, 0.0], epoch_steps=10)
    assert all(np.isfinite(bucket).all() for params in ran.params for bucket in params)
    assert 0.5 < sum(model[0][0] for model in ran.members) / len(ran.members) <= 1.0


DEALING = [name for name in STRATEGIES if recipe(name).deals_portions]
PORTIONS, EPOCHS = np.split(np.arange(64), 16), 4


def dealt(name: str, num_workers: int, seed: int = 5) -> Ran:
    """Epochs of least squares whose portions are handed out, rather than batches of each worker's own."""
    problem = LeastSquares([4])
    script = taking(lambda portion, w: problem.mean_gradient(PORTIONS[portion], w), [4.0] * len(PORTIONS), EPOCHS)
    starts = [problem.start] * num_workers
    return simulate_arrays(
        recipe(name), num_workers, starts=starts, script=script, rule=SGD(0.1), **storm(num_workers, seed)
    )


@pytest.mark.parametrize("name", DEALING)
@pytest.mark.parametrize("num_workers", NUM_WORKERS)
def test_portions_that_are_handed_out_are_all_computed_and_learnt_from(name: str, num_workers: int) -> None:
    problem = LeastSquares([4])
    ran = dealt(name, num_workers)
    assert sum(ran.facts.steps) >= EPOCHS * len(PORTIONS)
    assert len(ran.facts.reports) == EPOCHS
    assert problem.loss(ran.result[0]) < 0.6 * problem.loss(problem.start)


@pytest.mark.parametrize("name", DEALING)
@pytest.mark.parametrize("num_workers", NUM_WORKERS)
def test_handing_out_portions_repeats_replays_and_is_plain_at_every_moment(name: str, num_workers: int) -> None:
    ran = dealt(name, num_workers)
    assert dealt(name, num_workers).recording.hexdigest() == ran.recording.hexdigest()
    assert replay(ran.recording, recipe(name), ran.world, seed=5) == []
    for peer in every_moment_of(name, ran):
        snapshot = peer.snapshot()
        assert json.loads(json.dumps(snapshot)) == snapshot
        assert re.fullmatch(r"[^\s].*[^\s,]", peer.waiting_for())

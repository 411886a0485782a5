"""What every registered collective must do: any strategy that reduces runs over it with the same outcome."""

import pickle
from functools import cache
from typing import Any

import numpy as np
import pytest
from support.simulated.problems import SIZES, LeastSquares, relative
from support.simulated.recipes import recipe
from support.simulated.weather import storm

from weft.config.registry import COLLECTIVES, STRATEGIES, lowered
from weft.core.actions import Reduce, Send
from weft.core.recorder import replay
from weft.core.rules import Momentum
from weft.core.strategy import Strategy
from weft.testing.worlds import Ran, simulate_arrays

STEPS = 9


def run(strategy: Strategy, num_workers: int, **weather: Any) -> Ran:
    problem = LeastSquares(SIZES[:num_workers])
    return simulate_arrays(
        strategy,
        num_workers,
        problem.gradient,
        num_steps=STEPS,
        samples=problem.sizes,
        starts=problem.starts(),
        rule=Momentum(0.05),
        **weather,
    )


@cache
def natively(name: str, num_workers: int) -> Ran:
    return run(recipe(name), num_workers)


def num_reduces(ran: Ran) -> int:
    return sum(isinstance(action, Reduce) for _, _, _, actions in ran.recording.entries for action in actions)


REDUCING = [name for name in STRATEGIES if num_reduces(natively(name, 2))]

every_collective = pytest.mark.parametrize("collective", COLLECTIVES)
every_size = pytest.mark.parametrize("num_workers", [1, 2, 3, 4, 5, 7, 8])


def test_some_strategies_reduce() -> None:
    assert {"allreduce", "local_sgd", "diloco", "bmuf", "slowmo"} <= set(REDUCING) < set(STRATEGIES)


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_strategy_says_of_itself_whether_it_reduces(name: str) -> None:
    assert recipe(name).reduces == (name in REDUCING)


@every_collective
@every_size
@pytest.mark.parametrize("name", REDUCING)
def test_lowered_reductions_give_the_same_parameters(name: str, num_workers: int, collective: str) -> None:
    ran = run(lowered(recipe(name), collective), num_workers, **storm(num_workers, 3))
    native = natively(name, num_workers)
    assert num_reduces(ran) == 0
    assert all(relative(a[0], b[0]) < 1e-12 for a, b in zip(ran.params, native.params, strict=True))


@every_collective
@every_size
@pytest.mark.parametrize("per_host", [1, 2, 5])
def test_all_workers_get_the_same_bits_wherever_they_sit(num_workers: int, collective: str, per_host: int) -> None:
    hosts = tuple(worker // per_host for worker in range(num_workers))
    ran = run(lowered(recipe("allreduce"), collective), num_workers, hosts=hosts, **storm(num_workers, 4))
    assert relative(ran.params[0][0], natively("allreduce", num_workers).params[0][0]) < 1e-12
    assert all(np.array_equal(params[0], ran.params[0][0]) for params in ran.params)


@every_collective
@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_runs_replays_and_declares_its_kinds_over_it(name: str, collective: str) -> None:
    strategy = lowered(recipe(name), collective)
    ran = run(strategy, 3, **storm(3, 2))
    spoken = {action.kind for *_, actions in ran.recording.entries for action in actions if isinstance(action, Send)}
    assert ran.facts.steps == [STEPS] * 3
    assert spoken <= set(strategy.kinds())
    assert replay(ran.recording, strategy, ran.world, seed=2) == []
    assert pickle.loads(pickle.dumps(strategy)) == strategy


@every_collective
def test_one_worker_alone_sends_nothing(collective: str) -> None:
    assert run(lowered(recipe("allreduce"), collective), 1).facts.bytes_sent == 0

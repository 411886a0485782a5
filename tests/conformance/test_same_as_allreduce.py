"""Methods that are synchronous SGD in disguise end with the parameters of all-reduce, to 1e-9 after 200 steps."""

from functools import cache
from typing import Any

import pytest
from support.simulated.problems import SIZES, LeastSquares, relative
from support.simulated.weather import storm

from weft.config.registry import strategy
from weft.core.rules import SGD, Momentum, Rule
from weft.testing.worlds import Ran, simulate_arrays

PLAIN, MOMENTUM = SGD(0.1), Momentum(0.05, momentum=0.9)
DISGUISES = (
    ("ssp(staleness=0)", MOMENTUM),
    ("ps(servers=2)", MOMENTUM),
    ("quorum(fraction=1.0, patience=1e9)", MOMENTUM),
    ("local_sgd(period=1)", MOMENTUM),
    ("gossip(topology=complete, order=step_first)", MOMENTUM),
    ("neighbours(topology=complete)", PLAIN),
    ("ssp(staleness=0)", PLAIN),
    ("local_sgd(period=1)", PLAIN),
    ("gossip(topology=complete, order=step_first)", PLAIN),
)


def run(text: str, num_workers: int, rule: Rule, **weather: Any) -> Ran:
    """Unequal batches, each worker's the same in every step."""
    problem = LeastSquares(SIZES[:num_workers])
    return simulate_arrays(
        strategy(text),
        num_workers,
        problem.gradient,
        num_steps=200,
        samples=problem.sizes,
        starts=problem.starts(),
        rule=rule,
        **weather,
    )


@cache
def reduced(num_workers: int, is_plain: bool) -> Ran:
    return run("allreduce", num_workers, PLAIN if is_plain else MOMENTUM)


@pytest.mark.parametrize("num_workers", [2, 5])
@pytest.mark.parametrize(("text", "rule"), DISGUISES)
def test_it_ends_with_the_parameters_of_all_reduce(text: str, rule: Rule, num_workers: int) -> None:
    expected = reduced(num_workers, rule is PLAIN).result[0]
    ran = run(text, num_workers, rule, **storm(num_workers, 0))
    assert relative(ran.result[0], expected) < 1e-9
    assert all(relative(params[0], expected) < 1e-9 for params in ran.params[:num_workers])


def test_what_is_not_in_disguise_differs() -> None:
    expected = reduced(5, is_plain=True).result[0]
    for text in ("ssp(staleness=1)", "local_sgd(period=2)", "gossip(topology=ring)", "neighbours(topology=ring)"):
        assert relative(run(text, 5, PLAIN).params[0][0], expected) > 1e-4

"""Ho et al. 2013, "More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server"."""

from typing import Any

import numpy as np
import pytest
from support.oracles.measures import lead_max, leads
from support.simulated.problems import SIZES, LeastSquares, relative
from support.simulated.weather import storm

from weft.core.rules import SGD, AdaGrad, Adam, Momentum, Rule
from weft.sim.compute import Trace
from weft.strategies import AllReduce, ParameterServer, StaleSync
from weft.testing.worlds import Arrays, simulate_arrays

STRAGGLER = Trace([[1.0], [1.0], [20.0]])


@pytest.mark.parametrize("staleness", [0, 1, 3, 7])
def test_the_fastest_worker_is_never_more_than_s_steps_ahead_of_the_slowest(staleness: int) -> None:
    ran = simulate_arrays(StaleSync(staleness), 3, num_steps=30, compute=STRAGGLER)
    assert lead_max(ran.recording, ran.world) == staleness
    assert ran.facts.steps == [30, 30, 30]


def test_without_a_bound_nobody_waits() -> None:
    ran = simulate_arrays(StaleSync(None), 3, num_steps=15, compute=STRAGGLER)
    assert max(leads(ran.recording, ran.world)) == 15


def test_a_straggler_delays_the_others_less_the_more_staleness_is_allowed() -> None:
    jitter = Trace([[1.0, 1.0, 3.0], [3.0, 1.0, 1.0], [1.0, 3.0, 1.0]])
    virtual_s = [
        simulate_arrays(StaleSync(staleness), 3, num_steps=30, compute=jitter).facts.virtual_s
        for staleness in (0, 1, 2)
    ]
    assert virtual_s == sorted(virtual_s, reverse=True)
    assert virtual_s[2] < 0.6 * virtual_s[0]


def test_a_worker_reads_its_own_writes() -> None:
    seen: list[float] = []

    def count(worker: int, step: int, w: Arrays) -> Arrays:
        if worker == 0:
            seen.append(float(np.asarray(w)[0]))
        return -np.ones(1)

    simulate_arrays(StaleSync(5), 3, count, num_steps=6, rule=SGD(3.0), compute=Trace([[1.0], [9.0], [9.0]]))
    assert seen[:6] == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


@pytest.mark.parametrize("rule", [SGD(0.1), Momentum(0.05), Adam(0.05), AdaGrad(0.3)], ids=repr)
@pytest.mark.parametrize("weather", [0, 1])
def test_staleness_0_equals_all_reduce_for_every_element_wise_optimizer(rule: Rule, weather: int) -> None:
    problem = LeastSquares(SIZES[:5])
    options: dict[str, Any] = {"num_steps": 40, "samples": problem.sizes, "starts": problem.starts(), "rule": rule}
    reduced = simulate_arrays(AllReduce(), 5, problem.gradient, **options)
    served = simulate_arrays(ParameterServer(), 5, problem.gradient, **options, **storm(5, weather))
    assert all(relative(params[0], reduced.result[0]) < 1e-9 for params in served.params)


def test_shards_over_servers_change_nothing() -> None:
    problem = LeastSquares(SIZES[:3])

    def both(worker: int, step: int, named: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {name: problem.gradient(worker, step, w.astype(np.float64)) for name, w in named.items()}

    starts = [{"v": problem.start, "w": problem.start.astype(np.float32)}] * 3
    options: dict[str, Any] = {"num_steps": 40, "samples": problem.sizes, "starts": starts, "rule": Adam(0.05)}
    reduced = simulate_arrays(AllReduce(), 3, both, **options)
    served = simulate_arrays(ParameterServer(servers=2), 3, both, **options, **storm(3, 0))
    assert [array.dtype for array in reduced.result] == [np.float32, np.float64]
    assert relative(served.result[0], reduced.result[0]) < 1e-4
    assert relative(served.result[1], reduced.result[1]) < 1e-9


@pytest.mark.parametrize("staleness", [1, 4, None])
def test_it_converges_with_stale_parameters(staleness: int | None) -> None:
    problem = LeastSquares(SIZES[:4])
    ran = simulate_arrays(
        StaleSync(staleness),
        4,
        problem.gradient,
        num_steps=200,
        samples=problem.sizes,
        starts=problem.starts(),
        rule=SGD(0.1),
        **storm(4, 5),
    )
    assert problem.loss(ran.result[0]) < 0.02 * problem.loss(problem.start)

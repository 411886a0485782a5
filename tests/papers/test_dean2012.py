"""Dean et al. 2012, "Large Scale Distributed Deep Networks", sections 4.1, Downpour SGD, and 4.2, Sandblaster."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.scripts.training_scripts import simulated, write
from support.simulated.problems import SIZES, LeastSquares, relative
from support.simulated.weather import storm

from weft.core.rules import SGD, AdaGrad, Adam, Momentum, Rule
from weft.sim.compute import PerSample, Trace
from weft.strategies import AllReduce, Downpour, Sandblaster
from weft.testing.worlds import Arrays, Ran, simulate_arrays, taking


@pytest.mark.parametrize("rule", [SGD(0.1), Momentum(0.05), Adam(0.05)], ids=repr)
def test_push_and_fetch_of_1_with_one_worker_equal_sgd(rule: Rule) -> None:
    problem = LeastSquares([4])
    options: dict[str, Any] = {"num_steps": 200, "samples": 4.0, "starts": problem.starts(), "rule": rule}
    alone = simulate_arrays(AllReduce(), 1, problem.gradient, **options)
    served = simulate_arrays(Downpour(push=1, fetch=1), 1, problem.gradient, **options, **storm(1, 0))
    assert relative(served.result[0], alone.result[0]) < 1e-9
    assert np.array_equal(served.params[0][0], served.result[0])


def test_a_worker_never_waits_for_another() -> None:
    recipe = Downpour(push=2, fetch=3)
    hosts = (0, 1, 2, 3)
    alone = simulate_arrays(recipe, 1, num_steps=30, compute=Trace([[1.0]]), hosts=(0, 1))
    asleep = Trace([[1.0], [1e4], [1e5]])
    among_sleepers = simulate_arrays(recipe, 3, num_steps=30, compute=asleep, hosts=hosts)
    assert among_sleepers.facts.finished_s[0] == alone.facts.finished_s[0]


def test_a_worker_waits_for_its_own_fetch_only_when_it_fetches() -> None:
    never = simulate_arrays(Downpour(push=1, fetch=100), 1, num_steps=30, compute=Trace([[1.0]]), hosts=(0, 1))
    assert never.facts.finished_s[0] == pytest.approx(30.0, abs=1e-12)
    always = simulate_arrays(Downpour(push=1, fetch=1), 1, num_steps=30, compute=Trace([[1.0]]), hosts=(0, 1))
    there_and_back_s = 30 * 2 * 1e-3
    assert always.facts.finished_s[0] > 30.0 + there_and_back_s


def test_a_push_carries_the_sum_of_the_gradients_since_the_last() -> None:
    updates = np.arange(1.0, 7.0)
    ran = simulate_arrays(
        Downpour(push=3, fetch=3), 1, lambda worker, step, w: updates[[step]], num_steps=6, rule=SGD(0.5)
    )
    assert ran.result[0] == pytest.approx([-0.5 * updates.sum()])
    assert ran.params[0][0] == pytest.approx(ran.result[0])


def test_gradients_that_were_not_pushed_never_reach_the_servers() -> None:
    ran = simulate_arrays(Downpour(push=4, fetch=4), 1, lambda worker, step, w: np.ones(1), num_steps=6, rule=SGD(0.5))
    assert ran.result[0] == pytest.approx([-2.0])
    assert ran.params[0][0] == pytest.approx([-3.0])


def test_adagrad_runs_at_the_server_with_a_rate_of_its_own() -> None:
    problem = LeastSquares([4])
    recipe = Downpour(server=AdaGrad(0.3))
    ran = simulate_arrays(
        recipe, 1, problem.gradient, num_steps=50, samples=4.0, starts=problem.starts(), rule=SGD(0.01)
    )
    w, squares = problem.start.copy(), np.zeros(5)
    for step in range(50):
        g = problem.gradient(0, step, w)
        squares += g * g
        w -= 0.3 * g / (np.sqrt(squares) + 1e-10)
    assert relative(ran.result[0], w) < 1e-12


def test_each_shard_keeps_the_adagrad_state_of_its_own_bucket() -> None:
    updates = {"v": np.array([1.0, 4.0]), "w": np.array([2.0, 0.5], np.float32)}

    def gradient(worker: int, step: int, named: object) -> dict[str, np.ndarray]:
        return {name: update[[step]] for name, update in updates.items()}

    starts: list[Arrays] = [{"v": np.zeros(1), "w": np.zeros(1, np.float32)}]
    recipe = Downpour(servers=2, server=AdaGrad(1.0))
    ran = simulate_arrays(recipe, 1, gradient, num_steps=2, starts=starts)
    single, double = (float(array[0]) for array in ran.result)
    assert double == pytest.approx(-1.0 - 4.0 / np.sqrt(17.0))
    assert single == pytest.approx(-1.0 - 0.5 / np.sqrt(4.25), rel=1e-6)


@pytest.mark.parametrize("server", [None, AdaGrad(0.6)], ids=repr)
def test_many_workers_converge_whatever_the_delays(server: Rule | None) -> None:
    problem = LeastSquares(SIZES[:6])
    ran = simulate_arrays(
        Downpour(push=2, fetch=3, servers=2, server=server),
        6,
        problem.gradient,
        num_steps=200,
        samples=problem.sizes,
        starts=problem.starts(),
        rule=SGD(0.05),
        **storm(6, 2),
    )
    assert problem.loss(ran.result[0]) < 0.05 * problem.loss(problem.start)


PORTION_ROWS = np.split(np.arange(64), [3, 10, 12, 20, 31, 33, 40, 47, 55])
"""Ten unequal portions of the 64 rows."""
PASSES = 7
ONE_IS_SLOW = PerSample([4e-2, 1e-2, 1e-2, 1e-2])


def sandblasted(recipe: Sandblaster, num_workers: int = 4, **options: Any) -> Ran:
    """Full-batch least squares, handed out in portions."""
    problem = LeastSquares([1])
    script = taking(
        lambda portion, w: problem.mean_gradient(PORTION_ROWS[portion], w),
        [float(len(rows)) for rows in PORTION_ROWS],
        PASSES,
    )
    return simulate_arrays(recipe, num_workers, starts=[problem.start] * num_workers, script=script, **options)


def lbfgs_by_hand(lr: float, history: int) -> np.ndarray:
    """The same by one process, with the inverse of the curvature as a matrix."""
    problem = LeastSquares([1])
    w = problem.start.copy()
    pairs: list[Any] = []
    before: tuple[np.ndarray, np.ndarray] | None = None
    for _ in range(PASSES):
        g = problem.mean_gradient(np.arange(64), w)
        length = lr if before is not None else lr * min(1.0, 1.0 / np.abs(g).sum())
        if before is not None:
            s, y = before[0], g - before[1]
            if y @ s > 1e-10:
                pairs = [*pairs, (s, y)][-history:]
        inverse = np.eye(5)
        if pairs:
            s, y = pairs[-1]
            inverse *= (y @ s) / (y @ y)
        for s, y in pairs:
            turn = np.eye(5) - np.outer(s, y) / (y @ s)
            inverse = turn @ inverse @ turn.T + np.outer(s, s) / (y @ s)
        step = -length * inverse @ g
        w, before = w + step, (step, g)
    return w


@pytest.mark.parametrize(("lr", "history"), [(1.0, 10), (0.6, 3)])
@pytest.mark.parametrize("backups", [True, False])
def test_sandblaster_equals_lbfgs_of_one_process_whatever_the_delays(lr: float, history: int, backups: bool) -> None:
    recipe = Sandblaster(lr, history, backups)
    ran = sandblasted(recipe, num_workers=5, **storm(5, 1))
    assert relative(ran.result[0], lbfgs_by_hand(lr, history)) < 1e-9
    assert all(np.array_equal(params[0], ran.result[0]) for params in ran.params)


def test_the_same_while_one_worker_is_four_times_slower_and_takes_fewer_portions() -> None:
    ran = sandblasted(Sandblaster(), compute=ONE_IS_SLOW)
    assert relative(ran.result[0], lbfgs_by_hand(1.0, 10)) < 1e-9
    slow, *others = ran.facts.steps
    assert slow < 0.6 * min(others)
    assert sum(ran.facts.steps) >= PASSES * len(PORTION_ROWS)


def test_a_worker_that_hardly_moves_does_not_hold_up_the_others_because_its_portion_is_given_twice() -> None:
    asleep = PerSample([100.0, 1e-2, 1e-2, 1e-2])
    with_copies = sandblasted(Sandblaster(), compute=asleep).facts
    assert max(with_copies.finished_s[1:]) < 5.0
    assert with_copies.steps[0] == 1
    without = sandblasted(Sandblaster(backups=False), compute=asleep).facts
    assert min(without.finished_s) > PASSES * 100.0
    assert sum(without.steps) == PASSES * len(PORTION_ROWS), "each portion is computed once"


def test_only_the_last_portions_of_a_pass_are_computed_twice() -> None:
    facts = sandblasted(Sandblaster(), compute=ONE_IS_SLOW).facts
    copies = sum(facts.steps) - PASSES * len(PORTION_ROWS)
    assert 0 < copies < PASSES * 3


SCRIPT = """
import sys
import torch
import weft
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x, y = torch.randn(26, 4, dtype=torch.float64), torch.randint(0, 3, (26,))
hidden = torch.nn.Linear(4, 8, dtype=torch.float64)
model = torch.nn.Sequential(hidden, torch.nn.Tanh(), torch.nn.Linear(8, 3, dtype=torch.float64))
optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
worker = weft.join(model, optimizer)
for epoch in worker.epochs(15):
    for inputs, labels in worker.share(DataLoader(TensorDataset(x, y), batch_size=3, shuffle=True)):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
"""


def test_a_torch_script_ends_with_the_parameters_of_torchs_own_lbfgs(tmp_path: Path) -> None:
    outcome = simulated(write(tmp_path, SCRIPT), 4, "sandblaster(lr=0.8, history=5)", cluster="edge")
    torch.manual_seed(0)
    x, y = torch.randn(26, 4, dtype=torch.float64), torch.randint(0, 3, (26,))
    hidden = torch.nn.Linear(4, 8, dtype=torch.float64)
    model = torch.nn.Sequential(hidden, torch.nn.Tanh(), torch.nn.Linear(8, 3, dtype=torch.float64))
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.8, max_iter=1, history_size=5)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        return loss

    start = closure().item()
    for _ in range(15):
        optimizer.step(closure)
    assert closure().item() < 0.5 * start
    theirs = outcome.replicas[0].model
    for expected, parameter in zip(model.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(parameter, expected, rtol=1e-6, atol=1e-6)

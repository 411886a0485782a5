"""Small simulated worlds: all that was run can be looked at."""

import numpy as np
import pytest

from weft.core.events import EpochFinished
from weft.core.rules import SGD
from weft.strategies import AllReduce, Ensemble, ParameterServer, Sandblaster
from weft.testing.worlds import pull, simulate_arrays, taking


def test_workers_descend_to_where_they_are_pulled() -> None:
    ran = simulate_arrays(Ensemble(), 2, pull(1.0, 3.0), num_steps=300)
    assert [params[0][0] for params in ran.params] == pytest.approx([1.0, 3.0])
    assert len(ran.members) == 2


def test_all_reduce_descends_to_the_mean_that_samples_weigh() -> None:
    ran = simulate_arrays(AllReduce(), 2, pull(0.0, 4.0), num_steps=300, samples=[3.0, 1.0])
    assert ran.result[0] == pytest.approx([1.0])
    assert ran.facts.virtual_s > 0.0


def test_servers_start_from_the_parameters_of_worker_0() -> None:
    ran = simulate_arrays(ParameterServer(), 2, lambda worker, step, w: 0.0 * w, starts=[np.ones(2), np.zeros(2)])
    assert ran.peer(2).me == 2
    assert ran.params[2][0].tolist() == [1.0, 1.0]


def test_a_rule_is_one_for_all_or_one_for_each() -> None:
    ran = simulate_arrays(Ensemble(), 2, lambda worker, step, w: w + 1.0, rule=[SGD(lr=1.0), SGD(lr=0.5)])
    assert [params[0][0] for params in ran.params] == [-1.0, -0.5]


def test_reports_go_out_every_few_steps() -> None:
    ran = simulate_arrays(AllReduce(), 2, num_steps=4, epoch_steps=2, report=lambda worker, epoch, w: {"x": 1.0})
    told = [event.epoch for _, node, event, _ in ran.recording.entries if isinstance(event, EpochFinished) and not node]
    assert told == [0, 1]


def test_portions_are_taken_until_the_share_is_over() -> None:
    taken: list[int] = []

    def gradient(portion: int, w: np.ndarray) -> np.ndarray:
        taken.append(portion)
        return w

    simulate_arrays(Sandblaster(), 2, script=taking(gradient, [1.0] * 4, 1))
    assert set(taken) == {0, 1, 2, 3}

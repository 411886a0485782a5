"""The gate between a worker's gradients and its protocol."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from weft.adapters.array_replica import ArrayReplica
from weft.adapters.torch.replica import TorchReplica
from weft.core.errors import NotFinite
from weft.core.names import GRADIENT, PARAMS
from weft.core.rules import SGD
from weft.core.strategy import Strategy
from weft.observe.records.left_out import LeftOut
from weft.store.gate import Gate
from weft.strategies import AllReduce, Ensemble, Gossip

A, B = 0, 1
"""The bucket of float32, and that of float64."""


class Bench:
    """A gate, its replica, and what it told."""

    def __init__(self, strategy: Strategy, num_workers: int = 2) -> None:
        self.replica = ArrayReplica({"a": np.zeros(2, "f4"), "b": np.zeros(2)}, SGD(0.1), None)
        self.told: list[LeftOut] = []
        self.gate = Gate(1, num_workers, strategy, self.replica, self.told.append)

    def take(self, a: float = 1.0, b: float = 1.0) -> None:
        self.replica.take({"a": np.array([1.0, a]), "b": np.array([1.0, b])})

    def gradients(self) -> list[list[float]]:
        return [self.replica.array(GRADIENT, bucket).tolist() for bucket in (A, B)]


def test_of_a_reduced_gradient_the_bad_buckets_weigh_nothing_and_the_step_is_told_once() -> None:
    bench = Bench(AllReduce())
    bench.take(a=np.nan)
    bench.gate.begin()
    assert [bench.gate.weigh(7, bucket, 32.0) for bucket in (B, A)] == [32.0, 0.0]
    bench.take(np.inf, np.nan)
    assert [bench.gate.weigh(7, bucket, 32.0) for bucket in (B, A)] == [0.0, 0.0]
    assert bench.told == [LeftOut(7, "the gradient of 'a'", 1, 7)]
    assert bench.gate.finish(7, 32.0, np.nan) == (32.0, None)
    bench.gate.end()
    bench.gate.begin()
    bench.take()
    assert bench.gate.weigh(8, A, 32.0) == 32.0
    assert bench.gate.finish(8, 32.0, 0.5) == (32.0, 0.5)
    bench.take(b=np.inf)
    assert bench.gate.weigh(9, B, 32.0) == 0.0
    assert bench.told[1:] == [LeftOut(9, "the gradient of 'b'", 2, 9)]


def test_what_the_script_sees_of_a_reduced_gradient_stays_as_it_was() -> None:
    bench = Bench(AllReduce())
    bench.take(a=np.inf)
    bench.gate.weigh(0, A, 1.0)
    assert bench.gradients() == [[1.0, np.inf], [1.0, 1.0]]


def test_after_a_bucket_was_left_out_nothing_is_applied_that_clipping_has_spoilt() -> None:
    bench = Bench(AllReduce())
    good, bad = np.ones(2), np.array([1.0, np.nan])
    bench.gate.begin()
    assert bench.gate.lets_apply({A: good, B: bad}), "nothing was left out: what the script does counts"
    bench.take(a=np.nan)
    bench.gate.weigh(0, A, 1.0)
    assert not bench.gate.lets_apply({A: good, B: bad})
    assert bench.gate.lets_apply({A: good})


def test_a_gradient_of_the_workers_own_is_looked_at_when_its_step_is_finished_and_left_out_as_a_whole() -> None:
    bench = Bench(Ensemble())
    bench.take(a=np.nan)
    assert [bench.gate.weigh(3, bucket, 4.0) for bucket in (A, B)] == [4.0, 4.0]
    assert bench.told == [], "a script that skips the step has seen to it itself"
    assert bench.gate.finish(3, 4.0, np.nan) == (0.0, None)
    assert bench.gradients() == [[0.0, 0.0], [0.0, 0.0]]
    assert bench.told == [LeftOut(3, "the gradient of 'a'", 1, 3)]
    bench.take()
    assert bench.gate.finish(4, 4.0, 0.5) == (4.0, 0.5)
    assert bench.gradients() == [[1.0, 1.0], [1.0, 1.0]]


def test_parameters_that_are_not_finite_are_named_and_refused_where_others_would_mix_them_in() -> None:
    for strategy, num_workers in ((AllReduce(), 2), (Ensemble(), 2), (Gossip(), 1)):
        bench = Bench(strategy, num_workers)
        bench.replica.array(PARAMS, B)[1] = np.inf
        bench.take(b=np.nan)
        bench.gate.weigh(3, B, 1.0)
        bench.gate.finish(3, 1.0, None)
        assert bench.told == [LeftOut(3, "parameter 'b'", 1, 3)]
    bench = Bench(Gossip())
    bench.replica.array(PARAMS, B)[1] = np.inf
    bench.take(b=np.nan)
    with pytest.raises(NotFinite) as refused:
        bench.gate.finish(3, 1.0, None)
    assert str(refused.value) == (
        "parameter 'b' of worker 1 is not finite at step 3, and others would mix it with theirs.\n"
        "  Lower the learning rate if training has diverged, or look for what the script wrote."
    )


@pytest.mark.parametrize(("strategy", "kept"), [(AllReduce(), 1.0), (Gossip(), 2.0)])
def test_where_replicas_are_equal_what_is_not_trained_is_kept_as_it_was_reduced_elsewhere_as_the_step_left_it(
    strategy: Strategy, kept: float
) -> None:
    model: Any = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    replica = TorchReplica(model, torch.optim.SGD(model.parameters(), lr=0.1))
    replica.settle()
    gate = Gate(0, 2, strategy, replica, lambda left_out: None)
    model[1].running_mean.fill_(1.0)
    gate.reduced()
    model[1].running_mean.fill_(2.0)
    gate.finish(0, 1.0, None)
    gate.end()
    assert gate.kept[1][:2].tolist() == [kept, kept]


def test_means_that_the_bad_forward_has_spoilt_are_those_of_the_step_before_again() -> None:
    model: Any = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    replica = TorchReplica(model, torch.optim.SGD(model.parameters(), lr=0.1))
    replica.settle()
    gate = Gate(0, 1, Ensemble(), replica, lambda left_out: None)
    norm = model[1]
    for factor in (1.0, torch.nan):
        model.zero_grad()
        model(factor * torch.ones(4, 2)).sum().backward()
        replica.give()
        gate.finish(0, 1.0, None)
        gate.end()
        seen = norm.running_mean.clone()
    assert seen.isfinite().all()
    assert seen.any()


def test_steps_in_a_row_are_counted_from_the_first_and_a_step_that_is_made_again_counts_once() -> None:
    bench = Bench(AllReduce())
    for step in (2, 5, 6, 6, 7, 9):
        bench.take(a=np.nan)
        bench.gate.begin()
        bench.gate.weigh(step, A, 32.0)
    assert [(told.first, told.step) for told in bench.told] == [(2, 2), (5, 5), (5, 6), (5, 7), (9, 9)]
    assert [told.num_in_a_row for told in bench.told] == [1, 1, 2, 3, 1]


@pytest.mark.parametrize("strategy", [AllReduce(), Gossip()])
def test_a_spoilt_gradient_is_left_out(strategy: Strategy) -> None:
    bench = Bench(strategy)
    bench.take()
    bench.gate.begin(is_spoilt=True)
    for bucket in (A, B):
        bench.gate.weigh(3, bucket, 32.0)
    bench.gate.finish(3, 32.0, 0.5)
    assert bench.told == [LeftOut(3, "the gradient of 'a'", 1, 3)]

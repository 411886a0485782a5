"""Optimizers whose work is shared: the lost worker's part is finished as it would have been, and stretches can move."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim import SGD, Adam, Optimizer

from weft.adapters.torch import pieces
from weft.adapters.torch.replica import TorchReplica
from weft.adapters.torch.shared_update import SharedUpdate
from weft.adapters.torch.sliced import SlicedUpdate
from weft.core.names import Bucket
from weft.core.seat import ReplicaMemory

NUM_STEPS = 4


class Memory:
    """What workers of one host share: parameters and state, with this worker's stretches of them."""

    def __init__(self) -> None:
        self.params: list[Any] = []
        self.rows: dict[tuple[int, int], Any] = {}

    def of(self, buckets: Sequence[Bucket], place: int, of: int) -> ReplicaMemory:
        self.params = self.params or [np.zeros(bucket.num_elements, np.float64) for bucket in buckets]
        self.buckets = buckets
        given = [np.zeros_like(array) for array in self.params]
        return ReplicaMemory(self.params, given, given, self.spans(place, of), self.state, self.params)

    def spans(self, place: int, of: int) -> list[tuple[int, int]]:
        return [(array.size * place // of, array.size * (place + 1) // of) for array in self.params]

    def state(self, k: int, bucket: int) -> Any:
        return self.rows.setdefault((k, bucket), np.zeros(self.buckets[bucket].num_elements, np.float64))


class Died(Exception):
    """Of a worker, in its update."""


class Journal:
    """Remembers which pieces were updated; the worker dies where one is reached that it shall not update."""

    def __init__(self, dies_at: int | None = None) -> None:
        self.kept: list[int] = []
        self._dies_at = dies_at

    def keep(self, piece: int, arrays: Sequence[Any]) -> None:
        if piece == self._dies_at:
            raise Died
        self.kept.append(piece)

    def done(self, piece: int) -> None:
        pass


def optimizers(model: nn.Module, kind: str) -> Optimizer:
    parameters = list(model.parameters())
    return SGD(parameters, 0.1, 0.9) if kind == "momentum" else Adam(parameters, 0.1)


def worker(memory: Memory, place: int, of: int, kind: str) -> TorchReplica:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 7), nn.Linear(7, 3)).double()
    replica = TorchReplica(model, optimizers(model, kind))
    replica.settle([3, 2, 1, 0], lambda buckets: memory.of(buckets, place, of), 200)
    return replica


def step(replicas: Sequence[TorchReplica], number: int) -> None:
    for replica in replicas:
        fill(replica, number)
        assert replica.shared_update is not None
        replica.shared_update.begin_update()
    for replica in replicas:
        assert replica.shared_update is not None
        replica.shared_update.step(dict.fromkeys(range(len(replica.buckets)), None))


def fill(replica: TorchReplica, number: int, without: int | None = None) -> None:
    """Gradients of a step; the first tensor of the bucket `without` has none."""
    rng = np.random.default_rng(number)
    for bucket in range(len(replica.buckets)):
        gradient = replica.array("gradient", bucket)
        gradient[:] = rng.normal(size=gradient.size)
        flags = list(replica.flags(bucket))
        gradient[flags] = 1.0
        if bucket == without:
            gradient[flags[0]] = 0.0


def alone(kind: str, num_steps: int) -> list[Any]:
    """What one worker alone makes of the same gradients."""
    memory = Memory()
    replica = worker(memory, 0, 1, kind)
    for number in range(num_steps):
        step([replica], number)
    return [array.copy() for array in memory.params]


def update_of(replica: TorchReplica) -> SharedUpdate:
    assert replica.shared_update is not None
    return replica.shared_update


def halving(replica: TorchReplica) -> TorchReplica:
    """The same, with a rate that is halved after every step."""

    def halve(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        optimizer.param_groups[0]["lr"] *= 0.5

    replica.optimizers.all[0].register_step_post_hook(halve)
    return replica


class Death:
    """The second of three workers dies at a piece of its second step, which the others have made."""

    def __init__(self, first: int, without: int | None = None) -> None:
        self.memory, self.first, self.without = Memory(), first, without
        three = [halving(worker(self.memory, place, 3, "adam")) for place in range(3)]
        step(three, 0)
        for replica in three:
            fill(replica, 1, without)
            update_of(replica).begin_update()
        self.buckets = dict.fromkeys(range(len(three[0].buckets)), None)
        lost, *self.left = three[1], three[0], three[2]
        update_of(lost).journal_updates(Journal(first))
        with pytest.raises(Died):
            update_of(lost).step(self.buckets)
        for replica in self.left:
            update_of(replica).step(self.buckets)

    def finish(self) -> None:
        """The first of those that are left finishes the update."""
        update_of(self.left[0]).finish_update(self.memory.spans(1, 3), Journal(), self.first, None)

    def parameters(self) -> tuple[list[Any], list[Any]]:
        """After one more step of those that are left; and what they would be if nobody had died."""
        for place, replica in enumerate(self.left):
            update_of(replica).respan(self.memory.spans(place, len(self.left)))
        step(self.left, 2)
        memory = Memory()
        replica = halving(worker(memory, 0, 1, "adam"))
        step([replica], 0)
        fill(replica, 1, self.without)
        update_of(replica).begin_update()
        update_of(replica).step(self.buckets)
        step([replica], 2)
        return self.memory.params, memory.params


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECE_BYTES", 64)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("first", [0, 1, 3])
@pytest.mark.parametrize("without", [None, 0, 1])
def test_an_update_is_finished_with_the_rate_of_its_step_also_if_a_tensor_has_no_gradient(
    first: int, without: int | None
) -> None:
    death = Death(first, without)
    death.finish()
    for found, expected in zip(*death.parameters(), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("within", ["_gather_state", "_take_state"])
def test_who_finishes_an_update_may_die_over_it(within: str, monkeypatch: pytest.MonkeyPatch) -> None:
    death, original = Death(2), getattr(SlicedUpdate, within)

    def dies(*arguments: Any) -> None:
        original(*arguments)
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(SlicedUpdate, within, dies)
        with pytest.raises(Died):
            death.finish()
    del death.left[0]
    death.finish()
    for found, expected in zip(*death.parameters(), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("kind", ["momentum", "adam"])
@pytest.mark.parametrize(("piece_bytes", "first"), [(1 << 20, 0), (1 << 20, 1), (64, 1), (64, 2), (64, 4)])
@pytest.mark.parametrize("dies_at", [0, 2])
def test_what_a_lost_worker_left_is_finished_and_the_others_go_on_with_its_stretch(
    kind: str, piece_bytes: int, first: int, dies_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "PIECE_BYTES", piece_bytes)
    memory = Memory()
    three = [worker(memory, place, 3, kind) for place in range(3)]
    for replica in three:
        assert replica.shared_update is not None
        replica.shared_update.journal_updates(Journal())
    for number in range(dies_at):
        step(three, number)
    lost, *left = three[1], three[0], three[2]
    for replica in three:
        fill(replica, dies_at)
        assert replica.shared_update is not None
        replica.shared_update.begin_update()
    buckets = range(len(lost.buckets))
    for replica in left:
        assert replica.shared_update is not None
        replica.shared_update.step(dict.fromkeys(buckets, None))
    assert lost.shared_update is not None
    lost.shared_update.journal_updates(Journal(first))
    with pytest.raises(Died):
        lost.shared_update.step(dict.fromkeys(buckets, None))
    journal, update = Journal(), left[0].shared_update
    assert update is not None
    update.finish_update(memory.spans(1, 3), journal, first, None)
    num_pieces = sum(-(-(stop - start) * 8 // piece_bytes) for start, stop in memory.spans(1, 3))
    assert journal.kept == list(range(first, num_pieces))
    for place, replica in enumerate(left):
        assert replica.shared_update is not None
        replica.shared_update.respan(memory.spans(place, 2))
    for number in range(dies_at + 1, NUM_STEPS):
        step(left, number)
    for found, expected in zip(memory.params, alone(kind, NUM_STEPS), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_what_is_half_updated_is_undone_first() -> None:
    memory = Memory()
    three = [worker(memory, place, 3, "momentum") for place in range(3)]
    for replica in three:
        assert replica.shared_update is not None
        replica.shared_update.journal_updates(Journal())
        replica.shared_update.begin_update()
        fill(replica, 0)
    start, stop = memory.spans(2, 3)[0]
    old = memory.params[0][start:stop].copy()
    for replica in three[:2]:
        assert replica.shared_update is not None
        replica.shared_update.step(dict.fromkeys(range(len(replica.buckets)), None))
    memory.params[0][start:stop] = 1e9

    def undo(arrays: list[Any]) -> None:
        arrays[0][:] = old

    update = three[0].shared_update
    assert update is not None
    update.finish_update(memory.spans(2, 3), Journal(), 0, undo)
    for found, expected in zip(memory.params, alone("momentum", 1), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_nothing_is_finished_if_the_others_applied_nothing() -> None:
    memory = Memory()
    replica = worker(memory, 0, 2, "adam")
    update = replica.shared_update
    assert update is not None
    fill(replica, 0)
    update.begin_update()
    before = [array.copy() for array in memory.params]
    update.finish_update(memory.spans(1, 2), Journal(), 0, None)
    for found, old in zip(memory.params, before, strict=True):
        np.testing.assert_array_equal(found, old)

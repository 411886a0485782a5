"""One worker's part of checkpoints of several: what it has, when it is due, and how scripts go on from all parts."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from msgspec.structs import replace
from support.checkpoints.disks import QuickDisk
from support.checkpoints.written import plan, write_checkpoint
from torch import nn

from weft.adapters.checkpoint_part import LOOPS, CheckpointPart
from weft.adapters.kept_parts import unpacked
from weft.adapters.newcomers import NESTED
from weft.adapters.torch.kept_state import TorchState
from weft.adapters.watched_rates import WatchedRates
from weft.adapters.worker import Worker
from weft.checkpoints.forms import Plain, TableForm
from weft.checkpoints.interval import EVERY, CheckpointInterval
from weft.checkpoints.manifest import FORMAT, MANIFEST, Manifest, WorkerPart, encode, read_manifest, versions
from weft.checkpoints.tensor_file import TensorBytes, read_tensors
from weft.checkpoints.writing import Position, complete, write_part
from weft.core.errors import CheckpointError, ConfigError, IllegalCall
from weft.core.names import Result
from weft.core.script_state import PREPARING, RUNNING, ScriptState
from weft.core.seat import ScriptArrival
from weft.data.dealt_again import DealtAgain, ShareRounds
from weft.data.share_records import Reached
from weft.runtime.checkpoint_messages import TakePart

STEP, NUM_SAMPLES, BATCH_SIZE = 6, 12, 1


class Kept:
    """What a script keeps between steps."""

    def __init__(self, state: Any = None) -> None:
        self.state = state

    def state_dict(self) -> Any:
        return {"state": self.state}

    def load_state_dict(self, state: Any) -> None:
        self.state = state["state"]


class Desk:
    """Worker `rank`, its script and its seat; the test is the engine. `weight` is its own replica's value."""

    def __init__(
        self,
        folder: Path,
        rank: int = 0,
        num_workers: int = 2,
        kind: Result = Result.REPLICA,
        every: CheckpointInterval = EVERY,
        resume: Path | None = None,
        strategy: str = "allreduce",
        weight: float = 1.0,
    ) -> None:
        self.folder, self.rank, self.num_workers = folder, rank, num_workers
        self.steps, self.epoch, self.num_epochs, self.last_samples = 0, 0, 5, 8.0
        self.went_on_from: tuple[int, float] | None = None
        self.rates = WatchedRates(list)
        self.told: list[str] = []
        self.lost: list[str] = []
        self.parts: list[WorkerPart] = []
        self.num_epochs_told: list[int | None] = []
        whole = plan(folder, every)
        facts = replace(whole.facts, strategy=strategy, num_workers=num_workers)
        self.plan = replace(whole, facts=facts, resume=None if resume is None else str(resume))
        self.model = nn.Linear(2, 1)
        nn.init.constant_(self.model.weight, weight)
        nn.init.zeros_(self.model.bias)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=weight, momentum=0.9)
        self.shares = DealtAgain(rank, num_workers, lambda look: look(), lambda reached: None)
        self.seat = SimpleNamespace(
            script=ScriptState(PREPARING),
            survivor=SimpleNamespace(shares=self.shares, rest=SimpleNamespace(take=None)),
            result_kind=kind,
            result_values=lambda: "result",
            servers_here=list,
            own_values=lambda: "own",
            to_keep=lambda: {"worker": {"left_out": {0: rank}}, "servers": {}},
            kept_by=None,
        )
        self._seat = self.seat
        self.framework = TorchState(lambda: self.model, [self.optimizer], self._named)
        self.part = CheckpointPart(cast(Worker, self), self, self.framework)
        self.kept = Kept(rank)
        self.part.keep({"ema": self.kept})
        self.rounds: ShareRounds

    def _named(self, values: Any) -> dict[str, torch.Tensor]:
        """The values of the buckets of the run's result, or of the own replica."""
        return {"weight": torch.full((1, 2), 50.0) if values == "result" else self.model.weight}

    def go_on_from(self, step: int, num_samples: float) -> None:
        self.steps = step
        self.went_on_from = step, num_samples

    def train(self, num_steps: int) -> "Desk":
        """The script makes so many steps in the first share of its second epoch."""
        self.epoch = 1
        self.shares.begin_epoch(0, 1)
        self.rounds = self.shares.begin(NUM_SAMPLES, BATCH_SIZE, False, None)
        for _ in range(num_steps):
            self.rounds.take()
            self.shares.commit()
        self.steps = num_steps
        return self

    def write(
        self,
        order: TakePart,
        position: Position,
        state: Any,
        tensors: dict[str, TensorBytes],
        num_epochs: int | None,
        layout: list[str],
    ) -> None:
        disk = QuickDisk()
        self.parts.append(write_part(self.folder, order.step, order.place, position, state, tensors, disk))
        self.num_epochs_told.append(num_epochs)
        self.layout = layout

    def lose(self, order: TakePart, why: str) -> None:
        self.lost.append(why)

    def tell(self, text: str) -> None:
        self.told.append(text)

    def left(self) -> list[list[int]]:
        """The samples that the script still has in the share that it now begins."""
        parts = self.shares.begin(NUM_SAMPLES, BATCH_SIZE, False, None).parts()
        return [list(part.places[: part.num_counted]) for part in parts if part.num_counted]


Make = Callable[[int], Desk]


def write(folder: Path, make: Make, num_workers: int = 2, *, has_shares: bool = True) -> Path:
    """A checkpoint of so many workers; the first has made most steps. One that ran alone has no shares."""
    desks = [make(rank).train(STEP // num_workers - rank) for rank in range(num_workers)]
    for rank, desk in enumerate(desks):
        desk.part.take(TakePart(STEP, rank, 1))
    facts = replace(plan(folder).facts, num_workers=num_workers)
    manifest = Manifest(FORMAT, STEP, 5, facts, versions(), desks[0].layout, [])
    parts = [desk.parts[0] if has_shares else replace(desk.parts[0], shares=None) for desk in desks]
    return complete(folder, manifest, parts, QuickDisk())


def two(folder: Path, kind: Result = Result.REPLICA) -> Path:
    return write(folder, lambda rank: Desk(folder, rank, kind=kind, weight=10.0 + rank))


def test_steps_and_epochs_are_due_also_when_their_moment_was_missed(tmp_path: Path) -> None:
    by_steps = Desk(tmp_path, every=CheckpointInterval(steps=10))
    due = []
    for by_steps.steps in (9, 10, 13, 20):
        due.append(by_steps.part.is_due)
    by_steps.part.last = 13, 0
    for by_steps.steps in (19, 20):
        due.append(by_steps.part.is_due)
    assert due == [False, True, True, True, False, True]
    by_epochs = Desk(tmp_path, every=CheckpointInterval(epochs=2))
    due = []
    for by_epochs.epoch in (1, 2, 3):
        due.append(by_epochs.part.is_due)
    by_epochs.part.last = 0, 2
    for by_epochs.epoch in (3, 4):
        due.append(by_epochs.part.is_due)
    assert due == [False, True, True, False, True]


def test_the_clock_is_the_engines(tmp_path: Path) -> None:
    desk = Desk(tmp_path, every=CheckpointInterval(seconds=1.0))
    desk.steps, desk.epoch = 1000, 1000
    assert not desk.part.is_due


def test_a_part_that_is_taken_is_not_due_again(tmp_path: Path) -> None:
    desk = Desk(tmp_path, every=CheckpointInterval(steps=2)).train(2)
    assert desk.part.is_due
    assert desk.seat.survivor.rest.take == desk.part.take
    desk.part.take(TakePart(2, 0, 1))
    assert (desk.part.is_due, desk.part.last) == (False, (2, 1))


def test_a_script_that_is_in_no_share_is_refused(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    assert desk.part.refusal == LOOPS
    desk.part.take(TakePart(0, 0, 1))  # ordered of a script that has ended without either
    assert (desk.parts, desk.lost) == ([], [LOOPS])
    assert desk.train(1).part.refusal == ""


def test_a_scheduler_that_is_not_kept_is_refused_by_name(tmp_path: Path) -> None:
    desk = Desk(tmp_path).train(1)
    scheduler = torch.optim.lr_scheduler.StepLR(desk.optimizer, 1)
    assert "worker.keep(scheduler=scheduler)" in desk.part.refusal
    desk.part.keep({"scheduler": scheduler})
    assert desk.part.refusal == ""


def test_what_cannot_be_kept_is_refused_when_it_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="which a checkpoint cannot hold"):
        Desk(tmp_path).part.keep({"odd": Kept(len)})


@pytest.mark.parametrize(
    ("kind", "place", "has"),
    [
        (Result.REPLICA, 0, {"model", "optimizers"}),
        (Result.REPLICA, 1, set()),
        (Result.MEAN, 0, {"model", "optimizers", "own"}),
        (Result.MEAN, 1, {"optimizers", "own"}),
        (Result.ENSEMBLE, 1, {"optimizers", "own"}),
        (Result.BEST, 1, {"optimizers", "own"}),
    ],
)
def test_each_adds_what_the_others_do_not_have(kind: Result, place: int, has: set[str], tmp_path: Path) -> None:
    desk = Desk(tmp_path, place, kind=kind).train(2)
    desk.part.take(TakePart(2, place, 1))
    file = desk.parts[0].file
    tensors = read_tensors(tmp_path / ".step-000000002.part" / file.name, file.size, file.tensors)
    state = unpacked(desk.parts[0], tensors, desk.framework)
    assert state.keys() - {"kept", "random", "steps", "slots", "of_servers"} == has
    assert (state["kept"], state["steps"]) == ({"ema": {"state": place}}, 2)
    if "model" in has:
        assert state["model"]["weight"].tolist() == [[50.0, 50.0]], "the run's result"
    if "own" in has:
        assert state["own"]["weight"].tolist() == [[1.0, 1.0]]


def test_a_part_says_where_its_script_is(tmp_path: Path) -> None:
    desk = Desk(tmp_path).train(3)
    desk.part.take(TakePart(3, 0, 1))
    part = desk.parts[0]
    assert (part.epoch, part.num_batches, part.num_samples) == (1, 3, 8.0)
    assert (part.reached, part.shares) == (Reached(1, {0: 3}), desk.shares.hand_over())
    assert desk.num_epochs_told == [5]


def test_what_the_rest_of_a_script_changes_after_it_was_told_to_end_is_kept_as_it_was_before(tmp_path: Path) -> None:
    desk = Desk(tmp_path).train(2)
    desk.kept.state = torch.zeros(2)
    torch.manual_seed(3)
    desk.part.cut()
    expected = torch.rand(2)
    desk.kept.state += 1.0
    desk.optimizer.param_groups[0]["lr"] = 7.0
    desk.part.cut()  # by a share that is begun later
    desk.part.take(TakePart(2, 0, 1))
    file = desk.parts[0].file
    tensors = read_tensors(tmp_path / ".step-000000002.part" / file.name, file.size, file.tensors)
    state = unpacked(desk.parts[0], tensors, desk.framework)
    assert state["kept"]["ema"]["state"].tolist() == [0.0, 0.0]
    assert state["optimizers"][0]["state"]["param_groups"][0]["lr"] == 1.0
    desk.framework.set_random(state["random"], None)
    assert torch.equal(torch.rand(2), expected)


def test_a_model_that_is_not_finite_is_lost_and_why_is_told(tmp_path: Path) -> None:
    desk = Desk(tmp_path, weight=float("nan")).train(1)
    desk.part.take(TakePart(1, 0, 1))
    assert (len(desk.lost), desk.parts) == (1, [])
    assert "NaN" in desk.lost[0]
    assert "\n" not in desk.lost[0]


def test_without_a_checkpoint_a_script_begins_anew(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    assert desk.part.restore(desk.shares) is None
    assert (desk.went_on_from, desk.told) == (None, [])


@pytest.mark.parametrize("rank", [0, 1])
def test_as_many_workers_go_on_each_with_its_own(rank: int, tmp_path: Path) -> None:
    path = two(tmp_path, Result.MEAN)
    desk = Desk(tmp_path, rank, kind=Result.MEAN, resume=path)
    assert desk.part.restore(desk.shares) == ScriptArrival(0, 1)
    assert desk.model.weight.tolist() == [[10.0 + rank] * 2], "its own model"
    assert desk.optimizer.param_groups[0]["lr"] == 10.0 + rank
    assert (desk.kept.state, desk.went_on_from, desk.part.last) == (rank, (3 - rank, 8.0), (3 - rank, 1))
    assert desk.left() == [[place] for place in range(rank, NUM_SAMPLES, 2)][3 - rank :]
    told = f"goes on from the checkpoint of step {STEP}, 1 of 5 epochs and 3 batches"
    assert desk.told == ([told] if not rank else [])


def test_where_all_have_one_model_it_is_the_first_ones_part_and_so_are_the_optimizers(tmp_path: Path) -> None:
    desk = Desk(tmp_path, 1, resume=two(tmp_path))
    desk.part.restore(desk.shares)
    assert desk.model.weight.tolist() == [[50.0, 50.0]]
    assert desk.optimizer.param_groups[0]["lr"] == 10.0
    assert desk.kept.state == 1


@pytest.mark.parametrize("num_workers", [1, 3])
def test_other_numbers_of_workers_go_on_with_the_result_and_divide_what_is_left(
    num_workers: int, tmp_path: Path
) -> None:
    path = two(tmp_path, Result.MEAN)
    left: list[int] = []
    for rank in range(num_workers):
        desk = Desk(tmp_path, rank, num_workers, Result.MEAN, resume=path)
        assert desk.part.restore(desk.shares) == ScriptArrival(0, 1)
        assert desk.model.weight.tolist() == [[50.0, 50.0]]
        assert (desk.kept.state, desk.went_on_from) == (0, (STEP, 8.0))
        left += [place for each in desk.left() for place in each]
        if not rank:
            assert desk.told[0].endswith(f"3 batches, with {num_workers} workers instead of 2")
    assert sorted(left) == [5, *range(6, NUM_SAMPLES)]


def test_another_strategy_goes_on_with_the_result_which_is_told(tmp_path: Path) -> None:
    desk = Desk(tmp_path, 0, kind=Result.MEAN, resume=two(tmp_path, Result.MEAN), strategy="local_sgd")
    desk.part.restore(desk.shares)
    assert desk.model.weight.tolist() == [[50.0, 50.0]]
    assert desk.told[0].endswith(", as local_sgd instead of allreduce")
    assert desk.seat.kept_by is None, "what codecs of another strategy left out is not used"


def test_random_numbers_are_what_they_were_when_the_share_begins_in_which_the_script_was(tmp_path: Path) -> None:
    torch.manual_seed(3)
    path = two(tmp_path)
    expected = torch.rand(2)
    desk = Desk(tmp_path, 1, resume=path)
    desk.part.restore(desk.shares)
    torch.manual_seed(7)
    desk.part.begin_share(0)
    drawn = torch.rand(2)
    assert torch.equal(drawn, expected)
    desk.part.begin_share(1)
    assert not torch.equal(torch.rand(2), expected), "once"


def test_after_a_single_worker_several_begin_with_the_epoch_in_which_it_was(tmp_path: Path) -> None:
    path = write(tmp_path, lambda rank: Desk(tmp_path, rank, 1), 1, has_shares=False)
    desk = Desk(tmp_path, resume=path)
    arrival = desk.part.restore(desk.shares)
    assert arrival is not None
    assert (arrival.loop, arrival.epoch) == (0, 1)
    assert desk.shares.reached() == Reached(1, {}), "as if each epoch before had had one share"
    assert desk.told[0].endswith(", with 2 workers instead of 1")


def test_another_model_is_refused(tmp_path: Path) -> None:
    desk = Desk(tmp_path, resume=write_checkpoint(tmp_path, 3, num_workers=2))
    with pytest.raises(CheckpointError, match=r"the checkpoint has w \(100,\) float32 where the script's model has"):
        desk.part.restore(desk.shares)


@pytest.mark.parametrize("state", [Plain(3), TableForm("dict", [])])
def test_a_part_whose_state_is_not_that_of_a_worker_is_refused(state: Any, tmp_path: Path) -> None:
    path = two(tmp_path)
    manifest = read_manifest(path)
    workers = [manifest.workers[0], replace(manifest.workers[1], state=state)]
    (path / MANIFEST).write_bytes(encode(replace(manifest, workers=workers)))
    desk = Desk(tmp_path, 1, resume=path)
    with pytest.raises(CheckpointError, match=r"the checkpoint cannot be restored: .*\n  Use an older one"):
        desk.part.restore(desk.shares)


def test_a_script_that_has_trained_before_its_loop_is_refused(tmp_path: Path) -> None:
    desk = Desk(tmp_path, resume=two(tmp_path))
    desk.seat.script.at = RUNNING
    with pytest.raises(IllegalCall, match=r"the script trained before worker\.epochs"):
        desk.part.restore(desk.shares)


def test_within_a_share_that_was_begun_in_another_no_part_is_taken(tmp_path: Path) -> None:
    desk = Desk(tmp_path).train(3)
    desk.shares.end(desk.shares.begin(4, 1, False, None))
    assert desk.part.refusal == NESTED
    desk.part.take(TakePart(3, 0, 1))
    assert (desk.parts, desk.lost) == ([], [NESTED])


def test_where_a_checkpoint_is_refused_the_next_is_due_later(tmp_path: Path) -> None:
    desk = Desk(tmp_path, every=CheckpointInterval(steps=2)).train(2)
    assert desk.part.is_due
    desk.part.pass_over()
    assert not desk.part.is_due

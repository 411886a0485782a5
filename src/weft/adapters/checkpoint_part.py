"""One worker's part of the checkpoints of a run of several: what it adds, and how its script goes on from one (0043).

| of                                        | has in its part                                                         |
|-------------------------------------------|-------------------------------------------------------------------------|
| the first member                          | the run's result, and its optimizers                                    |
| each, unless all have the same            | its optimizers                                                          |
| each, where workers have models of their own | its model                                                            |
| each                                      | what its script keeps, its random numbers, its steps, its shares of data |
"""

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from weft.adapters.kept_parts import (
    Framework,
    check_fits,
    load_kept,
    other_arguments,
    packed,
    restoring,
    unpacked,
    with_servers,
)
from weft.adapters.kept_slots import KeptSlots
from weft.adapters.newcomers import NESTED
from weft.checkpoints.manifest import Manifest, RunFacts, WorkerPart, read_manifest
from weft.checkpoints.tensor_file import read_tensors
from weft.checkpoints.writing import Position
from weft.core.errors import CheckpointError, IllegalCall
from weft.core.names import Result
from weft.core.script_state import BEFORE_TRAINING
from weft.core.seat import ScriptArrival
from weft.data.dealt_again import DealtAgain
from weft.data.resumed_shares import StoredShares, first_shares, resumed_shares, to_store

if TYPE_CHECKING:
    from weft.adapters.worker import Worker

LOOPS = "checkpoints are taken in scripts that loop by worker.epochs(...) over worker.share(...)"
OWN_MODELS = frozenset({Result.MEAN, Result.BEST, Result.ENSEMBLE})
"""Results of strategies whose workers have models of their own."""


class CutShort(NamedTuple):
    """What the rest of a script may still change after it was told to end within a share."""

    kept: dict[str, Any]
    random: Any
    groups: list[Any]
    """The numbers of each optimizer's groups, such as learning rates."""


class CheckpointPart:
    """The parts of one worker. `writing` (runtime/seats/part_writing.py) writes them."""

    def __init__(self, worker: "Worker", writing: Any, framework: Framework) -> None:
        self._worker = worker
        self._writing = writing
        self._framework = framework
        self._kept: Mapping[str, Any] = {}
        self._cut: CutShort | None = None
        """How all was when the script was told to end within a share."""
        self._random: Any = None
        """The random numbers with which the script goes on, in the share in which it was."""
        self._share = 0
        """That share."""
        self.last = (0, 0)
        """The step and the epoch in which the last part was taken."""
        worker._seat.survivor.rest.take = self.take

    def keep(self, objects: Mapping[str, Any]) -> None:
        """These objects are kept."""
        self._kept = objects
        packed(self._states(), self._framework)

    def _states(self) -> dict[str, Any]:
        return {name: each.state_dict() for name, each in self._kept.items()}

    @property
    def is_due(self) -> bool:
        """Whether one is due by the steps or epochs that this script has made; the engine looks at the clock."""
        every, steps = self._writing.plan.every, self._worker.steps
        if every.steps is not None:
            return bool(steps - steps % every.steps > self.last[0])
        epoch = self._worker.epoch
        return every.epochs is not None and epoch - epoch % every.epochs > self.last[1]

    @property
    def refusal(self) -> str:
        """Why no checkpoint can be taken where the script is; empty if one can."""
        if not self._worker._seat.survivor.shares.can_be_taken_over:
            return LOOPS
        return self._why_unfit()

    def _why_unfit(self) -> str:
        """Why nobody could go on as this script; empty if one can."""
        shares = self._worker._seat.survivor.shares
        if not shares.has_epochs:
            return LOOPS
        nested = NESTED if shares.to_keep.is_nested else ""
        return nested or self._framework.unnamed(self._kept.values()) or self._worker.rates.unnamed()

    def pass_over(self) -> None:
        """No checkpoint is taken here: the next one is due later."""
        self.last = self._worker.steps, self._worker.epoch

    def take(self, order: Any) -> None:
        """Copy this worker's part, and have it written. Nothing is under way meanwhile."""
        worker, framework = self._worker, self._framework
        seat: Any = worker._seat
        self.pass_over()
        why = self._why_unfit()
        try:
            framework.check_finite()
        except CheckpointError as error:
            why = str(error).partition("\n")[0]
        if why:
            self._writing.lose(order, why)
            return
        kind = seat.result_kind
        cut = self._cut
        kept, random = (self._states(), framework.random(None)) if cut is None else (cut.kept, cut.random)
        state = {"kept": kept, "random": random, "steps": worker.steps}
        if order.place == 0:
            state["model"] = framework.model(seat.result_values())
        if order.place == 0 or kind is not Result.REPLICA:
            state["optimizers"] = self._optimizers()
        if kind in OWN_MODELS:
            state["own"] = framework.model(seat.own_values())
        state["slots"] = seat.to_keep()
        state["of_servers"] = [framework.optimizers(replica) for replica in seat.servers_here()]
        shares = seat.survivor.shares
        handed, reached = to_store(shares.hand_over()), shares.to_keep
        position = Position(
            handed.epoch, reached.rounds.get(handed.first, 0), worker.last_samples, shares=handed, reached=reached
        )
        form, tensors = packed(state, framework)
        self._writing.write(order, position, form, tensors, worker.num_epochs, list(framework.layout()))

    def cut(self) -> None:
        """The script was told to end within a share, and reads no further batch. What follows its loop over batches is
        still run, and will be run again by who goes on: what that changes is kept as it is now, the first time."""
        if self._cut is None:
            groups = [each["state"]["param_groups"] for each in self._framework.optimizers()]
            self._cut = CutShort(deepcopy(self._states()), self._framework.random(None), deepcopy(groups))

    def _optimizers(self) -> list[Any]:
        """The states of the optimizers; their groups as they were when the script was told to end, if it was."""
        optimizers = self._framework.optimizers()
        if self._cut is not None:
            for each, groups in zip(optimizers, self._cut.groups, strict=True):
                each["state"]["param_groups"] = groups
        return optimizers

    def restore(self, shares: DealtAgain) -> ScriptArrival | None:
        """The script begins its first loop over epochs: go on from the checkpoint, if there is one."""
        if self._writing.plan.resume is None:
            return None
        with restoring():
            return self._restore(Path(self._writing.plan.resume), shares)

    def _restore(self, path: Path, shares: DealtAgain) -> ScriptArrival:
        manifest = read_manifest(path)
        check_fits(manifest, self._framework)
        worker = self._worker
        seat: Any = worker._seat
        if seat.script.at not in BEFORE_TRAINING:
            raise IllegalCall(
                "the script trained before worker.epochs, so that its checkpoint cannot be restored.\n"
                "  Train in the loop over worker.epochs."
            )
        is_same = len(manifest.workers) == worker.num_workers
        is_same_way = manifest.facts.strategy == self._writing.plan.facts.strategy
        first = mine = self._state(path, manifest.workers[0])
        slots, of_servers = [], []
        for place, part in enumerate(manifest.workers):  # one after another: all models at once may not fit
            state = self._state(path, part) if place else first
            mine = state if is_same and place == worker.rank else mine
            slots.append(state.get("slots"))
            of_servers += state.get("of_servers", ())  # a single worker has none of both
        optimizers = with_servers(mine.get("optimizers", first["optimizers"]), of_servers)
        self._framework.load(mine["own"] if "own" in mine and is_same and is_same_way else first["model"], optimizers)
        load_kept(self._kept, mine["kept"])
        steps = int(mine["steps"]) if is_same else manifest.step
        worker.go_on_from(steps, manifest.workers[worker.rank if is_same else 0].num_samples)
        self._random = mine["random"] if is_same else None
        stored = _shares_of(manifest)
        self._share = stored[worker.rank].reached.begun - 1 if is_same else 0
        resumed = (
            resumed_shares(stored, worker.rank, worker.num_workers)
            if stored
            else first_shares(manifest.epoch, worker.rank, worker.num_workers)
        )
        shares.take_over(resumed)
        self.last = worker.steps, resumed.epoch
        if stored and is_same_way:
            seat.kept_by = KeptSlots(slots, worker.rank, worker.num_workers).of
        if worker.rank == 0:
            self._writing.tell(_told(manifest, worker.num_workers, self._writing.plan.facts))
        return ScriptArrival(resumed.loop, resumed.epoch)

    def _state(self, path: Path, part: WorkerPart) -> Any:
        tensors = read_tensors(path / part.file.name, part.file.size, part.file.tensors)
        return unpacked(part, tensors, self._framework)

    def begin_share(self, share: int) -> None:
        """The script begins a share: if it was in this one, its random numbers are what they were from here on, also if
        no batch of it is left."""
        if self._random is not None and share >= self._share:
            self._framework.set_random(self._random, None)
            self._random = None


def _shares_of(manifest: Manifest) -> list[StoredShares]:
    """The shares of all workers of a checkpoint; empty: it is of a single worker, between two epochs."""
    parts = manifest.workers
    return [StoredShares(part.shares, part.reached) for part in parts if part.shares and part.reached]


def _told(manifest: Manifest, num_workers: int, facts: RunFacts) -> str:
    """What is told of a run that goes on, and of what could not be carried over."""
    text = f"goes on from the checkpoint of {manifest.place}"
    if len(manifest.workers) != num_workers:
        text += f", with {num_workers} workers instead of {len(manifest.workers)}"
    if manifest.facts.strategy != facts.strategy:
        text += f", as {facts.strategy} instead of {manifest.facts.strategy}"
    return text + other_arguments(manifest.facts, facts)

"""A worker's parts of checkpoints are copied before its script goes on, and written beside it."""

from pathlib import Path
from threading import Event

import numpy as np
import pytest
from support.checkpoints.disks import FullDisk, QuickDisk
from support.checkpoints.written import plan

from weft.checkpoints.forms import Packing
from weft.checkpoints.manifest import FORMAT, TENSORS, file_name, versions
from weft.checkpoints.tensor_file import TensorBytes, read_tensors
from weft.checkpoints.writing import Position
from weft.runtime.checkpoint_messages import PartCopied, PartLost, PartWritten, TakePart
from weft.runtime.messages import Message
from weft.runtime.seats.part_writing import PartWriting


class Engine:
    """Hears a worker that writes parts with three numbers each."""

    def __init__(self, folder: Path, disk: QuickDisk | None = None) -> None:
        self.partial = folder / ".step-000000010.part"
        self.heard: list[Message] = []
        self.told: list[str] = []
        self.writing = PartWriting(plan(folder), self.heard.append, self.told.append)
        self.writing._disk = disk or QuickDisk()
        self.numbers = np.arange(3.0)

    def take(self, order: TakePart) -> None:
        packing = Packing(lambda value: None)
        state = packing.pack({"w": self.numbers}, "")
        ((name, tensor),) = packing.tensors.items()
        own = TensorBytes(tensor.dtype, tensor.shape, self.numbers.view("u1").data)
        self.writing.write(order, Position(2, 1, 8.0), state, {name: own}, 5, ["w (3,) float64"])

    def written(self, message: Message) -> list[float]:
        """The numbers of a part."""
        assert isinstance(message, PartWritten)
        file = message.part.file
        (tensor,) = read_tensors(self.partial / file.name, file.size, file.tensors).values()
        numbers: list[float] = tensor.as_array().tolist()
        return numbers


class HeldDisk(QuickDisk):
    """Writes when it is let go."""

    def __init__(self) -> None:
        self.go = Event()

    def make_folder(self, path: Path) -> None:
        assert self.go.wait(10.0)
        super().make_folder(path)


def test_what_the_script_changes_after_its_part_is_copied_does_not_reach_the_file(tmp_path: Path) -> None:
    disk = HeldDisk()
    engine = Engine(tmp_path, disk)
    engine.take(TakePart(10, 1, 4))
    assert engine.heard == [PartCopied(4)], "the script goes on before anything is written"
    engine.numbers += 100.0
    disk.go.set()
    engine.writing.finish()
    assert engine.written(engine.heard[1]) == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_the_first_adds_the_manifest_and_each_has_a_file_of_its_place(place: int, tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    engine.take(TakePart(10, place, 4))
    engine.writing.finish()
    copied, written = engine.heard
    assert (copied, type(written)) == (PartCopied(4), PartWritten)
    assert isinstance(written, PartWritten)
    part, manifest = written.part, written.manifest
    assert (written.number, part.rank, part.epoch, part.num_batches, part.num_samples) == (4, place, 2, 1, 8.0)
    assert part.file.name == file_name(place)
    assert (manifest is None) == bool(place)
    if manifest is not None:
        assert (part.file.name, manifest.format, manifest.step, manifest.num_epochs) == (TENSORS, FORMAT, 10, 5)
        assert (manifest.facts, manifest.versions) == (engine.writing.plan.facts, versions())
        assert (manifest.layout, manifest.workers) == (["w (3,) float64"], [])


def test_one_part_is_written_after_another(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    for number in (1, 2, 3):
        engine.numbers[:] = number
        engine.take(TakePart(10, 0, number))
    engine.writing.finish()
    kinds = [(type(message), getattr(message, "number", None)) for message in engine.heard]
    assert kinds == [(kind, number) for number in (1, 2, 3) for kind in (PartCopied, PartWritten)]
    assert engine.written(engine.heard[-1]) == [3.0, 3.0, 3.0]


def test_a_full_disk_is_told_to_the_engine_and_the_next_part_is_written(tmp_path: Path) -> None:
    disk = FullDisk(1)
    engine = Engine(tmp_path, disk)
    engine.take(TakePart(10, 0, 1))
    engine.writing.finish()
    assert engine.heard == [PartCopied(1), PartLost(1, "No space left on device")]
    disk.num_writes = 100
    engine.take(TakePart(10, 0, 2))
    engine.writing.finish()
    assert engine.written(engine.heard[-1]) == [0.0, 1.0, 2.0]


@pytest.mark.parametrize(("error", "why"), [(MemoryError(), "MemoryError"), (ValueError("too long"), "too long")])
def test_whatever_keeps_a_part_from_being_written_is_told_to_the_engine(
    error: Exception, why: str, tmp_path: Path
) -> None:
    class FailingDisk(QuickDisk):
        def make_folder(self, path: Path) -> None:
            raise error

    engine = Engine(tmp_path, FailingDisk())
    engine.take(TakePart(10, 0, 1))
    engine.writing.finish()
    assert engine.heard == [PartCopied(1), PartLost(1, why)]


def test_a_part_that_is_not_fit_to_be_kept_is_told_to_the_engine(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    engine.writing.lose(TakePart(10, 0, 7), "'w' has NaN")
    assert engine.heard == [PartLost(7, "'w' has NaN")]
    engine.writing.finish()
    assert not engine.partial.exists()

"""Writes a worker's parts of the run's checkpoints, each in a thread beside training (0043)."""

import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from weft.checkpoints.disk import Disk
from weft.checkpoints.forms import Form
from weft.checkpoints.manifest import FORMAT, Manifest, versions
from weft.checkpoints.taking import CheckpointPlan
from weft.checkpoints.tensor_file import TensorBytes
from weft.checkpoints.writing import Position, write_part
from weft.runtime.checkpoint_messages import PartCopied, PartLost, PartWritten, TakePart
from weft.runtime.messages import Message


class PartWriting:
    """The parts of one worker. `send` takes messages to the engine, from any thread."""

    def __init__(self, plan: CheckpointPlan, send: Callable[[Message], object], tell: Callable[[str], None]) -> None:
        self.plan = plan
        self.tell = tell
        self._send = send
        self._disk = Disk()
        self._thread: threading.Thread | None = None

    def write(
        self,
        order: TakePart,
        position: Position,
        state: Form,
        tensors: Mapping[str, TensorBytes],
        num_epochs: int | None,
        layout: list[str],
    ) -> None:
        """Copy the tensors, let the script go on, and write them; one part after another."""
        copied = {name: _copy(tensor) for name, tensor in tensors.items()}
        manifest = Manifest(FORMAT, order.step, num_epochs, self.plan.facts, versions(), layout, [])
        self.finish()
        first = None if order.place else manifest
        self._thread = threading.Thread(
            target=self._write, args=(order, position, state, copied, first), name="weft-checkpoint", daemon=True
        )
        self._send(PartCopied(order.number))
        self._thread.start()

    def _write(
        self,
        order: TakePart,
        position: Position,
        state: Form,
        tensors: Mapping[str, TensorBytes],
        manifest: Manifest | None,
    ) -> None:
        folder = Path(self.plan.folder)
        try:
            part = write_part(folder, order.step, order.place, position, state, tensors, self._disk)
            self._send(PartWritten(order.number, part, manifest))
        except Exception as error:  # memory may run out, too: whatever it is, this checkpoint is not to be waited for
            self._send(PartLost(order.number, getattr(error, "strerror", None) or str(error) or type(error).__name__))

    def lose(self, order: TakePart, why: str) -> None:
        """This part is not fit to be kept."""
        self._send(PartLost(order.number, why))

    def finish(self) -> None:
        """Wait until the last part is written."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None


def _copy(tensor: TensorBytes) -> TensorBytes:
    return TensorBytes(tensor.dtype, tensor.shape, memoryview(bytes(tensor.data)))

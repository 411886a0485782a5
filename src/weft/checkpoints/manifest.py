"""The manifest of a checkpoint: where the run was, what is in each file, and digests by which damage is found."""

import platform
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec
from msgspec import Struct

from weft.checkpoints.forms import Form
from weft.checkpoints.tensor_file import TensorEntry, check_entry
from weft.core.errors import CheckpointError
from weft.data.share_records import HandedShares, Reached, why_impossible

FORMAT = 1
MANIFEST = "manifest.json"
MANIFEST_BYTES_MAX = 256 << 20
TENSORS = "tensors.safetensors"
NOWHERE = Reached(0, {})
LIBRARIES = ("weft", "torch", "numpy")


class FileEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """A file beside the manifest."""

    name: str
    size: int
    sha256: str
    tensors: list[TensorEntry]


class WorkerPart(Struct, frozen=True, forbid_unknown_fields=True):
    """What one worker adds to a checkpoint; `state` refers to tensors of its file."""

    rank: int
    epoch: int
    """The epoch in which the script goes on; the number of all epochs if none is left."""
    num_batches: int
    """Batches of that epoch's share that it has had; 0: it goes on at the epoch's beginning."""
    num_samples: float
    """Samples of the last step that had some."""
    file: FileEntry
    state: Form
    shares: HandedShares | None = None
    """The rounds of its shares of data; None: the data was read by one worker alone, as its loader reads it."""
    reached: Reached | None = None
    """How far its script was in them."""

    @property
    def is_before_epoch(self) -> bool:
        """Whether it had no batch of its epoch yet, in its first loop over epochs."""
        if self.shares is None:
            return not self.num_batches
        return not self.shares.loop and (self.reached or NOWHERE).is_before(self.shares.first)


class RunFacts(Struct, frozen=True, forbid_unknown_fields=True):
    """What a run that goes on must have in common with the one that wrote a checkpoint."""

    strategy: str
    num_workers: int
    seed: int
    global_batch: int | None = None
    script: str = ""
    """SHA-256 of the script's file; only for knowing a finished run again."""
    arguments: list[str] = []
    steps_max: int | None = None


class Manifest(Struct, frozen=True, forbid_unknown_fields=True):
    """All that is known of a checkpoint without reading its tensors."""

    format: int
    step: int
    num_epochs: int | None
    facts: RunFacts
    versions: dict[str, str]
    layout: list[str]
    """A line for each tensor of the model: name, shape, type."""
    workers: list[WorkerPart]
    is_finished: bool = False
    """The script has ended in order."""
    digest: str = ""
    """SHA-256 of the manifest with an empty digest."""

    @property
    def epoch(self) -> int:
        return self.workers[0].epoch

    @property
    def is_alone(self) -> bool:
        """It is of a single worker, which read its data in an order of its own; not of the last one of several."""
        return self.workers[0].shares is None

    @property
    def is_between_epochs(self) -> bool:
        """All workers were at the beginning of the same epoch of the script's first loop over epochs: whoever goes on
        may read its data in any order."""
        return all(part.epoch == self.epoch and part.is_before_epoch for part in self.workers)

    @property
    def num_bytes(self) -> int:
        return sum(part.file.size for part in self.workers)

    @property
    def place(self) -> str:
        """Where the run was, in words."""
        num_batches = self.workers[0].num_batches
        within = f" and {num_batches} {'batch' if num_batches == 1 else 'batches'}" if num_batches else ""
        of = "" if self.num_epochs is None else f" of {self.num_epochs}"
        return f"step {self.step}, {self.epoch}{of} epochs{within}"


def versions() -> dict[str, str]:
    """The versions of Python and of the libraries that decide what a run computes."""
    found = {name: _version(name) for name in LIBRARIES}
    return {"python": platform.python_version()} | {name: text for name, text in found.items() if text is not None}


def _version(library: str) -> str | None:
    try:
        return version(library)
    except PackageNotFoundError:
        return None


def encode(manifest: Manifest) -> bytes:
    """A manifest as it is written, with its digest."""
    plain = msgspec.json.encode(msgspec.structs.replace(manifest, digest=""))
    return msgspec.json.encode(msgspec.structs.replace(manifest, digest=sha256(plain).hexdigest()))


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a checkpoint's folder. Raises CheckpointError if it is missing, damaged or not to be trusted."""
    path = folder / MANIFEST
    try:
        if path.is_symlink() or path.stat().st_size > MANIFEST_BYTES_MAX:
            raise not_readable(path, "it is a link, or too large")
        manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
        digest = msgspec.json.decode(encode(manifest), type=Manifest).digest
    except OSError as error:
        raise not_readable(path, str(error.strerror)) from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise not_readable(path, str(error)) from error
    if manifest.format != FORMAT:
        raise not_readable(path, f"it has format {manifest.format}, but this version of Weft reads format {FORMAT}")
    if manifest.digest != digest:
        raise not_readable(path, "its digest is another: it has been changed or damaged")
    _check(path, manifest)
    return manifest


def _check(path: Path, manifest: Manifest) -> None:
    if not manifest.workers:
        raise not_readable(path, "it is of no workers")
    expected = [file_name(rank) for rank in range(len(manifest.workers))]
    if [part.file.name for part in manifest.workers] != expected:
        raise not_readable(path, "its files are not one for each worker")
    for rank, part in enumerate(manifest.workers):
        if part.rank != rank or part.file.size < 0 or part.epoch < 0 or part.num_batches < 0 or manifest.step < 0:
            raise not_readable(path, f"what it says of worker {rank} is no place in a run")
        if part.shares is not None and (why := why_impossible(part.shares, part.reached or NOWHERE)):
            raise not_readable(path, f"what it says of worker {rank} cannot be: {why}")
        for entry in part.file.tensors:
            check_entry(path, entry)


def file_name(rank: int) -> str:
    """The name of a worker's file; worker 0's has the model and its optimizers, too."""
    return TENSORS if rank == 0 else f"worker-{rank:05d}.safetensors"


def not_readable(path: Path, why: str) -> CheckpointError:
    return CheckpointError(f"'{path}' cannot be read: {why}.\n  Use an older checkpoint.")

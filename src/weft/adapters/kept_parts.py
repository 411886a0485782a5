"""What checkpoints have of a script, whoever takes them: its form, and whether it fits the script that goes on."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from shlex import join
from typing import Any, Protocol

from weft.checkpoints.forms import Form, NotPlain, Packing, unpack
from weft.checkpoints.manifest import Manifest, RunFacts, WorkerPart, versions
from weft.checkpoints.tensor_file import TensorBytes
from weft.core.errors import CheckpointError, ConfigError

SAME_VERSIONS = ("weft", "torch")
MALFORMED = (TypeError, KeyError, IndexError, ValueError, AttributeError, RuntimeError)
"""What is raised where the state of a checkpoint is not of the kind that is expected."""


class Framework(Protocol):
    """What a framework knows of a script's model, optimizers and random numbers."""

    def as_tensor(self, value: Any) -> TensorBytes | None: ...

    def to_tensor(self, tensor: TensorBytes) -> Any: ...

    def layout(self) -> list[str]: ...

    def check_finite(self) -> None:
        """Raise CheckpointError for a model that is not fit to be kept."""
        ...

    def model(self, values: Any = None) -> dict[str, Any]:
        """The tensors of the model by name; with these values of its buckets, if there are some."""
        ...

    def optimizers(self, replica: Any = None) -> list[Any]:
        """The states of the script's optimizers, or of those of a server's replica."""
        ...

    def load(self, model: Mapping[str, Any], optimizers: Sequence[Any]) -> None: ...

    def unnamed(self, kept: Iterable[Any]) -> str:
        """What else the script has that would begin anew, if it keeps only these objects; empty if there is nothing."""
        ...

    def random(self, data: Any) -> Any:
        """The states of all random numbers, and of generators with which `data` is read."""
        ...

    def set_random(self, state: Any, data: Any) -> None: ...

    def generators(self, data: Any) -> list[Any]:
        """The states of the generators with which `data` is read."""
        ...

    def set_generators(self, states: list[Any], data: Any, already: set[int]) -> None:
        """Set those generators, but for the ones that are in `already`, by their ids; add them."""
        ...


def packed(state: Any, framework: Framework) -> tuple[Form, dict[str, TensorBytes]]:
    """The form of a state, and its tensors."""
    packing = Packing(framework.as_tensor)
    try:
        return packing.pack(state, ""), packing.tensors
    except NotPlain as error:
        raise ConfigError(
            f"{error}, which a checkpoint cannot hold.\n"
            "  Keep objects whose state_dict has tensors, arrays, numbers, strings, lists and dicts only."
        ) from error


def unpacked(part: WorkerPart, tensors: Mapping[str, TensorBytes], framework: Framework) -> Any:
    """The state of a part."""
    try:
        return unpack(part.state, tensors, framework.to_tensor)
    except (*MALFORMED, StopIteration) as error:
        raise CheckpointError(f"the checkpoint refers to what it has not: {error}.\n  Use an older one.") from error


def with_servers(optimizers: list[Any], of_servers: Iterable[list[Any]]) -> list[Any]:
    """The optimizers of a worker, with what those of servers have of their parameters: new servers copy it."""
    for server in of_servers:
        for mine, theirs in zip(optimizers, server, strict=True):
            mine["state"]["state"].update(theirs["state"]["state"])
    return optimizers


@contextmanager
def restoring() -> Iterator[None]:
    """Within it, a checkpoint that has not what every checkpoint has is a CheckpointError."""
    try:
        yield
    except MALFORMED as error:
        raise CheckpointError(
            f"the checkpoint cannot be restored: {type(error).__name__}: {error}.\n"
            "  Use an older one, or the script that it was made with."
        ) from error


def check_fits(manifest: Manifest, framework: Framework) -> None:
    """Raise CheckpointError for a checkpoint of another model, or of other versions of libraries."""
    for line, mine in _differing(manifest.layout, framework.layout()):
        raise CheckpointError(
            f"the checkpoint has {line or 'nothing'} where the script's model has {mine or 'nothing'}.\n"
            "  Use the model that it was made of, or another folder."
        )
    now = versions()
    for name in SAME_VERSIONS:
        if manifest.versions.get(name) != now.get(name):
            raise CheckpointError(
                f"the checkpoint was made with {name} {manifest.versions.get(name)}, but this is {now.get(name)}.\n"
                "  Install that version, or use another folder."
            )


def other_arguments(theirs: RunFacts, mine: RunFacts) -> str:
    """What is told of a script that goes on with other arguments than it had: what is restored does not follow them."""
    if theirs.arguments == mine.arguments:
        return ""
    before = f"'{join(theirs.arguments)}'" if theirs.arguments else "none"
    return f"; its arguments were {before} then, and what is restored, learning rates too, is as it was"


def load_kept(objects: Mapping[str, Any], kept: Mapping[str, Any]) -> None:
    """Load the states of objects that a script keeps."""
    if kept.keys() != objects.keys():
        odd = min(kept.keys() ^ objects.keys())
        where = "the checkpoint has, but the script does not keep" if odd in kept else "the checkpoint has not"
        raise CheckpointError(
            f"'{odd}' {where}.\n  Keep the same objects: worker.keep({', '.join(f'{n}=...' for n in kept)})."
        )
    for name, state in kept.items():
        objects[name].load_state_dict(state)


def _differing(theirs: list[str], mine: list[str]) -> Iterator[tuple[str, str]]:
    for number in range(max(len(theirs), len(mine))):
        pair = tuple((lines[number] if number < len(lines) else "") for lines in (theirs, mine))
        if pair[0] != pair[1]:
            yield pair[0], pair[1]

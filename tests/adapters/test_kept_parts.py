"""What checkpoints have of a script: its form, and whether it fits the script that goes on."""

import re
from typing import Any

import numpy as np
import pytest
import torch
from msgspec.structs import replace
from support.checkpoints.written import facts
from torch import nn

from weft.adapters.kept_parts import SAME_VERSIONS, check_fits, load_kept, other_arguments, packed, restoring, unpacked
from weft.adapters.torch.kept_state import TorchState
from weft.checkpoints.forms import ListForm, Plain, TableForm
from weft.checkpoints.manifest import FORMAT, FileEntry, Manifest, WorkerPart, versions
from weft.core.errors import CheckpointError, ConfigError


def framework(*sizes: int) -> TorchState:
    """A model of linear layers of these sizes."""
    model = nn.Sequential(*(nn.Linear(size, 2) for size in sizes))
    return TorchState(lambda: model, [])


def manifest(*sizes: int) -> Manifest:
    return Manifest(FORMAT, 3, 1, facts(), versions(), framework(*sizes).layout(), [])


class Counted:
    """An object that a script keeps."""

    def __init__(self) -> None:
        self.state: Any = None

    def load_state_dict(self, state: Any) -> None:
        self.state = state


def part_of(form: Any) -> WorkerPart:
    return WorkerPart(0, 0, 0, 1.0, FileEntry("f", 0, "", []), form)


def test_a_state_comes_back_as_it_was() -> None:
    state: dict[Any, Any] = {
        "w": torch.arange(3.0),
        "lr": 0.5,
        "deep": [{"n": np.arange(2)}, (None, "text", True)],
        4: "by number",
    }
    form, tensors = packed(state, framework())
    assert len(tensors) == 2
    back = unpacked(part_of(form), tensors, framework())
    assert torch.equal(back["w"], state["w"])
    assert back["deep"][0]["n"].tolist() == [0, 1]
    assert (back["lr"], back["deep"][1], back[4]) == (0.5, (None, "text", True), "by number")


def test_what_has_no_plain_form_is_refused_by_its_name() -> None:
    with pytest.raises(ConfigError, match=r"'kept\.f' is a builtins\.builtin_function_or_method, which a"):
        packed({"kept": {"f": len}}, framework())


def test_a_part_that_refers_to_a_tensor_that_is_not_there_is_refused() -> None:
    form, _ = packed({"w": torch.zeros(2)}, framework())
    with pytest.raises(CheckpointError, match=r"the checkpoint refers to what it has not: .*\n  Use an older one"):
        unpacked(part_of(form), {}, framework())


def test_a_part_with_a_key_that_cannot_be_one_is_refused() -> None:
    odd = TableForm("dict", [(ListForm([]), Plain(1))])
    with pytest.raises(CheckpointError, match=r"the checkpoint refers to what it has not: .*\n  Use an older one"):
        unpacked(part_of(odd), {}, framework())


@pytest.mark.parametrize(
    "error", [TypeError("no dict"), KeyError("model"), IndexError("of a list"), RuntimeError("no")]
)
def test_what_a_malformed_state_raises_is_a_refusal_of_the_checkpoint(error: Exception) -> None:
    with pytest.raises(CheckpointError) as caught, restoring():
        raise error
    assert str(caught.value) == (
        f"the checkpoint cannot be restored: {type(error).__name__}: {error}.\n"
        "  Use an older one, or the script that it was made with."
    )


def test_the_checkpoint_of_such_a_model_fits() -> None:
    check_fits(manifest(3, 4), framework(3, 4))


@pytest.mark.parametrize(
    ("theirs", "mine", "message"),
    [
        ((3,), (4,), r"has 0.weight \(2, 3\) torch.float32 where the script's model has 0.weight \(2, 4\)"),
        ((3, 3), (3,), r"has 1.weight \(2, 3\) torch.float32 where the script's model has nothing"),
        ((3,), (3, 3), r"has nothing where the script's model has 1.weight \(2, 3\)"),
    ],
)
def test_the_first_tensor_that_differs_is_named(theirs: tuple[int, ...], mine: tuple[int, ...], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        check_fits(manifest(*theirs), framework(*mine))


@pytest.mark.parametrize("name", SAME_VERSIONS)
def test_another_version_of_a_library_is_refused(name: str) -> None:
    other = replace(manifest(3), versions=versions() | {name: "0.0"})
    with pytest.raises(CheckpointError, match=re.escape(f"made with {name} 0.0, but this is {versions()[name]}.\n")):
        check_fits(other, framework(3))


def test_objects_are_loaded_by_their_names() -> None:
    kept = {"ema": Counted(), "scheduler": Counted()}
    load_kept(kept, {"scheduler": {"a": 1}, "ema": {"b": 2}})
    assert (kept["ema"].state, kept["scheduler"].state) == ({"b": 2}, {"a": 1})


@pytest.mark.parametrize(
    ("mine", "theirs", "message"),
    [
        ([], ["ema"], r"'ema' the checkpoint has, but the script does not keep\.\n.*worker\.keep\(ema=\.\.\.\)"),
        (["ema", "other"], ["ema"], r"'other' the checkpoint has not\.\n.*worker\.keep\(ema=\.\.\.\)"),
    ],
)
def test_objects_that_are_not_the_same_are_refused_by_name(mine: list[str], theirs: list[str], message: str) -> None:
    objects = {name: Counted() for name in mine}
    with pytest.raises(CheckpointError, match=message):
        load_kept(objects, {name: {} for name in theirs})
    assert all(each.state is None for each in objects.values())


def test_a_script_that_goes_on_with_other_arguments_is_told_what_they_were() -> None:
    theirs, mine = (replace(facts(), arguments=words) for words in (["--lr", "0.1 or so"], ["--lr", "0.5"]))
    assert other_arguments(theirs, theirs) == ""
    assert other_arguments(theirs, mine) == (
        "; its arguments were '--lr '0.1 or so'' then, and what is restored, learning rates too, is as it was"
    )
    assert other_arguments(facts(), mine).startswith("; its arguments were none then")

"""The manifest: hostile ones are refused although their digests are right."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.checkpoints.written import write_checkpoint

from weft.checkpoints.manifest import encode, file_name, read_manifest, versions
from weft.checkpoints.tensor_file import TensorEntry
from weft.core.errors import CheckpointError
from weft.data.share_records import HandedRound, HandedRounds, HandedShares, Reached


def rewritten(path: Path, **changes: Any) -> Path:
    """The checkpoint with another manifest, whose digest is right."""
    (path / "manifest.json").write_bytes(encode(msgspec.structs.replace(read_manifest(path), **changes)))
    return path


def with_file(path: Path, **changes: Any) -> Path:
    part = read_manifest(path).workers[0]
    file = msgspec.structs.replace(part.file, **changes)
    return rewritten(path, workers=[msgspec.structs.replace(part, file=file)])


def test_a_manifest_says_where_the_run_was(tmp_path: Path) -> None:
    manifest = read_manifest(write_checkpoint(tmp_path, 12))
    assert (manifest.step, manifest.epoch, manifest.place) == (12, 1, "step 12, 1 of 3 epochs and 2 batches")
    assert manifest.num_bytes == manifest.workers[0].file.size > 400
    assert manifest.versions == versions()
    assert {"python", "numpy", "weft"} <= versions().keys()


@pytest.mark.parametrize("name", ["../tensors.safetensors", "/etc/passwd", "worker-00000.safetensors", ""])
def test_a_manifest_that_names_other_files_is_refused(name: str, tmp_path: Path) -> None:
    path = with_file(write_checkpoint(tmp_path, 1), name=name)
    with pytest.raises(CheckpointError, match="its files are not one for each worker"):
        read_manifest(path)


@pytest.mark.parametrize(
    ("entry", "because"),
    [
        (TensorEntry("../a", "F32", [1]), "a tensor is called '../a'"),
        (TensorEntry("a\n", "F32", [1]), r"a tensor is called 'a\\n'"),
        (TensorEntry("a", "OBJECT", [1]), "'a' is of type 'OBJECT'"),
        (TensorEntry("a", "F32", [-1]), r"'a' has the shape \[-1\]"),
        (TensorEntry("a", "F32", [2**60]), "'a' has the shape"),
        (TensorEntry("a", "F32", [1] * 100), "'a' has the shape"),
    ],
)
def test_a_layout_that_no_checkpoint_has_is_refused(entry: TensorEntry, because: str, tmp_path: Path) -> None:
    path = with_file(write_checkpoint(tmp_path, 1), tensors=[entry])
    with pytest.raises(CheckpointError, match=because):
        read_manifest(path)


def test_another_format_and_impossible_places_are_refused(tmp_path: Path) -> None:
    path = rewritten(write_checkpoint(tmp_path, 1), format=99)
    with pytest.raises(CheckpointError) as caught:
        read_manifest(path)
    assert str(caught.value) == (
        f"'{path / 'manifest.json'}' cannot be read: it has format 99, but this version of Weft reads format 1.\n"
        "  Use an older checkpoint."
    )
    path = rewritten(write_checkpoint(tmp_path, 2), step=-2)
    with pytest.raises(CheckpointError, match="no place in a run"):
        read_manifest(path)


def test_a_manifest_of_no_workers_is_refused(tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path, 1)
    facts = msgspec.structs.replace(read_manifest(path).facts, num_workers=0)
    with pytest.raises(CheckpointError, match="it is of no workers"):
        read_manifest(rewritten(path, facts=facts, workers=[]))


def test_shares_that_cannot_be_are_refused(tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path, 1)
    part = read_manifest(path).workers[0]
    rounds = HandedRounds([HandedRound([4], True, [0])], 0, None, 1)
    shares = HandedShares(0, 0, 0, [0], [], {}, {0: rounds}, 0, 0)
    odd = msgspec.structs.replace(part, shares=shares, reached=Reached(1, {0: 0}))
    with pytest.raises(CheckpointError, match="what it says of worker 0 cannot be: a round of its shares has no"):
        read_manifest(rewritten(path, workers=[odd]))


def test_every_worker_has_a_file_of_its_own() -> None:
    assert [file_name(rank) for rank in (0, 1, 12)] == [
        "tensors.safetensors",
        "worker-00001.safetensors",
        "worker-00012.safetensors",
    ]

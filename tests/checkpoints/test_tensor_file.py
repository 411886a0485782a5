"""Files of tensors: any reader of safetensors reads them, and hostile ones are refused before anything is allocated."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from weft.checkpoints.disk import Disk
from weft.checkpoints.forms import Packing
from weft.checkpoints.tensor_file import TensorEntry, clean_name, file_pieces, layout_of, read_tensors
from weft.core.errors import CheckpointError

LAYOUT = [TensorEntry("a", "F32", [2]), TensorEntry("b", "U8", [3])]


def hostile(path: Path, header: Any, data: bytes = bytes(11), length: int | None = None) -> int:
    """Write a file with this header; its size."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    whole = (len(text) if length is None else length).to_bytes(8, "little") + text + data
    path.write_bytes(whole)
    return len(whole)


def entry(dtype: str, shape: list[int], start: int, stop: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, stop]}


A, B = entry("F32", [2], 0, 8), entry("U8", [3], 8, 11)


def test_what_is_written_any_reader_of_safetensors_reads(tmp_path: Path) -> None:
    packing = Packing(lambda value: None)
    arrays = {"a": np.arange(5.0), "b": np.ones((2, 0, 3), "f4"), "c": np.array(7), "d": np.array([True, False])}
    packing.pack(arrays, "x")
    size, _ = Disk().write_file(tmp_path / "t", file_pieces(packing.tensors))
    theirs = load_file(tmp_path / "t")
    ours = read_tensors(tmp_path / "t", size, layout_of(packing.tensors))
    for name, array in arrays.items():
        for back in (theirs[f"x.{name}"], ours[f"x.{name}"].as_array()):
            assert (back.dtype, back.shape, back.tolist()) == (array.dtype, array.shape, array.tolist())


def test_what_others_write_is_read(tmp_path: Path) -> None:
    save_file({"a": np.array([1, 2], "f4"), "b": np.array([3, 4, 5], "u1")}, tmp_path / "t")
    read = read_tensors(tmp_path / "t", (tmp_path / "t").stat().st_size, LAYOUT)
    assert (read["a"].as_array().tolist(), read["b"].as_array().tolist()) == ([1, 2], [3, 4, 5])


@pytest.mark.parametrize(
    ("header", "more", "because"),
    [
        ({"a": A, "b": B}, {"length": 2**63}, "its header would have 9,223,372,036,854,775,808 bytes in a file of"),
        ({"a": A, "b": B}, {"length": 10**6}, "its header would have 1,000,000 bytes"),
        (b"{", {}, "its header cannot be read"),
        (b"[]", {}, "its header cannot be read"),
        (b"[" * 100_000, {}, "its header cannot be read"),
        (b"\x80\x04", {}, "its header cannot be read"),
        ({"a": A}, {}, "its tensors are not those of the manifest: 'b'"),
        ({"a": A, "b": B, "../c": B}, {}, "its tensors are not those of the manifest: '../c'"),
        ({"a": entry("F32", [2], 0, 9), "b": B}, {}, r"'a' has 8 bytes, but its offsets are \[0, 9\]"),
        ({"a": entry("F32", [2], -8, 0), "b": B}, {}, r"'a' has 8 bytes, but its offsets are \[-8, 0\]"),
        ({"a": A, "b": entry("U8", [3], 0, 3)}, {}, "but its offsets are"),
        ({"a": A, "b": entry("U8", [3], 10**12, 10**12 + 3)}, {}, "but its offsets are"),
        ({"a": entry("F64", [1], 0, 8), "b": B}, {}, r"'a' is \(1,\) F64, the manifest says a \(2,\) F32"),
        ({"a": entry("F32", [2**40], 0, 8), "b": B}, {}, "the manifest says"),
        ({"a": A, "b": B}, {"data": bytes(12)}, "its tensors have 11 bytes, but there are 12"),
        ({"a": A, "b": B}, {"data": bytes(10)}, "its tensors have 11 bytes, but there are 10"),
    ],
)
def test_a_header_that_is_not_what_the_layout_says_is_refused(
    header: Any, more: dict[str, Any], because: str, tmp_path: Path
) -> None:
    size = hostile(tmp_path / "t", header, **more)
    with pytest.raises(CheckpointError, match=because) as caught:
        read_tensors(tmp_path / "t", size, LAYOUT)
    assert str(caught.value).endswith(".\n  Use an older checkpoint.")


def test_names_are_cleaned_so_that_they_lead_nowhere() -> None:
    assert clean_name("a.b/c") == "a.b/c"
    assert clean_name("/../\x00" + "z" * 9999).startswith("?/?/?z")
    assert len(clean_name("z" * 9999)) == 1024

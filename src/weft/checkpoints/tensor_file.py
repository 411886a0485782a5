"""A file of tensors in the safetensors format, written from memory and checked before anything of it is used.

The format: 8 bytes with the length of the header (little-endian), the header (JSON: name -> type, shape, offsets), and
the tensors' bytes without gaps. Any reader of safetensors reads it.
"""

import mmap
import os
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec import Struct

from weft.core.errors import CheckpointError

ITEM_BYTES = {
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3"), 1),
    **dict.fromkeys(("I16", "U16", "F16", "BF16"), 2),
    **dict.fromkeys(("I32", "U32", "F32"), 4),
    **dict.fromkeys(("I64", "U64", "F64", "C64"), 8),
}
"""Bytes of one number by its type, as safetensors calls it."""
NUMPY_TYPES = {
    np.dtype(kind): name
    for kind, name in [
        ("bool", "BOOL"), ("uint8", "U8"), ("int8", "I8"), ("int16", "I16"), ("uint16", "U16"), ("float16", "F16"),
        ("int32", "I32"), ("uint32", "U32"), ("float32", "F32"), ("int64", "I64"), ("uint64", "U64"),
        ("float64", "F64"), ("complex64", "C64"),
    ]
}  # fmt: skip
HEADER_BYTES_MAX = 64 << 20
LENGTH_BYTES = 8
ALIGN = 8
NAME_CHARACTERS_MAX = 1024
DIMENSIONS_MAX = 64


class TensorBytes(NamedTuple):
    """A tensor: its type, its shape, and its bytes in C order."""

    dtype: str
    shape: tuple[int, ...]
    data: memoryview

    def as_array(self) -> Any:
        """A numpy array of its own memory."""
        kind = next(kind for kind, name in NUMPY_TYPES.items() if name == self.dtype)
        return np.frombuffer(bytearray(self.data), kind).reshape(self.shape)


class TensorEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """A tensor of the layout: what the header of its file must say."""

    name: str
    dtype: str
    shape: list[int]

    def __str__(self) -> str:
        return f"{self.name} {tuple(self.shape)} {self.dtype}"


class HeaderEntry(Struct, frozen=True, forbid_unknown_fields=True):
    dtype: str
    shape: list[int]
    data_offsets: tuple[int, int]


def clean_name(name: str) -> str:
    """A name as checkpoints have it: printable, not too long, and not one that leads out of a folder."""
    printable = "".join(letter if letter.isprintable() else "?" for letter in name[:NAME_CHARACTERS_MAX])
    return "/".join("?" if part in ("", ".", "..") else part for part in printable.split("/"))


def layout_of(tensors: Mapping[str, TensorBytes]) -> list[TensorEntry]:
    return [TensorEntry(name, tensor.dtype, list(tensor.shape)) for name, tensor in tensors.items()]


def file_pieces(tensors: Mapping[str, TensorBytes]) -> Iterator[memoryview]:
    """The bytes of a file with these tensors, piece by piece."""
    header, stop = {}, 0
    for name, tensor in tensors.items():
        start, stop = stop, stop + len(tensor.data)
        header[name] = HeaderEntry(tensor.dtype, list(tensor.shape), (start, stop))
    text = msgspec.json.encode(header)
    text += b" " * (-len(text) % ALIGN)
    yield memoryview(len(text).to_bytes(LENGTH_BYTES, "little") + text)
    for tensor in tensors.values():
        yield tensor.data


def read_tensors(path: Path, size: int, layout: Sequence[TensorEntry]) -> dict[str, TensorBytes]:
    """The tensors of a file, as views of a private mapping of it.

    Raises CheckpointError, before anything is allocated for a tensor, if the file is not of this size, or its header
    is not exactly what the layout says.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError as error:
        raise refused(path, f"it cannot be opened: {error.strerror}") from error
    try:
        found = os.fstat(descriptor).st_size
        if found != size:
            raise refused(path, f"it has {found:,} bytes, but the manifest says {size:,}")
        header, begin = _header(path, descriptor, size)
        _check_layout(path, header, layout, size - begin)
        memory = memoryview(mmap.mmap(descriptor, size, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE))
    finally:
        os.close(descriptor)
    return {
        name: TensorBytes(
            entry.dtype, tuple(entry.shape), memory[begin + entry.data_offsets[0] : begin + entry.data_offsets[1]]
        )
        for name, entry in header.items()
    }


def _header(path: Path, descriptor: int, size: int) -> tuple[dict[str, HeaderEntry], int]:
    """The header of a file, and where its tensors begin."""
    length = int.from_bytes(os.pread(descriptor, LENGTH_BYTES, 0), "little")
    if size < LENGTH_BYTES or length > min(size - LENGTH_BYTES, HEADER_BYTES_MAX):
        raise refused(path, f"its header would have {length:,} bytes in a file of {size:,}")
    try:
        header = msgspec.json.decode(os.pread(descriptor, length, LENGTH_BYTES), type=dict[str, HeaderEntry])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise refused(path, f"its header cannot be read: {error}") from error
    return header, LENGTH_BYTES + length


def _check_layout(path: Path, header: Mapping[str, HeaderEntry], layout: Sequence[TensorEntry], room: int) -> None:
    expected = {entry.name: entry for entry in layout}
    if len(expected) != len(layout) or header.keys() != expected.keys():
        odd = sorted(header.keys() ^ expected.keys())[:3]
        raise refused(path, f"its tensors are not those of the manifest: {', '.join(map(repr, odd)) or 'a name twice'}")
    stop = 0
    for name, entry in sorted(header.items(), key=lambda item: item[1].data_offsets):
        check_entry(path, expected[name])
        if (entry.dtype, entry.shape) != (expected[name].dtype, expected[name].shape):
            raise refused(path, f"'{name}' is {tuple(entry.shape)} {entry.dtype}, the manifest says {expected[name]}")
        num_bytes = prod(entry.shape) * ITEM_BYTES[entry.dtype]
        if entry.data_offsets != (stop, stop + num_bytes):
            raise refused(path, f"'{name}' has {num_bytes:,} bytes, but its offsets are {list(entry.data_offsets)}")
        stop += num_bytes
    if stop != room:
        raise refused(path, f"its tensors have {stop:,} bytes, but there are {room:,}")


def check_entry(path: Path, entry: TensorEntry) -> None:
    """Refuse a name, type or shape that no checkpoint has."""
    if entry.name != clean_name(entry.name):
        raise refused(path, f"a tensor is called {entry.name[:80]!r}")
    if entry.dtype not in ITEM_BYTES:
        raise refused(path, f"'{entry.name}' is of type '{entry.dtype[:80]}', which is not known")
    if len(entry.shape) > DIMENSIONS_MAX or any(not 0 <= side < 2**48 for side in entry.shape):
        raise refused(path, f"'{entry.name}' has the shape {entry.shape[:8]}")


def refused(path: Path, why: str) -> CheckpointError:
    """What is said of a file that is not what its checkpoint says."""
    return CheckpointError(f"'{path}' is no complete part of a checkpoint: {why}.\n  Use an older checkpoint.")

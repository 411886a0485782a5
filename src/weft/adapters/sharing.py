"""Stores values of `weft.once` for all processes of a host: arrays and tensors in one memfd, the rest as plain data.

Every process maps the memfd privately (MAP_PRIVATE): it sees what was loaded once, and what it writes stays its own.
"""

import ctypes
import fcntl
import mmap
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import msgspec
import numpy as np

ALIGN = 64
KEEP_SIZE, PUNCH_HOLE = 1, 2
"""Flags of fallocate(2)."""
PLAIN = (type(None), bool, int, float, str, bytes)


class NotShareable(Exception):
    """A value that has no plain form; every process loads it for itself."""


class Memory:
    """The memfd, to which arrays are appended one after another."""

    def __init__(self, fd: int, start: int) -> None:
        self._fd = fd
        self.stop = start

    def put(self, array: Any) -> dict[str, Any]:
        """Append an array; returns its offset, type and shape."""
        contiguous = np.ascontiguousarray(array)
        start = -(-self.stop // ALIGN) * ALIGN
        self.stop = start + contiguous.nbytes
        os.ftruncate(self._fd, max(self.stop, os.fstat(self._fd).st_size))
        raw, done = contiguous.reshape(-1).view(np.uint8).data, 0
        while done < len(raw):
            done += os.pwrite(self._fd, raw[done:], start + done)
        return {"start": start, "dtype": contiguous.dtype.str, "shape": list(array.shape)}


class Nowhere(Memory):
    """Memory that keeps nothing: to see whether a value has a plain form."""

    def put(self, array: Any) -> dict[str, Any]:
        return {}


def store(fd: int, start: int, value: Any) -> tuple[bytes | None, int]:
    """Append a value to the memfd, at `start` or behind what others have appended meanwhile.

    Returns its form (b'' if it cannot be shared) and where it ends.
    """
    form, _, stop = append(fd, start, value)
    return form, stop if form else start


def append(fd: int, start: int, value: Any) -> tuple[bytes, int, int]:
    """Append a value as `store` does; returns its form, where its memory begins, and where that ends."""
    with _alone(fd):
        end = os.fstat(fd).st_size
        memory = Memory(fd, max(start, end))
        begin = memory.stop
        try:
            return msgspec.msgpack.encode(_form(value, memory)), begin, memory.stop
        except (NotShareable, OverflowError, UnicodeEncodeError):
            os.ftruncate(fd, end)
            return b"", begin, begin


@contextmanager
def _alone(fd: int) -> Iterator[None]:
    """A context that holds an exclusive lock on the memfd (lockf); the kernel releases it if this process dies."""
    fcntl.lockf(fd, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.lockf(fd, fcntl.LOCK_UN)


def load(fd: int, form: bytes) -> Any:
    """The value of `form`; its arrays are views of a private mapping of the memfd."""
    size = os.fstat(fd).st_size
    memory = mmap.mmap(fd, size, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE) if size else None
    return _value(msgspec.msgpack.decode(form), memory)


def can_share(value: Any) -> bool:
    """Whether a value has a plain form."""
    try:
        msgspec.msgpack.encode(_form(value, Nowhere(-1, 0)))
    except (NotShareable, OverflowError, UnicodeEncodeError):
        return False
    return True


def free(fd: int, start: int, stop: int) -> None:
    """Give the memory of the whole pages between these places back to the system; they read as zeros from now on."""
    first, last = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE, stop // mmap.PAGESIZE * mmap.PAGESIZE
    if last > first:
        size = ctypes.c_longlong(last - first)
        ctypes.CDLL(None).fallocate(fd, PUNCH_HOLE | KEEP_SIZE, ctypes.c_longlong(first), size)


def _form(value: Any, memory: Memory) -> Any:
    torch: Any = sys.modules.get("torch")
    if type(value) in PLAIN:
        return {"is": "plain", "value": value}
    if type(value) in (list, tuple):
        return {"is": type(value).__name__, "items": [_form(item, memory) for item in value]}
    if type(value) is dict and all(type(key) is str for key in value):
        return {"is": "dict", "items": {key: _form(item, memory) for key, item in value.items()}}
    if type(value) is np.ndarray and value.dtype.kind not in "OV":
        return {"is": "array", **memory.put(value)}
    if torch is not None and type(value) is torch.Tensor and value.device.type == "cpu" and not value.requires_grad:
        try:
            return {"is": "tensor", **memory.put(value.numpy())}
        except (TypeError, RuntimeError):  # bfloat16, sparse and others that numpy does not know
            raise NotShareable from None
    raise NotShareable


def _value(form: Any, memory: mmap.mmap | None) -> Any:
    kind = form["is"]
    if kind == "plain":
        return form["value"]
    if kind == "dict":
        return {key: _value(item, memory) for key, item in form["items"].items()}
    if kind in ("list", "tuple"):
        items = [_value(item, memory) for item in form["items"]]
        return items if kind == "list" else tuple(items)
    shape, dtype = form["shape"], np.dtype(form["dtype"])
    count = int(np.prod(shape, dtype=np.int64))
    if memory is None or not count:
        array = np.zeros(shape, dtype)
    else:
        array = np.frombuffer(memory, dtype, count, form["start"]).reshape(shape)
    return array if kind == "array" else import_module("torch").from_numpy(array)

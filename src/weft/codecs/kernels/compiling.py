"""How loops are compiled: once for float32 and once for float64, kept on disk, without the interpreter's lock.

A kernel that calls another file's is not compiled again when only that file changes: shared ones are in `shared.py`,
and whoever changes it empties `kernels/__pycache__`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

from numba import boolean, float32, float64, int32, int64, njit, types, uint8, uint16, uint32, uint64, void

Function = TypeVar("Function", bound=Callable[..., Any])


def read(kind: Any) -> Any:
    """An array that is only read: it may begin at any byte, and its owner may have locked it."""
    return types.Array(kind, 1, "C", readonly=True, aligned=False)


def written(kind: Any) -> Any:
    """An array that is written; it may begin at any byte, too."""
    return types.Array(kind, 1, "C", aligned=False)


class Kinds(NamedTuple):
    """The numbers that a kernel is compiled for, and the integers of their size."""

    real: Any
    bits: Any


SINGLE, DOUBLE = Kinds(float32, int32), Kinds(float64, int64)


def kernel(*signatures: Any) -> Callable[[Function], Function]:
    """Compile for these signatures when the file is imported, or load what was compiled before."""
    compiled = njit(list(signatures), cache=True, nogil=True, error_model="numpy")
    return cast(Callable[[Function], Function], compiled)


def shared(function: Function) -> Function:
    """What kernels call: compiled into each of them."""
    return cast(Function, njit(function, cache=True, nogil=True, error_model="numpy"))


def reordering(function: Function) -> Function:
    """The same for sums, which may be added up in any order."""
    return cast(Function, njit(function, cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "nsz"}))


__all__ = [
    "DOUBLE",
    "SINGLE",
    "boolean",
    "float32",
    "float64",
    "int32",
    "int64",
    "kernel",
    "read",
    "reordering",
    "shared",
    "types",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "void",
    "written",
]

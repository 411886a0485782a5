"""How kernels are compiled by numba: ahead of use, for float32 and for float64, cached on disk, and without the GIL.

| decorator    | compiles                                          | floating-point sums                               |
|--------------|---------------------------------------------------|---------------------------------------------------|
| `kernel`     | entry points, for explicit signatures, at import  | in the order that is written                      |
| `shared`     | helpers, inlined into each kernel that calls them | in the order that is written                      |
| `reordering` | helpers whose sums may be vectorised              | in any order (LLVM's `reassoc`): last digits vary |

numba's cache checks only the file of the kernel itself. After a change to a helper of another file (`shared.py`,
`lanes.py`), remove `kernels/__pycache__`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

from numba import boolean, float32, float64, int32, int64, njit, types, uint8, uint16, uint32, uint64, void

Function = TypeVar("Function", bound=Callable[..., Any])


def read(kind: Any) -> Any:
    """The type of an array that is only read: it may be unaligned (part of a frame), and read-only in numpy."""
    return types.Array(kind, 1, "C", readonly=True, aligned=False)


def written(kind: Any) -> Any:
    """The type of an array that is written; it may be unaligned, too."""
    return types.Array(kind, 1, "C", aligned=False)


class Kinds(NamedTuple):
    """A floating-point type that kernels are compiled for, and the integer type of its size."""

    real: Any
    bits: Any


SINGLE, DOUBLE = Kinds(float32, int32), Kinds(float64, int64)


def kernel(*signatures: Any) -> Callable[[Function], Function]:
    """Compile for these signatures when the module is imported, or load the result from the cache on disk.

    `nogil` lets the worker's other threads run meanwhile; numpy's error model gives inf rather than ZeroDivisionError.
    """
    compiled = njit(list(signatures), cache=True, nogil=True, error_model="numpy")
    return cast(Callable[[Function], Function], compiled)


def shared(function: Function) -> Function:
    """A helper that kernels call; it is compiled into each of them."""
    return cast(Function, njit(function, cache=True, nogil=True, error_model="numpy"))


def reordering(function: Function) -> Function:
    """A helper whose sums LLVM may reorder, so that it can vectorise them."""
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

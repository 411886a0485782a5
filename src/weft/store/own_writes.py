"""What a script writes to its parameters between steps, where a strategy would overwrite it: found, and refused.

Every other strategy keeps such writes: its protocol adds to `params` and never replaces what lies there.
"""

from ctypes import CDLL, c_size_t, c_void_p
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import ConfigError
from weft.core.names import PARAMS
from weft.core.seat import Replica, name_at

Array = NDArray[Any]

_memcmp = CDLL(None).memcmp
_memcmp.argtypes = [c_void_p, c_void_p, c_size_t]


def same_bytes(one: Array, other: Array) -> bool:
    """Two arrays of one size hold the same bits, NaNs included. Much faster than numpy: it makes no third array."""
    return not _memcmp(one.ctypes.data, other.ctypes.data, one.nbytes)


class OwnWrites:
    """Remembers the parameters that a script is given, and compares when it comes back."""

    def __init__(self, replica: Replica, name: str) -> None:
        self._replica = replica
        self._name = name
        """Of the strategy."""
        self._given: dict[int, Array] = {}
        self._has_written = False
        """As far as is known; it may still take it back."""

    def begin(self) -> None:
        """The script is about to run, with parameters that may be others than before unless it has written to them."""
        if self._has_written:
            return
        for bucket, kind in enumerate(self._replica.buckets):
            if kind.trainable:
                array = self._replica.array(PARAMS, bucket)
                if bucket not in self._given:
                    self._given[bucket] = np.empty_like(array)
                np.copyto(self._given[bucket], array)

    def look(self) -> None:
        """The script pauses within an iteration."""
        self._has_written = bool(self._written())

    def _written(self) -> list[int]:
        """The buckets that are not as they were given."""
        array = self._replica.array
        return [bucket for bucket, given in self._given.items() if not same_bytes(array(PARAMS, bucket), given)]

    def refuse(self) -> None:
        """Raise ConfigError if the script has written to a parameter, and has not taken it back."""
        self.look()
        if not self._has_written:
            return
        bucket = self._written()[0]
        array, given = self._replica.array(PARAMS, bucket), self._given[bucket]
        kind = f"i{array.itemsize}"
        element = int(np.flatnonzero(array.view(kind) != given.view(kind))[0])
        raise ConfigError(
            f"the script wrote to '{name_at(self._replica, bucket, element)}' between two steps, but under "
            f"'{self._name}' parameters come from elsewhere, and what it wrote would be lost.\n"
            "  Use allreduce, local_sgd or gossip, which keep such writes, or write before weft.join."
        )

"""A digest of the first item of a stream: different digests show that workers do not read the same stream."""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import numpy as np


def digest_of_item(item: Any, num_elements_max: int | None = None) -> str | None:
    """A digest of arrays, tensors, numbers and strings in lists and mappings; None if `item` has anything else.

    Of each array, the first `num_elements_max` elements count.
    """
    pieces: list[bytes] = []
    if not _collect(item, pieces, num_elements_max):
        return None
    digest = blake2b(digest_size=16)
    for piece in pieces:
        digest.update(len(piece).to_bytes(8, "little") + piece)
    return digest.hexdigest()


def _collect(item: Any, pieces: list[bytes], num_max: int | None) -> bool:
    """Append an item's bytes to `pieces`; False if its type is not known."""
    if isinstance(item, str | bytes | int | float | None):
        pieces.append(repr(item).encode())
        return True
    if isinstance(item, Mapping):
        return all(_collect(part, pieces, num_max) for pair in item.items() for part in pair)
    if isinstance(item, tuple | list):
        return all(_collect(part, pieces, num_max) for part in item)
    if not hasattr(item, "shape"):
        return False
    try:
        array = np.asarray(item)
    except (TypeError, RuntimeError):  # on a device, or of a type that numpy does not know
        return False
    pieces.append((array if num_max is None else array.flat[:num_max]).tobytes())
    return array.dtype.kind not in "OV"

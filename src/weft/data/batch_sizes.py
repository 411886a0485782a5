"""How many samples a batch has that somebody else has made, by the shapes of what is in it."""

from collections.abc import Mapping
from typing import Any


def num_samples_in(batch: Any) -> int | None:
    """The first dimension of the first tensor or array in a batch, or how many items a list has; None: unknown.

    A tuple or list of tensors whose first dimensions differ is a list of samples, too, as of images of all sizes.
    """
    shape = getattr(batch, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else None
    if isinstance(batch, Mapping):
        return _first_of(list(batch.values()))
    if not isinstance(batch, tuple | list):
        return None
    shapes = [getattr(item, "shape", None) for item in batch]
    if len(batch) > 1 and all(shapes) and len({shape[0] for shape in shapes if shape}) > 1:
        return len(batch)
    if any(hasattr(item, "shape") or isinstance(item, Mapping | tuple | list) for item in batch):
        return _first_of(batch)
    return len(batch)


def _first_of(parts: "list[Any] | tuple[Any, ...]") -> int | None:
    return next((size for size in map(num_samples_in, parts) if size is not None), None)

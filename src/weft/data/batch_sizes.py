"""How many samples a batch has that somebody else has made, by the shapes of what is in it."""

from collections.abc import Mapping
from typing import Any


def num_samples_in(batch: Any) -> int | None:
    """The first dimension of the first tensor or array in a batch, or how many items a list has; None: unknown.

    Tensors side by side whose first dimensions differ do not tell: they may be images and all of their boxes, or
    samples of all sizes.
    """
    shape = getattr(batch, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else None
    is_mapping = isinstance(batch, Mapping)
    if not is_mapping and not isinstance(batch, tuple | list):
        return None
    parts = list(batch.values()) if is_mapping else batch
    shapes = [getattr(part, "shape", None) for part in parts]
    if len({int(shape[0]) for shape in shapes if shape}) > 1:
        return None
    if is_mapping or any(hasattr(part, "shape") or isinstance(part, Mapping | tuple | list) for part in parts):
        return next((size for size in map(num_samples_in, parts) if size is not None), None)
    return len(parts)

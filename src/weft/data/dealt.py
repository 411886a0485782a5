"""Dealt shares: portions of the whole data set, handed out one by one while an epoch goes on."""

from weft.core.errors import ConfigError
from weft.data.static import Span


def portions(
    num_samples: int, num_workers: int, batch_size: int, drop_last: bool = False, global_batch: int | None = None
) -> list[Span]:
    """The spans of one epoch's order that are handed out; every sample is in one of them.

    Each has batch_size samples, or an even part of global_batch if that is given; the last may be smaller, and
    drop_last drops it then.
    """
    if batch_size < 1:
        raise ConfigError(f"batch_size is {batch_size}, but a step needs at least 1 sample.\n  Use batch_size=1.")
    size = batch_size if global_batch is None else max(1, global_batch // num_workers)
    spans = [(start, min(start + size, num_samples)) for start in range(0, num_samples, size)]
    if drop_last and len(spans) > 1 and spans[-1][1] - spans[-1][0] < size:
        spans.pop()
    return spans

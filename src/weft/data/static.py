"""Static shares: every global batch is split evenly, and all workers have the same number of steps."""

from weft.core.errors import ConfigError

Span = tuple[int, int]


def global_batches(
    num_samples: int, num_workers: int, batch_size: int, drop_last: bool = False, global_batch: int | None = None
) -> list[Span]:
    """The spans of one epoch's order that make up its steps; every sample is in one of them.

    batch_size is per worker; global_batch, if given, is what all have together instead. The last global
    batch may be smaller; one with fewer samples than workers joins the one before, so that nobody is left
    without a sample. drop_last drops it instead.
    """
    if batch_size < 1:
        raise ConfigError(f"batch_size is {batch_size}, but a step needs at least 1 sample.\n  Use batch_size=1.")
    if num_samples < num_workers:
        raise ConfigError(
            f"there are {num_samples} samples for {num_workers} workers, and each needs at least 1 in a step.\n"
            f"  Use at most {max(num_samples, 1)} workers, or more data."
        )
    size = batch_size * num_workers if global_batch is None else global_batch
    spans = [(start, min(start + size, num_samples)) for start in range(0, num_samples, size)]
    last = spans[-1][1] - spans[-1][0]
    if len(spans) > 1 and last < size:
        if drop_last:
            spans.pop()
        elif last < num_workers:
            spans.pop()
            spans[-1] = (spans[-1][0], num_samples)
    return spans


def share_of(span: Span, rank: int, num_workers: int) -> Span:
    """One worker's contiguous share of a global batch; shares differ by one sample at most."""
    start, size = span[0], span[1] - span[0]
    return start + size * rank // num_workers, start + size * (rank + 1) // num_workers

"""What `worker.share` returns: an iterable of this worker's batches, with all other attributes of the data."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Batch = TypeVar("Batch", covariant=True)


class Shared(Generic[Batch]):
    """Iterable once for each epoch; every iteration is one share, which begins when its first batch is asked for.

    `len()` is the number of batches that this worker will get in an epoch. Whatever else is asked for (`dataset`,
    `batch_size`, `sampler`) is the data's own.
    """

    __slots__ = ("_begin", "_count", "_data", "_running")

    def __init__(self, data: Any, begin: Callable[[], Iterator[Batch]], count: Callable[[], int]) -> None:
        """`begin` starts a share; `count` is `len()`, and raises TypeError where the number of batches is not known."""
        self._data = data
        self._begin = begin
        self._count = count
        self._running: Iterator[Batch] | None = None

    def __iter__(self) -> Iterator[Batch]:
        """A new share of the data, or the rest of the one that next() has begun."""
        running, self._running = self._running, None
        return self._begin() if running is None else running

    def __next__(self) -> Batch:
        if self._running is None:
            self._running = self._begin()
        try:
            return next(self._running)
        except StopIteration:
            self._running = None
            raise

    def __len__(self) -> int:
        return self._count()

    def __getattr__(self, name: str) -> Any:
        if name in Shared.__slots__ or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(f"'Shared' object has no attribute '{name}'")  # copy() asks before _data is set
        return getattr(self._data, name)


@dataclass(frozen=True)
class Indices:
    """`num_samples` samples that are shared by their indices."""

    num_samples: int
    batch_size: int
    shuffle: bool

    @property
    def dataset(self) -> range:
        """The indices of the samples, which is all that Weft knows of them."""
        return range(self.num_samples)

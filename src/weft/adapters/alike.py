"""Random numbers that all workers have alike while they read what all of them read."""

import random
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, TypeVar

import numpy as np

Item = TypeVar("Item")


class Alike:
    """Within it, Python's and numpy's random numbers are those of the run's seed and the epoch, on every worker.

    It may be entered again and again, and goes on where it was left; outside, each worker has its own.
    """

    def __init__(self, seed: int, epoch: int) -> None:
        self._seed = random.Random(f"order/{seed}/{epoch}").getrandbits(63)
        self._alike: Any = None
        self._own: Any = None

    def _states(self) -> Any:
        return random.getstate(), np.random.get_state()

    def _restore(self, states: Any) -> None:
        plain, numpys = states
        random.setstate(plain)
        np.random.set_state(numpys)

    def _begin(self, seed: int) -> None:
        random.seed(seed)
        np.random.seed(seed % 2**32)

    def __enter__(self) -> None:
        self._own = self._states()
        if self._alike is None:
            self._begin(self._seed)
        else:
            self._restore(self._alike)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._alike = self._states()
        self._restore(self._own)

    def read(self, items: Iterable[Item]) -> Iterator[Item]:
        """The items, each read within."""
        with self:
            each = iter(items)
        while True:
            with self:
                try:
                    item = next(each)
                except StopIteration:
                    return
            yield item

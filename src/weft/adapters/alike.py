"""Gives all workers the same random numbers while they read data that all of them read."""

import random
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, TypeVar

import numpy as np

Item = TypeVar("Item")


class Alike:
    """A context in which Python's and numpy's random numbers follow from the run's seed and the epoch on every worker.

    It may be entered repeatedly, and goes on where it was left; outside, each worker has its own random numbers.
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
        """The items; each is read within the context, and used outside of it."""
        with self:
            each = iter(items)
        while True:
            with self:
                try:
                    item = next(each)
                except StopIteration:
                    return
            yield item

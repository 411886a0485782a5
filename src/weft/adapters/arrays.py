"""The array worker: `weft.join(arrays=...)` for scripts that compute gradients of numpy arrays themselves."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weft.adapters.array_replica import Array, ArrayReplica, Function
from weft.adapters.first_gradient import NUM_ELEMENTS_MAX
from weft.adapters.seeding import vary_by_rank
from weft.adapters.shared import Indices, Shared
from weft.adapters.streams import StreamWorker
from weft.adapters.worker import checked_samples
from weft.core.errors import ConfigError
from weft.core.rules import Rule
from weft.core.seat import Seat
from weft.core.strategy import Strategy

if TYPE_CHECKING:
    from weft.adapters.tuning import Tuning


class ArrayWorker(StreamWorker):
    """The worker of `weft.join(arrays=...)`: shares of index arrays, and explicit steps."""

    def __init__(self, seat: Seat, replica: ArrayReplica, arrays: Mapping[str, Array]) -> None:
        super().__init__(seat)
        seat.face = self
        self._replica = replica
        self._theirs = dict(arrays)
        self._given = {name: array.copy() for name, array in arrays.items()}
        """Copies of the user's arrays as they were when the last call returned."""
        self._refresh()
        checkpoints = getattr(seat, "checkpoints", None)
        if checkpoints is not None:
            from weft.adapters.array_state import ArrayState  # msgspec, which only scripts with checkpoints need

            self._keep_by(checkpoints, ArrayState(replica, self._take_written, self._refresh))

    def _refresh(self) -> None:
        """Put the current parameters into the arrays that the user holds."""
        for name, array in self._replica.views().items():
            self._theirs[name][...] = array
            self._given[name][...] = array

    def _take_written(self) -> None:
        """Take over what the script has written to its arrays since; added to changes that others made meanwhile."""
        for name, array in self._replica.views().items():
            theirs, given = self._theirs[name], self._given[name]
            if not np.array_equal(theirs, given, equal_nan=True):
                array[...] = theirs if np.array_equal(array, given) else array + (theirs - given)
                given[...] = theirs

    def hand_over_own(self, *, with_state: bool) -> Any:
        return self._replica.optimizer_state(with_state=with_state)

    def arrive(self, step: int, own: Any) -> None:
        super().arrive(step, own)
        for mine, theirs in zip(self._replica.optimizer_state(), own, strict=False):
            mine.update(theirs)
        self._refresh()

    def share(
        self, data: int | Iterable[Any], batch_size: int | None = None, shuffle: bool = True, *, sharded: bool = False
    ) -> Shared[Any]:
        """This worker's part of the data, once for each epoch in which it is iterated.

        Of a number of samples: index arrays, in an order that all workers know: its own of every global batch, or
        whole portions of batch_size as they are handed out. Of an iterable of batches: its own in turn, or, if it is
        `sharded`, all of them: what this worker iterates is then already its own part.
        """
        if not isinstance(data, int | np.integer):
            return self._share_stream(data, sharded)
        if batch_size is None:
            text = "share() was given a number of samples without a batch_size."
            raise ConfigError(f"{text}\n  Use worker.share(len(X), batch_size=32).")
        indices = Indices(int(data), batch_size, shuffle)
        return Shared(indices, partial(self._batches, indices), partial(self._num_batches, int(data), batch_size))

    def _batches(self, indices: Indices) -> Iterator[NDArray[np.int64]]:
        epoch = self._begin_share()
        self._seat.plan(self._num_epochs, indices.num_samples, indices.batch_size, False)
        order = np.arange(indices.num_samples)
        if indices.shuffle:
            np.random.default_rng([self._seat.seed, epoch]).shuffle(order)
        if (rounds := self._rounds(indices.num_samples, indices.batch_size)) is not None:
            yield from self._in_rounds(lambda parts: ((order[p.places], p.num_counted) for p in parts), rounds)
        else:
            spans = self._spans(indices.num_samples, indices.batch_size)
            yield from self._counted((order[start:stop], stop - start) for start, stop in spans)

    def step(self, gradients: Mapping[str, Array], samples: float | None = None, loss: float | None = None) -> None:
        """Contribute this iteration's gradients; returns when the arrays hold the parameters of the next one."""
        self._num_gradients += 1
        told = self._samples_of(samples)
        self._draws_itself = self._draws_itself or (samples is not None and not self._num_shares)
        self._compare_first(np.asarray(gradient).reshape(-1)[:NUM_ELEMENTS_MAX] for gradient in gradients.values())
        self._seat.settle()
        self._take_written()
        self._replica.take(gradients)
        with self._tuned():
            self._seat.backward_finished(told)
        with self._tuned():
            self._seat.step_finished(told, None if loss is None else float(loss))
        self._count_step()
        self._refresh()

    def _samples_of(self, told: float | None) -> float:
        """The samples of a step: `told` or, without it, those counted since the last step."""
        if told is None:
            self._check_counted()
        if told is None and self._samples is None and not self._seat.is_plain:
            raise ConfigError(
                "step() was called on samples that Weft does not know of, so it would weigh nothing.\n"
                "  Give their number, worker.step(gradients, samples=32), or take them from worker.share(...)."
            )
        return checked_samples((self._samples or 0.0) if told is None else told)

    def _tune(self, ranges: Mapping[str, tuple[float, float]]) -> "Tuning":
        return self._replica.tune(ranges)

    def _groups(self) -> list[dict[str, Any]]:
        return self._replica.groups()

    def report(self, **numbers: Any) -> None:
        self._take_written()

        def refreshed(function: Callable[[], float]) -> Callable[[], float]:
            def run() -> float:
                mine = {name: array.copy() for name, array in self._theirs.items()}
                self._refresh()
                try:
                    return function()
                finally:
                    for name, array in mine.items():
                        self._theirs[name][...] = array

            return run

        super().report(**{name: refreshed(v) if callable(v) else v for name, v in numbers.items()})
        self._refresh()


def join_arrays(
    seat: Seat,
    arrays: Mapping[str, Array],
    optimizer: Rule | None,
    function: Function | None,
    strategy: Strategy | str | None,
    compress: str | None = None,
) -> ArrayWorker:
    """Join with arrays; they hold worker 0's values afterwards."""
    if not arrays:
        raise ConfigError("weft.join was given no arrays.\n  Give at least one: weft.join(arrays={'w': w}, ...).")
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray) or array.dtype.kind != "f":
            raise ConfigError(
                f"array '{name}' is not a numpy array of floats, so it cannot be trained.\n"
                "  Use e.g. np.zeros((64, 10))."
            )
    if (optimizer is None) == (function is None):
        raise ConfigError(
            "weft.join needs either an optimizer or apply= for its arrays.\n"
            "  Use weft.join(arrays=..., optimizer=weft.SGD(lr=0.1))."
        )
    replica = ArrayReplica(arrays, optimizer, function)
    seat.join(replica, strategy, compress)
    vary_by_rank(seat.rank, seat.seed)
    return ArrayWorker(seat, replica, arrays)

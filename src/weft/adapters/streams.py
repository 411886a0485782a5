"""Shares streams of batches, without length or index: every worker reads all batches, and takes its own in turn."""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar

from weft.adapters.alike import Alike
from weft.adapters.first_item import digest_of_item
from weft.adapters.shared import Shared
from weft.adapters.worker import Worker
from weft.core.errors import ConfigError
from weft.core.seat import Seat
from weft.data.batch_sizes import num_samples_in
from weft.data.static import global_batches
from weft.data.turns import in_turn

Item = TypeVar("Item")


class StreamWorker(Worker):
    """A worker that can share streams."""

    def __init__(self, seat: Seat) -> None:
        super().__init__(seat)
        self._has_left_some = False
        """The user has been told that the last, incomplete round of a stream is left out."""
        self._has_compared_item = False

    def _share_stream(self, data: Any, sharded: bool) -> Shared[Any]:
        """Share an iterable of ready batches; a `sharded` one has only this worker's batches, and is taken whole."""
        if not isinstance(data, Iterable) or isinstance(data, str | bytes | Mapping) or hasattr(data, "shape"):
            raise ConfigError(
                f"share() was given a {type(data).__name__}, which has no batches.\n"
                "  Give it a DataLoader, a dataset with batch_size=32, an iterable of batches, or a number of samples."
            )
        return Shared(data, partial(self._stream, data, sharded), partial(self._num_turns, data, sharded))

    def _stream(self, data: Iterable[Any], sharded: bool) -> Iterator[Any]:
        epoch = self._begin_share(data)
        self._draws_itself = sharded
        items = data if sharded else self._in_turn(data, epoch)
        yield from self._counted((batch, num_samples_in(batch)) for batch in items)

    def _in_turn(self, items: Iterable[Item], epoch: int) -> Iterator[Item]:
        """This worker's items of a stream that all workers read with the same random numbers."""
        self._check_stream()
        if self.num_workers == 1:
            return self._turns(items)
        return self._turns(self._compared(self._alike(items, epoch).read(items)))

    def _compared(self, items: Iterable[Item]) -> Iterator[Item]:
        """The items. The engine compares digests of the run's first one, to check that all workers read the same."""
        for item in items:
            if not self._has_compared_item:
                self._has_compared_item = True
                digest = digest_of_item(item)
                if digest is not None:
                    self._seat.compare_stream(digest)
            yield item

    def _alike(self, data: Any, epoch: int) -> Alike:
        """The random numbers with which every worker reads `data`, so that all read the same."""
        return Alike(self._seat.seed, epoch)

    def _turns(self, items: Iterable[Item]) -> Iterator[Item]:
        """This worker's items of all complete rounds; the user is told once if an incomplete round is left out."""
        num_rounds, rest = yield from in_turn(items, self.rank, self.num_workers)
        if not rest:
            return
        if not num_rounds:
            raise ConfigError(
                f"share() was given {rest} batches for {self.num_workers} workers, and each takes one in turn.\n"
                f"  Use at most {rest} workers, or smaller batches."
            )
        if not self._has_left_some:
            self._has_left_some = True
            self._seat.tell(
                f"the last {rest} of {num_rounds * self.num_workers + rest} batches are left out, and in later epochs: "
                f"workers take the batches of a stream in turn, and there are {self.num_workers} workers"
            )

    def _check_stream(self) -> None:
        """Raise ConfigError for options that divide data by index, which a stream does not have."""
        because = None
        if self._seat.global_batch is not None:
            because = f"data.global_batch={self._seat.global_batch} divides"
        elif self._seat.block_steps is not None:
            because = "--share proportional divides"
        elif self._seat.steals:
            because = "--share stealing hands out"
        elif self._hands_out:
            because = "this strategy hands out"
        elif self._seat.survivor is not None and not self._seat.survivor.give_up(
            "a stream's batches come one after another, and nobody knows which of them a lost worker had"
        ):
            because = "--on-loss, or a checkpoint, deals out"
        if because is not None:
            raise ConfigError(
                f"{because} batches by the places of their samples, but a stream's only come one after another.\n"
                "  Leave it out, or give share() a DataLoader with a batch_size over a dataset that has a length."
            )

    @property
    def _hands_out(self) -> bool:
        """Whether batches are dealt to the workers while an epoch goes on."""
        return self._seat.portions(1, 1) is not None

    def _num_turns(self, data: Any, sharded: bool = False) -> int:
        """Number of batches of a stream that this worker gets; TypeError if the stream has no length."""
        return len(data) if sharded else len(data) // self.num_workers

    def _num_batches(self, num_samples: int, batch_size: int, drop_last: bool = False) -> int:
        """Number of batches that this worker gets of `num_samples` samples."""
        if self._hands_out:
            raise TypeError("batches are handed out while an epoch goes on, so their number per worker is not known")
        return len(global_batches(num_samples, self.num_workers, batch_size, drop_last, self._seat.global_batch))

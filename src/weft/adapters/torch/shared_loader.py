"""Shares a DataLoader: this worker's part of its global batches, or its batches in turn, read as the loader reads."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, DistributedSampler, IterableDataset

from weft.adapters.alike import Alike
from weft.adapters.alone import Alone
from weft.adapters.shared import Shared
from weft.adapters.streams import StreamWorker
from weft.adapters.torch.order import alike_for, same_order
from weft.core.errors import ConfigError
from weft.data.batch_sizes import num_samples_in
from weft.data.dealt_again import RoundPart
from weft.data.static import Span

Sized = tuple[Any, int | None]
"""A batch and its number of samples, if it is known."""


class LoaderWorker(StreamWorker):
    """A worker whose data is a DataLoader's."""

    def share(
        self, data: Any, batch_size: int | None = None, shuffle: bool = True, *, sharded: bool = False
    ) -> Shared[Any]:
        """This worker's part of a DataLoader, a dataset with a batch_size, or any iterable of batches, once for each
        epoch in which it is iterated.

        `batch_size` is per worker, as with DDP. Of data that is read by index, every global batch is divided, or whole
        batches are handed out; what comes as batches (an IterableDataset, a batch sampler, a generator) the workers
        take in turn. What is `sharded` is this worker's own part already, and taken whole.
        """
        loader = _loader_of(data, batch_size, shuffle)
        if isinstance(self._seat, Alone):
            return Shared(loader, partial(self._alone, loader), partial(len, loader))
        if not isinstance(loader, DataLoader):
            return self._share_stream(loader, sharded)
        if sharded:
            return Shared(loader, partial(self._sharded, loader), partial(len, loader))
        _check_undivided(loader)
        if not _has_places(loader):
            return Shared(loader, partial(self._loader_in_turn, loader), partial(self._num_turns, loader))
        return Shared(loader, partial(self._divided, loader), partial(self._num_divided, loader))

    def _alone(self, loader: Iterable[Any]) -> Iterator[Any]:
        if self._keeping is None:
            self._begin_share()
            yield from loader
            return
        if getattr(loader, "persistent_workers", False):
            raise ConfigError(
                "processes of a loader that live on from epoch to epoch have random numbers that no checkpoint has.\n"
                "  Use persistent_workers=False, or leave out the checkpoints."
            )
        self._begin_share(loader)
        yield from self._keeping.read(loader, lambda batch: batch)

    def _sharded(self, loader: "DataLoader[Any]") -> Iterator[Any]:
        self._begin_share(loader)
        self._draws_itself = True
        yield from self._counted((batch, num_samples_in(batch)) for batch in self._whole(loader))

    def _divided(self, loader: "DataLoader[Any]") -> Iterator[Any]:
        """This worker's part of each global batch, or whole batches as they are dealt."""
        epoch = self._begin_share(loader)
        assert loader.batch_size is not None
        num_samples = len(loader.sampler)  # type: ignore[arg-type]
        self._seat.plan(self._num_epochs, num_samples, loader.batch_size, loader.drop_last)
        rounds = self._rounds(num_samples, loader.batch_size, loader.drop_last)
        if rounds is not None:
            order = same_order(loader, self._seat.seed, epoch)
            yield from self._in_rounds(partial(self._read_parts, loader, order), rounds)
            return
        spans = self._spans(num_samples, loader.batch_size, loader.drop_last)
        if self._is_whole:
            yield from self._counted(zip(self._whole(loader), _sizes(num_samples, loader.batch_size)))
        else:
            yield from self._counted(self._read(loader, spans, same_order(loader, self._seat.seed, epoch)))

    @property
    def _is_whole(self) -> bool:
        """Whether this worker takes the loader's own batches as they are."""
        return self.num_workers == 1 and self._seat.global_batch is None and not self._takes_portions

    def _num_divided(self, loader: "DataLoader[Any]") -> int:
        if self._is_whole and not self._hands_out:
            return len(loader)
        assert loader.batch_size is not None
        return self._num_batches(len(loader.sampler), loader.batch_size, loader.drop_last)  # type: ignore[arg-type]

    def _loader_in_turn(self, loader: "DataLoader[Any]") -> Iterator[Any]:
        """This worker's batches in turn. Where a sampler gives their indices, only its own are read."""
        epoch = self._begin_share(loader)
        if isinstance(loader.dataset, IterableDataset):
            yield from self._counted((b, num_samples_in(b)) for b in self._in_turn(self._whole(loader), epoch))
        elif loader.batch_sampler is None:
            reader = partial(self._reader, loader, batch_size=None)
            batches = reader(sampler=self._in_turn(loader.sampler, epoch))
            yield from self._counted((batch, num_samples_in(batch)) for batch in batches)
        else:
            mine = self._in_turn(loader.batch_sampler, epoch)
            yield from self._counted(_with_sizes(mine, partial(self._reader, loader)))

    def _alike(self, data: Any, epoch: int) -> Alike:
        return alike_for(data, self._seat.seed, epoch)

    def _read(self, loader: "DataLoader[Any]", spans: Iterator[Span], order: list[int]) -> Iterator[Sized]:
        """The batches of these spans of `order`, with their sizes.

        A span is drawn when its batch is read: on demand, or `prefetch_factor` ahead if the loader has processes.
        Portions that a strategy deals are not read ahead: it decides each when it is wanted.
        """
        return _with_sizes((order[start:stop] for start, stop in spans), partial(self._reader, loader))

    def _read_parts(self, loader: "DataLoader[Any]", order: list[int], parts: Sequence[RoundPart]) -> Iterator[Sized]:
        """The batches of these parts of `order`, with the numbers of samples that count."""
        batches = self._reader(loader, batch_sampler=[[order[place] for place in part.places] for part in parts])
        yield from zip(batches, (part.num_counted for part in parts), strict=True)

    def _reader(self, loader: "DataLoader[Any]", **what: Any) -> "DataLoader[Any]":
        """A DataLoader that reads some samples of `loader` as it does."""
        return DataLoader(
            loader.dataset,
            collate_fn=loader.collate_fn,
            generator=torch.Generator().manual_seed(self._seat.seed),
            **({} if self._takes_portions else self._processes(loader)),
            **what,
        )

    def _whole(self, loader: "DataLoader[Any]") -> "DataLoader[Any]":
        """The loader's own batches, read by processes that end with this one."""
        if not loader.num_workers:
            return loader
        what: dict[str, Any] = {"batch_size": loader.batch_size, "drop_last": loader.drop_last}
        if loader.batch_size is None and loader.batch_sampler is not None:
            what = {"batch_sampler": loader.batch_sampler}
        elif not isinstance(loader.dataset, IterableDataset):
            what["sampler"] = loader.sampler
        return DataLoader(
            loader.dataset,
            collate_fn=loader.collate_fn,
            generator=loader.generator,
            **self._processes(loader),
            **what,
        )

    def _processes(self, loader: "DataLoader[Any]") -> dict[str, Any]:
        """The options by which a loader reads ahead; none for simulated workers, which cannot have processes."""
        if not loader.num_workers or self._seat.is_simulated:
            return {}
        return {
            "num_workers": loader.num_workers,
            "prefetch_factor": loader.prefetch_factor,
            "timeout": loader.timeout,
            "multiprocessing_context": loader.multiprocessing_context,
            "worker_init_fn": loader.worker_init_fn,
        }


def _loader_of(data: Any, batch_size: int | None, shuffle: bool) -> Any:
    """A DataLoader for a dataset with a `batch_size`; else the data itself."""
    if isinstance(data, DataLoader):
        return data
    if batch_size is not None:
        return DataLoader(data, batch_size, shuffle and not isinstance(data, IterableDataset))
    if isinstance(data, Dataset) and not isinstance(data, IterableDataset):
        raise ConfigError(
            "share() was given a dataset without a batch_size.\n  Use worker.share(dataset, batch_size=32)."
        )
    return data


def _has_places(loader: "DataLoader[Any]") -> bool:
    """Whether the loader is read by index, in batches of `batch_size` samples."""
    return not isinstance(loader.dataset, IterableDataset) and loader.batch_size is not None


def _check_undivided(loader: "DataLoader[Any]") -> None:
    sampler = loader.sampler
    if isinstance(sampler, DistributedSampler) and sampler.num_replicas > 1:
        raise ConfigError(
            f"the loader's DistributedSampler takes 1 of {sampler.num_replicas} parts of the data already, of which "
            "share() would take a part again.\n"
            "  Leave the sampler out, or say worker.share(loader, sharded=True)."
        )


def _with_sizes(lists: Iterable[list[int]], read: "Callable[..., DataLoader[Any]]") -> Iterator[Sized]:
    """The batches of these lists of indices, with their sizes; a list is drawn when its batch is read."""
    sizes: deque[int] = deque()

    def draw() -> Iterator[list[int]]:
        for places in lists:
            sizes.append(len(places))
            yield places

    for batch in read(batch_sampler=draw()):
        yield batch, sizes.popleft()


def _sizes(num_samples: int, batch_size: int) -> list[int]:
    """The sizes of a loader's own batches, the last one smaller if it does not divide."""
    return [min(batch_size, num_samples - start) for start in range(0, num_samples, batch_size)]

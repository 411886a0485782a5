"""Shares a DataLoader: this worker's part of its global batches, read as the loader reads."""

from collections import deque
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset

from weft.adapters.alone import Alone
from weft.adapters.torch.order import same_order
from weft.adapters.worker import Worker
from weft.core.errors import ConfigError
from weft.data.static import Span


class LoaderWorker(Worker):
    """A worker whose data is a DataLoader's."""

    def share(self, data: Any, batch_size: int | None = None, shuffle: bool = True) -> Iterator[Any]:
        """This worker's part of each global batch of a DataLoader, or of a dataset with a batch_size; or whole
        batches, as they are handed out.

        `batch_size` is per worker, as with DDP.
        """
        epoch = self._begin_share()
        loader = data if isinstance(data, DataLoader) or batch_size is None else DataLoader(data, batch_size, shuffle)
        if isinstance(self._seat, Alone):
            yield from loader
            return
        if not isinstance(loader, DataLoader) or isinstance(loader.dataset, IterableDataset):
            raise ConfigError(
                "share() was given data without places to deal out.\n"
                "  Give it a DataLoader over a dataset that has a length and is read by index."
            )
        if loader.batch_size is None:
            raise ConfigError("the loader has no batch_size, so its batches cannot be shared.\n  Give it one.")
        num_samples = len(loader.sampler)  # type: ignore[arg-type]
        self._seat.plan(self._num_epochs, num_samples, loader.batch_size, loader.drop_last)
        spans = self._spans(num_samples, loader.batch_size, loader.drop_last)
        if self.num_workers == 1 and self._seat.global_batch is None and not self._takes_portions:
            yield from self._counted(zip(self._whole(loader), _sizes(num_samples, loader.batch_size)))
        else:
            yield from self._counted(self._read(loader, spans, same_order(loader, self._seat.seed, epoch)))

    def _read(self, loader: "DataLoader[Any]", spans: Iterator[Span], order: list[int]) -> Iterator[tuple[Any, int]]:
        """The batches of these spans of an order, with their sizes.

        A span is drawn when its batch is to be read: by this process when it is wanted, and by a loader's processes
        so much ahead as the loader says. What a strategy hands out is not read ahead: it knows what comes next only
        when it is wanted.
        """
        sizes: deque[int] = deque()

        def draw() -> Iterator[list[int]]:
            for start, stop in spans:
                sizes.append(stop - start)
                yield order[start:stop]

        reader = DataLoader(
            loader.dataset,
            batch_sampler=draw(),
            collate_fn=loader.collate_fn,
            generator=torch.Generator().manual_seed(self._seat.seed),
            **({} if self._takes_portions else self._processes(loader)),
        )
        for batch in reader:
            yield batch, sizes.popleft()

    def _whole(self, loader: "DataLoader[Any]") -> "DataLoader[Any]":
        """The loader's own batches, by processes that end with this one."""
        if not loader.num_workers:
            return loader
        return DataLoader(
            loader.dataset,
            batch_size=loader.batch_size,
            sampler=loader.sampler,
            collate_fn=loader.collate_fn,
            drop_last=loader.drop_last,
            generator=loader.generator,
            **self._processes(loader),
        )

    def _processes(self, loader: "DataLoader[Any]") -> dict[str, Any]:
        """How a loader reads ahead; simulated workers do not go with processes of their own."""
        if not loader.num_workers or self._seat.is_simulated:
            return {}
        return {
            "num_workers": loader.num_workers,
            "prefetch_factor": loader.prefetch_factor,
            "timeout": loader.timeout,
            "multiprocessing_context": loader.multiprocessing_context,
            "worker_init_fn": loader.worker_init_fn,
        }


def _sizes(num_samples: int, batch_size: int) -> list[int]:
    """The sizes of a loader's own batches, the last one smaller if it does not divide."""
    return [min(batch_size, num_samples - start) for start in range(0, num_samples, batch_size)]

"""What a worker offers its script in every framework: epochs, reports, counting of samples, saving."""

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from weft.adapters.first_gradient import digest_of
from weft.adapters.kept_values import kept_values
from weft.adapters.newcomers import ScriptPlace
from weft.adapters.pacing import paced
from weft.adapters.watched_rates import WatchedRates
from weft.core.activity import COMPUTES, READS
from weft.core.errors import CheckpointError, ConfigError, did_you_mean
from weft.core.script_state import BEFORE_TRAINING
from weft.core.seat import MINE, MODELS, RESULT, Number, Seat
from weft.data.dealt import portions
from weft.data.proportional import parts_of
from weft.data.static import Span, global_batches, share_of
from weft.model_files import regular_file

if TYPE_CHECKING:  # they import numpy or msgspec, which only scripts that use them need
    from weft.adapters.keeping import Keeping
    from weft.adapters.tuning import Tuning
    from weft.data.dealt_again import RoundPart, ShareRounds

Batch = TypeVar("Batch")
Item = TypeVar("Item")


class Worker:
    """Returned by `weft.join`; the script's only view of the others."""

    def __init__(self, seat: Seat) -> None:
        self._seat = seat
        self._num_epochs: int | None = None
        self._epoch = -1
        self._samples: float | None = None
        """Samples counted since the last step; None: none were counted."""
        self._last_samples = 0.0
        """Samples of the last step for which some were counted."""
        self._num_gradients = 0
        self._num_shares = 0
        self._draws_itself = False
        """The script chooses this worker's samples itself, rather than share()."""
        self._has_compared = False
        """The digest of the first gradient has been taken."""
        self._uncounted: str | None = None
        """The type of the last batch, if its number of samples is not known."""
        self._takes_portions = False
        """The strategy deals the batches of this worker's shares one by one."""
        self._tuning: Tuning | None = None
        self.rates = WatchedRates(self._groups)
        self._keeping: Keeping | None = None
        """Takes checkpoints, if the run has a folder for them."""
        self._place = None if seat.survivor is None else ScriptPlace(self, seat.survivor)
        """Where the script is, for newcomers; None where a loss ends the run."""
        self.steps_before = 0
        """Steps of the checkpoint from which this worker has gone on."""
        self.steps = 0
        """Steps that this worker has finished."""

    @property
    def rank(self) -> int:
        """This worker's number, from 0."""
        return self._seat.rank

    @property
    def num_workers(self) -> int:
        return self._seat.num_workers

    @property
    def _is_over(self) -> bool:
        return self._seat.steps_max is not None and self.steps - self.steps_before >= self._seat.steps_max

    @property
    def _has_begun(self) -> bool:
        """Whether it is too late to say what trains: a gradient was computed, perhaps not shared yet, or the tensors
        are laid out."""
        return bool(self._num_gradients) or self._seat.script.at not in BEFORE_TRAINING

    def _keep_by(self, checkpoints: Any, framework: Any) -> None:
        """Take checkpoints: as a worker that is alone, or this worker's part of those of the run."""
        from weft.adapters.checkpoint_part import CheckpointPart
        from weft.adapters.keeping import Keeping

        if self._place is None:
            self._keeping = Keeping(self, checkpoints, framework)
        else:
            self._place.part = CheckpointPart(self, checkpoints, framework)

    def epochs(self, num_epochs: int) -> Iterator[int]:
        """0, 1, ... num_epochs - 1; fewer when the run was told to stop earlier."""
        self._num_epochs = num_epochs
        keeping, place = self._keeping, self._place
        epochs = range(0 if keeping is None else keeping.begin(num_epochs), num_epochs)
        if place is not None:
            epochs = place.epochs(num_epochs)
        self.rates.begin()
        for epoch in epochs:
            if self._is_over:
                return
            self._epoch = epoch
            if keeping is not None:
                keeping.begin_epoch()
            with nullcontext() if place is None else place.in_epoch(epoch):
                yield epoch
            if keeping is not None:
                keeping.end_epoch(epoch)
        if place is not None and not self._is_over:
            place.begin_epoch(num_epochs)

    def keep(self, **objects: Any) -> None:
        """Name what else the script keeps between steps: keep(scheduler=scheduler, ema=ema).

        Anything with state_dict and load_state_dict, or a dict; it goes into checkpoints, and to workers that come in
        later. Call it once, before the loop; with nothing, if there is nothing to keep.
        """
        kept = kept_values(objects)
        self.rates.is_named = True
        if self._keeping is not None:
            self._keeping.keep(kept)
        if self._place is not None:
            self._place.keep(kept)

    def go_on_from(self, step: int, num_samples: float) -> None:
        """Go on from a checkpoint of `step` steps; the last step had `num_samples` samples."""
        self.steps = self.steps_before = step
        self._last_samples = num_samples
        seat: Any = self._seat
        seat.has_resumed = True
        if seat.steps_max is not None:
            seat.steps_max = max(0, seat.steps_max - step)

    def refuses_newcomers(self, kept: Iterable[Any]) -> str:
        """Why a newcomer could not go on as this script, which keeps the objects `kept`; empty if it can."""
        return ""

    def hand_over_own(self, *, with_state: bool) -> Any:
        """What a newcomer must have besides the shared parameters: the optimizer's numbers, and its state."""
        raise NotImplementedError

    def arrive(self, step: int, own: Any) -> None:
        """This worker is a newcomer: go on after `step` steps, with what was handed over."""
        self.steps += step

    @property
    def epoch(self) -> int:
        """The epoch in which the script is."""
        return self._epoch

    @property
    def num_epochs(self) -> int | None:
        """How many epochs its loop has; None before any."""
        return self._num_epochs

    @property
    def last_samples(self) -> float:
        """Samples of the last step for which some were counted."""
        return self._last_samples

    def _begin_share(self, data: Any = None) -> int:
        """Begin a share of `data`; returns its epoch: that of epochs(), or the number of shares so far."""
        self._num_shares += 1
        if self._keeping is not None:
            self._keeping.begin_share(data)
        if self._num_epochs is None:
            self._epoch += 1
        return self._epoch

    def report(self, **numbers: "Number | Callable[[], Number]") -> None:
        """Name numbers for screen, report and dashboard.

        A number is this worker's. A callable is run once, on the run's result model.
        """
        told = {name: value if callable(value) else float(value) for name, value in numbers.items()}
        if self._seat.is_probe:
            told = dict.fromkeys(told, 0.0)
        with self._tuned():
            self._seat.report(max(self._epoch, 0), told)

    def tune(self, **ranges: tuple[float, float]) -> None:
        """Let a population change numbers of the optimizer, each within its range: tune(lr=(1e-4, 1e-1)).

        Call it once, before the first gradient. Every group of the optimizer that has such a number has its own.
        What the script itself changes later, by a scheduler for instance, counts for this worker until a population
        changes it again. Strategies other than population leave all to the script.
        """
        if self._tuning is not None:
            raise ConfigError(
                "worker.tune was called twice.\n  Name all in one call: worker.tune(lr=..., momentum=...)."
            )
        if self._has_begun:
            raise ConfigError("worker.tune was called after training had begun.\n  Call it directly after weft.join.")
        self._tuning = self._tune(ranges)
        self.rates.is_named = True

    def _tune(self, ranges: Mapping[str, tuple[float, float]]) -> "Tuning":
        """Declare the tuned hyper-parameters to the replica."""
        raise NotImplementedError

    @contextmanager
    def _tuned(self) -> Iterator[None]:
        """A context for calls of the driver: strategies see the script's hyper-parameters, with learning rates times
        the pace; afterwards the script sees what strategies have changed."""
        if self._tuning is not None:
            self._tuning.give()
        with paced(self._seat.pace, self.steps, self._groups()):
            yield
        if self._tuning is not None:
            self._tuning.take()

    def _groups(self) -> Sequence[MutableMapping[str, Any]]:
        """The optimizer's hyper-parameters, by name, for each of its groups."""
        raise NotImplementedError

    def save(self, path: str, model: str = RESULT, *, of: Any = None, allow_nan: bool = False) -> None:
        """Write a model as safetensors, once for all workers; where several joined, all of them, or the one given.

        'result' is what the strategy says; 'mean' the mean of all workers' replicas; 'best' the replica of the worker
        with the best score; 'ensemble' all of them in one file, the names of their tensors beginning with member0.,
        member1. and so on; 'mine' each worker's own, in a file of its own: model.safetensors becomes
        model.2.safetensors for worker 2.

        A model that is not finite is refused with a CheckpointError that names the tensor, unless `allow_nan` is True.
        """
        if model not in MODELS:
            raise ConfigError(f"save(model='{model}') is not known.\n  {did_you_mean(model, MODELS)}")
        if not Path(path).parent.is_dir():
            raise CheckpointError(
                f"'{path}' cannot be saved: there is no folder '{Path(path).parent}'.\n  Make it first."
            )
        if model == MINE:
            path = str(Path(path).with_suffix(f".{self.rank}{Path(path).suffix}"))
        regular_file(path)
        if not self._seat.saves:
            return
        self._take_written()
        self._seat.save(path, model, of=self._place_of(of), allow_nan=allow_nan)

    def _take_written(self) -> None:
        """Take over what the script has written to parameters between steps."""

    def _place_of(self, of: Any) -> int | None:
        """The index of the model `of` among those that joined; None if none is chosen."""
        if of is not None:
            raise ConfigError(
                "save(of=...) chooses one of several models, but the script joined with arrays.\n  Leave it out."
            )
        return None

    def _weight(self) -> float:
        """The weight of this worker's gradient: the samples counted since the last step or, if none were, those of the
        last step that had some (as for a step on a penalty, or of a generator, after one on data)."""
        self._check_counted()
        if self._samples is None and not self._last_samples and not self._seat.is_plain:
            raise ConfigError(
                "a step was made on samples that Weft does not know of, so it would weigh nothing.\n"
                "  Take them from worker.share(...), or say worker.count(32) before each backward."
            )
        return checked_samples(self._last_samples if self._samples is None else self._samples)

    def _check_counted(self) -> None:
        """Raise ConfigError for a step on a batch whose number of samples is not known."""
        if self._samples is None and self._uncounted is not None and not self._seat.is_plain:
            raise ConfigError(
                f"a batch of type '{self._uncounted}' does not tell how many samples it has, so its step would weigh "
                "nothing.\n  Say worker.count(32), with their number, before each backward."
            )

    def count(self, num_samples: float) -> None:
        """Count samples of the next step that the script loaded by itself rather than from share()."""
        self._draws_itself = self._draws_itself or not self._num_shares
        self._uncounted = None
        self._samples = (self._samples or 0.0) + checked_samples(num_samples)

    def _counted(
        self, batches: Iterable[tuple[Batch, int | None]], rounds: "ShareRounds | None" = None
    ) -> Iterator[Batch]:
        """Yield the batches and count their samples. If a whole share led to no gradient (an evaluation), the count is
        undone.

        Samples of a batch without a size are left to worker.count. `rounds` counts what is taken of a share.
        """
        before, earlier = self._num_gradients, self._samples
        if self._keeping is not None:
            batches = self._keeping.read(batches, lambda item: item[0])
        for batch, size in self._read_by_and_by(batches):
            if self._is_over:
                return
            if rounds is not None:
                rounds.take()
            self._uncounted = type(batch).__name__ if size is None else None
            if size is not None:
                self._samples = (self._samples or 0.0) + size
            yield batch
            if self._seat.is_probe:
                break
        self._uncounted = None
        if self._num_gradients == before:
            self._samples = earlier

    def _read_by_and_by(self, items: Iterable[Item]) -> Iterator[Item]:
        """The items; the seat is told when the script reads (waits for data) and when it computes."""
        each = iter(items)
        while True:
            self._seat.note(READS)
            try:
                item = next(each)
            except StopIteration:
                return
            finally:
                self._seat.note(COMPUTES)
            yield item

    def _spans(self, num_samples: int, batch_size: int, drop_last: bool = False) -> Iterator[Span]:
        """Where this worker's batches of a share begin and end in its order; each is decided when it is drawn."""
        spans = portions(num_samples, self.num_workers, batch_size, drop_last, self._seat.global_batch)
        dealt = self._dealt(spans, num_samples)
        return self._parts(self._num_shares - 1, num_samples, batch_size, drop_last) if dealt is None else dealt

    def _parts(self, share: int, num_samples: int, batch_size: int, drop_last: bool) -> Iterator[Span]:
        """This worker's parts of a share's global batches."""
        spans = global_batches(num_samples, self.num_workers, batch_size, drop_last, self._seat.global_batch)
        every = self._seat.block_steps
        if every is None:
            yield from (share_of(span, self.rank, self.num_workers) for span in spans)
        else:
            yield from parts_of(spans, self.rank, every, partial(self._seat.fractions, share, num_samples))

    def _rounds(self, num_samples: int, batch_size: int, drop_last: bool = False) -> "ShareRounds | None":
        """Begin a share whose rounds change when a worker is lost; None where a loss ends the run."""
        if self._place is None or not self._seat.survivor.deals_rounds:
            return None
        rounds: ShareRounds = self._seat.survivor.shares.begin(
            num_samples, batch_size, drop_last, self._seat.global_batch
        )
        return rounds

    def _in_rounds(
        self, read: "Callable[[Sequence[RoundPart]], Iterable[tuple[Batch, int | None]]]", rounds: "ShareRounds"
    ) -> Iterator[Batch]:
        """This worker's parts of a share's rounds, until there are no more: members that go or come change them."""
        assert self._place is not None
        self._place.begin_share(rounds.share)
        try:
            while parts := self._seat.survivor.shares.more(rounds):
                yield from self._counted(rounds.while_in_force(read(parts), self._place.between_batches), rounds)
                if self._is_over or self._seat.is_probe:
                    self._place.cut()
                    return
        finally:
            self._seat.survivor.shares.end(rounds)

    def _dealt(self, spans: Sequence[Span], num_samples: int) -> Iterator[Span] | None:
        """The portions of an epoch that are dealt to this worker, one by one; None if portions are not dealt."""
        places = self._seat.portions(len(spans), num_samples)
        if places is None:
            return None
        if not spans:
            raise ConfigError("share() was given no samples, so there is nothing to hand out.\n  Give it some data.")
        if not self._seat.steals:
            self._takes_portions = True
            places = self._each_for_itself(places)
        return (spans[place] for place in places)

    def _each_for_itself(self, places: Iterator[int]) -> Iterator[int]:
        """Yield portions; samples of one that led to no step do not count in the next step."""
        for place in places:
            self._samples = None
            yield place

    def _compare_first(self, gradients: Iterable[Any]) -> None:
        """Send a digest of the first gradient, so that the engine finds workers that compute on the same samples.

        `gradients` are arrays; they are read only if the digest is needed.
        """
        if self._has_compared:
            return
        self._has_compared = True
        if self._draws_itself and self.num_workers > 1:
            digest = digest_of(gradients)
            if digest is not None:
                self._seat.compare_first(digest)

    def _count_step(self) -> None:
        self.steps += 1
        self._last_samples = self._samples or self._last_samples
        self._samples = None


def checked_samples(num_samples: float) -> float:
    """`num_samples` as a float; raises ConfigError if it is negative or not finite."""
    if not 0 <= num_samples < inf:
        raise ConfigError(f"a step was made on {float(num_samples)} samples.\n  Give their number, 0 or more.")
    return float(num_samples)

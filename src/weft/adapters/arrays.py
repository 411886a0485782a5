"""The array worker: `weft.join(arrays=...)` for scripts that compute gradients of numpy arrays themselves."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.adapters.first_gradient import NUM_ELEMENTS_MAX
from weft.adapters.seeding import vary_by_rank
from weft.adapters.shared import Indices, Shared
from weft.adapters.streams import StreamWorker
from weft.adapters.tuning import Tuning
from weft.adapters.worker import checked_samples
from weft.core.errors import ConfigError
from weft.core.names import GIVEN, GRADIENT, PARAMS, Bucket, Tensors
from weft.core.rules import SGD, Momentum, Rule
from weft.core.seat import Number, ReplicaMemory, Seat, check_savable
from weft.core.strategy import Strategy
from weft.model_files import write_model
from weft.store.rules import State, update

Array = NDArray[Any]
Function = Callable[[dict[str, Array], dict[str, Array]], None]


class ArrayReplica:
    """Flat memory for the user's arrays, one bucket for each type of number.

    The memory is the replica's own; ArrayWorker copies it to the user's arrays after every step.
    """

    def __init__(self, arrays: Mapping[str, Array], optimizer: Rule | None, function: Function | None) -> None:
        self.brought = tuple(arrays.values())
        self._arrays = dict(arrays)
        self._optimizer = optimizer
        self._function = function
        kinds = sorted({array.dtype for array in self._arrays.values()}, key=str)
        self._names = [[name for name, array in self._arrays.items() if array.dtype == kind] for kind in kinds]
        sizes = [sum(self._arrays[name].size for name in names) for names in self._names]
        self.buckets = tuple(
            Bucket(size, kind.itemsize, tensors=self._tensors(names))
            for size, kind, names in zip(sizes, kinds, self._names, strict=True)
        )
        self._flat = {
            slot: [np.zeros(size, kind) for size, kind in zip(sizes, kinds, strict=True)] for slot in (PARAMS, GRADIENT)
        }
        self._flat[GIVEN] = self._flat[GRADIENT]
        self.is_settled = False
        self.tuning: Tuning | None = None
        self._states: list[State] = [{} for _ in sizes]
        for bucket, flat in enumerate(self._flat[PARAMS]):
            for name, piece in self._split(bucket, flat):
                piece[...] = self._arrays[name]
                self._arrays[name] = piece

    def _tensors(self, names: Sequence[str]) -> Tensors:
        """Where each array of a bucket begins, and its shape."""
        ends = accumulate((self._arrays[name].size for name in names), initial=0)
        return tuple((start, self._arrays[name].shape) for start, name in zip(ends, names, strict=False))

    def _split(self, bucket: int, flat: Array) -> Iterator[tuple[str, Array]]:
        """The named pieces of a bucket's flat array, as views of it."""
        start = 0
        for name in self._names[bucket]:
            like = self._arrays[name]
            yield name, flat[start : start + like.size].reshape(like.shape)
            start += like.size

    @property
    def device(self) -> None:
        """None: arrays are in host memory."""

    @property
    def shares_update(self) -> bool:
        return False

    @property
    def num_optimizers(self) -> int:
        return 1

    def steps(self, bucket: int) -> bool:
        return True

    def expect_equal_steps(self, num_workers: int) -> None:
        """Nothing to do: gradients are given together with their samples, so that every step has some."""

    def views(self) -> dict[str, Array]:
        """The parameters by name, as views of the buckets."""
        return dict(self._arrays)

    def take(self, gradients: Mapping[str, Array]) -> None:
        """Copy the user's gradients into the slot `gradient`."""
        if set(gradients) != set(self._arrays):
            raise ConfigError(
                f"step() was given gradients for {sorted(gradients)}, but the arrays are {sorted(self._arrays)}.\n"
                "  Give one gradient for each array that joined."
            )
        for bucket, flat in enumerate(self._flat[GIVEN]):
            for name, piece in self._split(bucket, flat):
                if np.shape(gradients[name]) != piece.shape:
                    raise ConfigError(
                        f"the gradient of '{name}' has the shape {np.shape(gradients[name])}, "
                        f"but the array has {piece.shape}.\n  Give them the same shape."
                    )
                piece[...] = gradients[name]

    def layout(self) -> Sequence[str]:
        return [f"{name} {array.shape} {array.dtype}" for name, array in self._arrays.items()]

    def show(self) -> None:
        """Nothing to do: ArrayWorker copies the buckets to the script's arrays after every step."""

    def names(self, bucket: int) -> Sequence[str]:
        return self._names[bucket]

    def array(self, slot: str, bucket: int) -> Array:
        return self._flat[slot][bucket]

    def apply(self, gradients: Mapping[int, Array], scale: float, hyper: Any | None) -> None:
        if self._function is not None:
            self._apply_function(gradients, scale)
            return
        assert self._optimizer is not None
        rule = self._optimizer if hyper is None else type(self._optimizer)(**hyper)
        for bucket, gradient in gradients.items():
            update(rule, self._flat[PARAMS][bucket], gradient, scale, self._states[bucket])

    def _apply_function(self, gradients: Mapping[int, Array], scale: float) -> None:
        if scale != 1.0:
            raise ConfigError(
                "this strategy scales the learning rate, which a bare function apply= does not have.\n"
                "  Use optimizer=weft.SGD(lr=...) or another rule instead."
            )
        named = {name: g for bucket, flat in gradients.items() for name, g in self._split(bucket, flat)}
        assert self._function is not None
        self._function({name: self._arrays[name] for name in named}, named)

    def hyper(self) -> Any:
        return None if self._optimizer is None else asdict(self._optimizer)

    def flags(self, bucket: int) -> Sequence[int]:
        return ()

    def give_up_momentum(self) -> float:
        rule = self._optimizer
        if type(rule) is SGD:
            return 0.0
        if not isinstance(rule, Momentum) or rule.nesterov:
            raise ConfigError(
                f"'dgc' takes over the momentum of weft.SGD or weft.Momentum, but the optimizer is {rule}.\n"
                "  Use weft.Momentum(lr=0.1, momentum=0.9), or 'topk(0.001)', which goes with every optimizer."
            )
        momentum, rule.momentum = rule.momentum, 0.0
        return momentum

    def capture_factors(self) -> None:
        raise ConfigError(
            "'factors' are those of a framework's linear layers, but the script joined with arrays.\n"
            "  Use 'powersgd(2)' or 'topk(0.01)' instead."
        )

    def factors(self, bucket: int) -> Sequence[tuple[int, Any, Any]]:
        return ()

    def values(self) -> Sequence[Array]:
        return self._flat[PARAMS]

    def begin_with(self, values: Sequence[Array]) -> None:
        """Nothing to do: `values` are the replica's own memory."""

    def order(self) -> Sequence[int]:
        return ()

    def settle(
        self,
        order: Sequence[int] | None = None,
        allocate: Callable[[Sequence[Bucket]], ReplicaMemory] | None = None,
        bucket_bytes_max: int | None = None,
    ) -> None:
        """Move the values to the memory that `place` gives, if any."""
        self.is_settled = True
        if allocate is None:
            return
        memory = allocate(self.buckets)
        for bucket, (before, array) in enumerate(zip(self._flat[PARAMS], memory.params, strict=True)):
            if not (memory.is_under_way and self.buckets[bucket].trainable):
                array[:] = before
            for name, piece in self._split(bucket, array):
                self._arrays[name] = piece
        self._flat = {PARAMS: list(memory.params), GRADIENT: list(memory.seen), GIVEN: list(memory.given)}

    def groups(self) -> list[dict[str, Any]]:
        """The optimizer's numbers by name; a bare function has none."""
        return [] if self._optimizer is None else [vars(self._optimizer)]

    def tune(self, ranges: Mapping[str, tuple[float, float]]) -> Tuning:
        """Let a strategy change numbers of the optimizer, each within its range."""
        self.tuning = Tuning(self.groups(), ranges)
        return self.tuning

    def tuned(self) -> Sequence[str]:
        return [] if self.tuning is None else self.tuning.lines()

    def share_tuned(self) -> None:
        if self.tuning is not None:
            bucket, values = self.tuning.share()
            self.buckets += (bucket,)
            self._flat[PARAMS].append(values)

    def optimizer_state(self, *, with_state: bool = True) -> list[dict[str, Any]]:
        """The optimizer's numbers and, `with_state`, what it keeps for each bucket."""
        return [*self.groups(), *(self._states if with_state else ())]

    def twin(self) -> "ArrayReplica":
        if self._optimizer is None:
            raise ConfigError(
                "this strategy runs the optimizer on a server, which a bare function apply= cannot do.\n"
                "  Use optimizer=weft.SGD(lr=...) or another rule instead."
            )
        twin = ArrayReplica({n: a.copy() for n, a in self._arrays.items()}, deepcopy(self._optimizer), None)
        twin.settle()
        return twin

    def run_as(self, models: Sequence[Sequence[Array]], function: Callable[[], Number]) -> float:
        """The value of `function` with these models; of several, the mean, since arrays have no forward to average."""
        numbers = []
        for model in models:
            for flat, values in zip(self._flat[PARAMS], model, strict=True):
                flat[:] = values
            numbers.append(float(function()))
        return sum(numbers) / len(numbers)

    def save(
        self, path: str, models: Mapping[str, Sequence[Array]], *, of: int | None = None, allow_nan: bool = False
    ) -> None:
        from safetensors.numpy import save_file

        named = {
            prefix + name: piece.copy()
            for prefix, arrays in models.items()
            for bucket in range(len(self._names))
            for name, piece in self._split(bucket, arrays[bucket])
        }
        if not allow_nan:
            for name, array in named.items():
                check_savable(path, name, int((~np.isfinite(array)).sum()))
        write_model(path, partial(save_file, named))


class ArrayWorker(StreamWorker):
    """The worker of `weft.join(arrays=...)`: shares of index arrays, and explicit steps."""

    def __init__(self, seat: Seat, replica: ArrayReplica, arrays: Mapping[str, Array]) -> None:
        super().__init__(seat)
        self._replica = replica
        self._theirs = dict(arrays)
        self._given = {name: array.copy() for name, array in arrays.items()}
        """Copies of the user's arrays as they were when the last call returned."""
        self._refresh()

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

    def _tune(self, ranges: Mapping[str, tuple[float, float]]) -> Tuning:
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
    if getattr(seat, "checkpoints", None) is not None:
        raise ConfigError(
            "checkpoints are for torch scripts, but the script joined with arrays.\n"
            "  Leave out the checkpoints, and save what is needed with worker.save."
        )
    replica = ArrayReplica(arrays, optimizer, function)
    seat.join(replica, strategy, compress)
    vary_by_rank(seat.rank, seat.seed)
    return ArrayWorker(seat, replica, arrays)

"""The replica of scripts that join with arrays: flat memory, one bucket for each type of number."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.adapters.tuning import Tuning
from weft.core.errors import ConfigError
from weft.core.names import GIVEN, GRADIENT, PARAMS, Bucket, Tensors
from weft.core.rules import SGD, Momentum, Rule
from weft.core.seat import Number, ReplicaMemory, check_savable
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

    def named(self, values: Sequence[Array]) -> dict[str, Array]:
        """The arrays by name that have these values of the buckets."""
        return {
            name: piece for bucket in range(len(self._names)) for name, piece in self._split(bucket, values[bucket])
        }

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

    @property
    def optimizer_kinds(self) -> list[str]:
        """The optimizer's class; a bare function has none."""
        return [] if self._optimizer is None else [type(self._optimizer).__name__]

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
            for name, piece in self.named(arrays).items()
        }
        if not allow_nan:
            for name, array in named.items():
                check_savable(path, name, int((~np.isfinite(array)).sum()))
        write_model(path, partial(save_file, named))

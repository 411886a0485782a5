"""What a checkpoint has of a script that joined with arrays: the arrays, their optimizer, and all random numbers."""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from weft.adapters.array_replica import Array, ArrayReplica
from weft.checkpoints.tensor_file import TensorBytes
from weft.core.errors import CheckpointError
from weft.core.seat import check_savable


class ArrayState:
    """`take_written` takes over what the script has written to its arrays, `show` puts the parameters into them."""

    def __init__(self, replica: ArrayReplica, take_written: Callable[[], None], show: Callable[[], None]) -> None:
        self._replica = replica
        self._take_written, self._show = take_written, show

    def as_tensor(self, value: Any) -> TensorBytes | None:
        """None: numpy's arrays have a form without a framework's help."""
        return None

    def to_tensor(self, tensor: TensorBytes) -> Array:
        array: Array = tensor.as_array()
        return array

    def layout(self) -> list[str]:
        return list(self._replica.layout())

    def check_finite(self) -> None:
        for name, array in self.model().items():
            check_savable("the checkpoint", name, int((~np.isfinite(array)).sum()))

    def model(self, values: Any = None) -> dict[str, Array]:
        self._take_written()
        return self._replica.views() if values is None else self._replica.named(values)

    def optimizers(self, replica: Any = None) -> list[Any]:
        """In the shape that torch's have: numbers of groups, and the state by bucket. Of a server, those buckets have
        some that it has updated."""
        of: ArrayReplica = self._replica if replica is None else replica
        numbers, *states = of.optimizer_state() if of.optimizer_kinds else [{}]
        state = {bucket: dict(each) for bucket, each in enumerate(states) if each}
        return [
            {"kind": kind, "state": {"param_groups": [dict(numbers)], "state": state}} for kind in of.optimizer_kinds
        ]

    def load(self, model: Mapping[str, Any], optimizers: Sequence[Any]) -> None:
        kinds, mine = [each["kind"] for each in optimizers], self._replica.optimizer_kinds
        if kinds != mine:
            raise CheckpointError(
                f"the checkpoint has the optimizer {_named(kinds)}, but the script's is {_named(mine)}.\n"
                "  Use the optimizer that it was made with, or another folder."
            )
        for name, array in self._replica.views().items():
            array[...] = model[name]
        for stored in (each["state"] for each in optimizers):
            numbers, *states = self._replica.optimizer_state()
            numbers.update(stored["param_groups"][0])
            for bucket, each in stored["state"].items():
                states[bucket].update(each)
        self._show()

    def unnamed(self, kept: Iterable[Any]) -> str:
        """Empty: rates that the script changes are watched for every framework (watched_rates.py)."""
        return ""

    def random(self, data: Any) -> dict[str, Any]:
        version, words, gauss = random.getstate()
        return {"python": [version, np.array(words, "u4"), gauss], "numpy": list(np.random.get_state())}

    def set_random(self, state: Mapping[str, Any], data: Any) -> None:
        version, words, gauss = state["python"]
        random.setstate((version, tuple(words.tolist()), gauss))
        np.random.set_state(tuple(state["numpy"]))

    def generators(self, data: Any) -> list[Any]:
        """None: the order of a share follows from the seed and the epoch."""
        return []

    def set_generators(self, states: list[Any], data: Any, already: set[int]) -> None:
        pass


def _named(kinds: Sequence[str]) -> str:
    return kinds[0] if kinds else "a bare function"

"""Where a worker's script meets whoever drives it: nobody (alone), the simulator, or the runtime.

A face (`weft.join`) brings a Replica and talks to its Seat; the driver behind the seat lets the
script's calls return when the strategy allows. Neither knows the other's kind.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from weft.core.names import Bucket
from weft.core.strategy import Strategy

Number = float | int
Reported = Mapping[str, "Number | Callable[[], Number]"]


class Replica(Protocol):
    """A model and its optimizer, as flat arrays behind buckets."""

    @property
    def buckets(self) -> tuple[Bucket, ...]: ...

    @property
    def brought(self) -> tuple[Any, ...]:
        """The user's own objects, to see that no two workers bring the same."""
        ...

    def layout(self) -> Sequence[str]:
        """A line for each parameter (name, shape, type), to compare between workers."""
        ...

    def array(self, slot: str, bucket: int) -> Any:
        """The flat memory of `params` or `gradient`; writing to it changes the model."""
        ...

    def apply(self, gradients: Mapping[int, Any], scale: float, hyper: Any | None) -> None:
        """One step of the user's optimizer on these buckets, with these hyper-parameters if given."""
        ...

    def hyper(self) -> Any:
        """The optimizer's hyper-parameters now, as plain data."""
        ...

    def adopt(self, other: "Replica") -> None:
        """Take over all values of another replica of the same layout, frozen ones included."""
        ...

    def twin(self) -> "Replica":
        """Another replica with equal parameters and an optimizer of its own, for a server."""
        ...

    def save(self, path: str, arrays: Sequence[Any]) -> None:
        """Write the model with these bucket values to a file."""
        ...


class Seat(Protocol):
    """What a face asks of its driver. Calls return when the strategy lets the script go on."""

    rank: int
    num_workers: int
    seed: int
    steps_max: int | None
    face: object | None
    """What joined, for adapters that must find it again from inside a framework's call."""

    def join(self, replica: Replica, strategy: Strategy | str | None) -> None:
        """Bring the replica; returns when the first iteration may run."""
        ...

    def backward_finished(self, samples: float) -> None:
        """Backward has filled `gradient`; returns when it holds what the user shall see (rule 11)."""
        ...

    def step_finished(self, samples: float, loss: float | None) -> None:
        """The user called `optimizer.step()`; returns when the next iteration may run."""
        ...

    def report(self, epoch: int, numbers: Reported) -> None:
        """The user reported; callables are run on the result model."""
        ...

    def save(self, path: str) -> None:
        """Write the result model, once for the whole run."""
        ...

    def once(self, key: object, load: Callable[[], Any]) -> Any:
        """The value of `load()`, loaded once for all workers that share this host."""
        ...

    def plan(self, num_epochs: int | None, num_samples: int, batch_size: int, drop_last: bool) -> None:
        """What the script is about to do: how many epochs of how many samples, in batches of what size."""
        ...


_current: Seat | None = None


def sit(seat: Seat | None) -> Seat | None:
    """Make `seat` the one that `weft.join` takes; returns the one before."""
    global _current
    before, _current = _current, seat
    return before


def current() -> Seat | None:
    """The seat that a driver has prepared for this script, if any."""
    return _current

"""A newcomer's script begins where the run is: what its sponsor's script hands over, and how it is taken over."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from weft.adapters.sharing import can_share
from weft.core.errors import ConfigError
from weft.core.seat import ScriptArrival

if TYPE_CHECKING:  # the worker makes this, and the framework's worker its part
    from weft.adapters.checkpoint_part import CheckpointPart
    from weft.adapters.worker import Worker


NESTED = "the script has begun a share within another, as for an evaluation between two batches; give it no share there"
"""Why nobody can begin where a script is: shares are numbered as they are begun."""


class ScriptPlace:
    """Where a worker's script is, and what it keeps between steps, in a run whose members may change.

    A newcomer runs the script from its beginning. At its first loop over epochs it waits until it has come in; it then
    passes over the loops and epochs that are done.
    """

    def __init__(self, worker: "Worker", survivor: Any) -> None:
        """`survivor` is the seat's part in it (runtime/seats/survivor.py)."""
        self._worker = worker
        self._survivor = survivor
        self._kept: dict[str, Any] = {}
        self._num_loops = 0
        self._arrival: ScriptArrival | None = None
        self.part: CheckpointPart | None = None
        """This worker's part of the run's checkpoints, if there are any."""
        survivor.script_place = self

    def keep(self, objects: Mapping[str, Any]) -> None:
        """Name objects whose state a newcomer takes over."""
        self._kept.update(objects)
        if self.part is not None:
            self.part.keep(self._kept)

    @property
    def is_checkpoint_due(self) -> bool:
        return self.part is not None and self.part.is_due

    def begin_share(self, share: int) -> None:
        if self.part is not None:
            self.part.begin_share(share)

    def between_batches(self) -> None:
        """The script wants its next batch: here it can rest."""
        if self.part is not None and self._worker._is_over:
            self.part.cut()  # before a batch is read, which may draw random numbers
        self._survivor.rest_here()

    def cut(self) -> None:
        """The script was told to end within a share."""
        if self.part is not None:
            self.part.cut()
        self._survivor.shares.cut()

    def epochs(self, num_epochs: int) -> range:
        """The epochs that are to be made of the script's next loop over `num_epochs`."""
        loop, self._num_loops = self._num_loops, self._num_loops + 1
        if not loop:
            self._arrival = self._survivor.arrive()
        if not loop and self._arrival is None and self.part is not None:
            self._arrival = self.part.restore(self._survivor.shares)
        arrival = self._arrival
        if arrival is None or loop > arrival.loop:
            return range(num_epochs)
        return range(arrival.epoch if loop == arrival.loop else num_epochs, num_epochs)

    def begin_epoch(self, epoch: int) -> None:
        self._survivor.shares.begin_epoch(self._num_loops - 1, epoch)

    @contextmanager
    def in_epoch(self, epoch: int) -> Iterator[None]:
        """The script makes an epoch. If it leaves its loop in it, who goes on from its last checkpoint begins with the
        next; not if it was told to end, or leaves within a share."""
        self.begin_epoch(epoch)
        try:
            yield
        except GeneratorExit:
            if not self._worker._is_over and not self._survivor.shares.is_in_share:
                self.begin_epoch(epoch + 1)
            raise

    def refusal(self, *, with_state: bool) -> str:
        """Why a newcomer cannot begin where this script is; empty if it can. `with_state` as for `hand_over`."""
        if not self._survivor.deals_rounds:
            return "under this strategy nobody knows yet which portions a newcomer would take"
        if not self._survivor.shares.can_be_taken_over:
            return "newcomers find their place only in scripts that loop by worker.epochs(...) over worker.share(...)"
        if self._survivor.shares.reached().is_nested:
            return NESTED
        why = self._worker.refuses_newcomers(self._kept.values()) or self._worker.rates.unnamed()
        if not why and not can_share(self.hand_over(with_state=with_state)):
            why = "what the script keeps has more in it than numbers, text, lists, dicts, arrays and tensors"
        return why

    def hand_over(self, *, with_state: bool) -> dict[str, Any]:
        """What a newcomer takes over, as plain data and tensors; `with_state`: the optimizer's state, too."""
        return {
            "samples": self._worker.last_samples,
            "steps_before": self._worker.steps_before,
            "last_part": None if self.part is None else self.part.last,
            "kept": {name: _keyed(each.state_dict()) for name, each in self._kept.items()},
            "own": _keyed(self._worker.hand_over_own(with_state=with_state)),
        }

    def take_over(self, step: int, state: Mapping[str, Any]) -> None:
        """Go on after `step` steps with what a sponsor has handed over."""
        missing = [name for name in self._kept if name not in state["kept"]]
        if missing:
            raise ConfigError(
                f"worker.keep(...) names {', '.join(missing)} here, but the worker that hands over does not.\n"
                "  Name the same on every worker."
            )
        self._worker.go_on_from(state["steps_before"], state["samples"])
        if self.part is not None:
            self.part.last = state["last_part"]
        self._worker.arrive(step, _unkeyed(state["own"]))
        for name, each in self._kept.items():
            each.load_state_dict(_unkeyed(state["kept"][name]))


def _keyed(value: Any) -> Any:
    """Dictionaries whose keys are not all text, and counters, as lists of pairs, which have a plain form."""
    if isinstance(value, dict):
        items = {key: _keyed(item) for key, item in value.items()}
        if isinstance(value, Counter):  # MultiStepLR has one
            return {"counter": list(items.items())}
        return {"dict": items} if all(type(key) is str for key in items) else {"pairs": list(items.items())}
    if isinstance(value, list | tuple):
        return type(value)([_keyed(item) for item in value]) if type(value) in (list, tuple) else value
    return value


def _unkeyed(value: Any) -> Any:
    """What `_keyed` was given."""
    if isinstance(value, dict):
        if "counter" in value:
            return Counter(dict(value["counter"]))
        items = value["dict"].items() if "dict" in value else value["pairs"]
        return {key: _unkeyed(item) for key, item in items}
    if isinstance(value, list | tuple):
        return type(value)([_unkeyed(item) for item in value])
    return value

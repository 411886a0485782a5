"""Where a worker's script meets whoever drives it: nobody (alone), the simulator, or the runtime.

A face (`weft.join`) brings a Replica and talks to its Seat; the driver behind the seat lets the
script's calls return when the strategy allows. Neither knows the other's kind.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from weft.core.errors import CheckpointError, ConfigError
from weft.core.names import GRADIENT, PARAMS, Bucket, Result, member
from weft.core.pace import LearningRatePace
from weft.core.script_state import ScriptState
from weft.core.strategy import Strategy

Number = float | int
Reported = Mapping[str, "Number | Callable[[], Number]"]

RESULT = "result"
MINE = "mine"
TWICE = (
    "weft.join was called twice with arrays.\n  Join once, with all arrays: weft.join(arrays={'w': w, 'b': b}, ...)."
)
"""What a second join is told that brings no other torch model."""
MODELS = (RESULT, MINE, Result.MEAN.value, Result.BEST.value, Result.ENSEMBLE.value)
"""Words for the models that can be saved: what the strategy says, the worker's own, or those of all workers."""


@dataclass(frozen=True)
class ReplicaMemory:
    """Where a replica's buckets live: flat arrays, one for each bucket.

    `given` is what the worker contributes, `seen` what its script and optimizer find in `gradient` when
    backward has returned. They are the same memory unless a driver reduces from one into the other.
    """

    params: Sequence[Any]
    given: Sequence[Any]
    seen: Sequence[Any]
    spans: Sequence[tuple[int, int]] | None = None
    """The stretch of each trained bucket that this worker updates, when all share one `params`; else it
    updates everything."""
    state: Callable[[int, int], Any] | None = None
    """Shared memory for the optimizer's k-th number per element of a bucket, when all share one `params`."""
    master: Sequence[Any] | None = None
    """The one `params` of the trained buckets that all share; `params` are then this worker's view of it."""
    is_under_way: bool = False
    """The shared parameters are those of a run under way: a newcomer takes them as they are."""


class ScriptArrival(NamedTuple):
    """Where a newcomer's script begins."""

    loop: int
    """The number of its loop over epochs."""
    epoch: int


class Replica(Protocol):
    """A model and its optimizer, as flat arrays behind buckets once it has settled."""

    @property
    def buckets(self) -> tuple[Bucket, ...]: ...

    @property
    def shares_update(self) -> bool:
        """The optimizer works element by element, so that workers with equal replicas can share its work."""
        ...

    def values(self) -> Sequence[Any]:
        """Flat arrays of all that workers must begin with alike, frozen parameters included; writable."""
        ...

    def begin_with(self, values: Sequence[Any]) -> None:
        """Let the models begin with what was written to `values`, the last so many of them."""
        ...

    @property
    def num_optimizers(self) -> int:
        """How many joined, each for parameters of its own."""
        ...

    def steps(self, bucket: int) -> bool:
        """The optimizer whose step the script makes has this bucket's parameters."""
        ...

    def expect_equal_steps(self, num_workers: int) -> None:
        """From now on, what is applied is the mean of so many workers' gradients of one and the same step: refuse that
        of a step for which samples were counted on some workers only."""
        ...

    @property
    def device(self) -> str | None:
        """Where the model is, if it is not in host memory: gradients are summed there, and nothing else is shared."""
        ...

    @property
    def is_settled(self) -> bool: ...

    def order(self) -> Sequence[int]:
        """The indices of the trained tensors in the order in which the first backward filled them."""
        ...

    def settle(
        self,
        order: Sequence[int] | None = None,
        allocate: Callable[[Sequence[Bucket]], ReplicaMemory] | None = None,
        bucket_bytes_max: int | None = None,
    ) -> None:
        """Lay the tensors out in buckets, in this order and up to this size, in the memory that `allocate` gives."""
        ...

    @property
    def brought(self) -> tuple[Any, ...]:
        """The user's own objects, to see that no two workers bring the same."""
        ...

    def layout(self) -> Sequence[str]:
        """A line for each parameter (name, shape, type), to compare between workers."""
        ...

    def show(self) -> None:
        """Let the buckets of `params` have what the script's model has, if that is elsewhere."""
        ...

    def names(self, bucket: int) -> Sequence[str]:
        """The names of a bucket's tensors, in the order in which they lie there; '' for what is not of the model."""
        ...

    def array(self, slot: str, bucket: int) -> Any:
        """The flat memory of `params`, `gradient` or `given`; writing to it changes the model."""
        ...

    def apply(self, gradients: Mapping[int, Any], scale: float, hyper: Any | None) -> None:
        """One step of the user's optimizer on these buckets, with these hyper-parameters if given."""
        ...

    def hyper(self) -> Any:
        """The optimizer's hyper-parameters now, as plain data."""
        ...

    def flags(self, bucket: int) -> Sequence[int]:
        """The elements of a bucket that hold flags of its gradient rather than parameters."""
        ...

    def tuned(self) -> Sequence[str]:
        """A line for each hyper-parameter that the script lets others change, to compare between workers."""
        ...

    def share_tuned(self) -> None:
        """Make the tuned hyper-parameters, if there are any, a last bucket of `params`, for a strategy that tunes."""
        ...

    def give_up_momentum(self) -> float:
        """Leave the optimizer's momentum to a codec; what it was. Raises ConfigError if that cannot be done."""
        ...

    def capture_factors(self) -> None:
        """From now on, keep the factors of gradients that are products."""
        ...

    def factors(self, bucket: int) -> Sequence[tuple[int, Any, Any]]:
        """Which tensors of a bucket have a gradient that is a product: errors (batch by rows), activations."""
        ...

    def twin(self) -> "Replica":
        """Another replica, settled, with equal parameters and an optimizer of its own, for a server."""
        ...

    def run_as(self, models: Sequence[Sequence[Any]], function: Callable[[], Number]) -> float:
        """The number that a function of the script gives while the model has these bucket values.

        Of several models, the predictions are averaged where the framework has a call for them, else the numbers.
        The values stay in the replica afterwards: whoever asks puts its own back.
        """
        ...

    def save(
        self, path: str, models: Mapping[str, Sequence[Any]], *, of: int | None = None, allow_nan: bool = False
    ) -> None:
        """Write models with these bucket values to one file, each one's tensors named with its prefix.

        Of several torch models that joined, the file has all, or only the one at the place `of`.
        Raises CheckpointError, and writes nothing, if a parameter is not finite or a buffer is NaN, unless that is
        allowed. Infinite numbers in buffers are masks, as a rule.
        Raises OSError if the disk cannot take it; what was there before is then as it was.
        """
        ...


class Seat(Protocol):
    """What a face asks of its driver. Calls return when the strategy lets the script go on."""

    rank: int
    num_workers: int
    seed: int
    steps_max: int | None
    face: object | None
    """What joined, for adapters that must find it again from inside a framework's call."""
    global_batch: int | None
    """Samples of one step over all workers, when the run says it rather than the script."""
    pace: LearningRatePace
    """By what the script's learning rates are multiplied."""
    saves: bool
    """Models are written; not so where many runs would write over each other."""
    is_probe: bool
    """This is a first look: every share ends after one step, and what is reported is not worked out."""
    is_simulated: bool
    """Several workers share this process."""
    script: ScriptState
    """Where the script stands; of a plain one, nobody asks."""
    is_plain: bool
    """The script's loop is left as it is: its gradients and its optimizer are its own."""
    block_steps: int | None
    """After how many steps of a share the parts of a global batch may change; None: all workers' are even."""
    steals: bool
    """Portions come from one queue of all workers, not from the strategy: they may be read ahead and added up."""
    survivor: Any
    """The worker's part when members change (runtime/seats/survivor.py); None where a loss ends the run."""

    def join(self, replica: Replica, strategy: Strategy | str | None, compress: str | None = None) -> None:
        """Bring the replica; returns when the first iteration may run. `compress` is a codec in words."""
        ...

    def join_more(self) -> None:
        """The replica has got another model; returns when that, too, holds worker 0's values."""
        ...

    def settle(self) -> None:
        """The first gradient is there; see to it that the replica is laid out in buckets, once."""
        ...

    def gradient_filled(self, bucket: int, samples: float) -> None:
        """Backward, still under way, has filled a bucket; returns at once."""
        ...

    def backward_finished(self, samples: float) -> None:
        """Backward has filled `gradient`; returns when it holds what the user shall see.

        This is rule 11 of docs/architecture.md.
        """
        ...

    def step_finished(self, samples: float, loss: float | None, *, is_repeat: bool = False) -> None:
        """The user called `optimizer.step()`; returns when the next iteration may run.

        `is_repeat`: no samples were counted for it; `samples`, by which it weighs, are those of an earlier step.
        """
        ...

    def portions(self, num_portions: int, num_samples: int) -> Iterator[int] | None:
        """The portions of one share of so many samples that this worker is handed, each when it asks, until all are in.

        None: nobody deals any, and the worker takes its own part of every global batch.
        """
        ...

    def fractions(self, share: int, num_samples: int, block: int) -> Sequence[float]:
        """What part of its global batches each worker takes in a block of a share of so many samples.

        All are told the same; those who come to the same share with another number of samples are refused.
        """
        ...

    def tell(self, text: str) -> None:
        """Say what the user has to know; of what all workers say, worker 0's words are shown."""
        ...

    def compare_first(self, digest: str) -> None:
        """Tell a digest of the first gradient of a worker that draws its own samples: no two should have the same."""
        ...

    def compare_stream(self, digest: str) -> None:
        """Tell a digest of the first item of a stream at which all workers take turns: all should have the same."""
        ...

    def note(self, activity: str) -> None:
        """The script does something else from now on: a word of core/activity.py."""
        ...

    def check_closures(self) -> None:
        """Refuse an optimizer that computes the gradient again and again in its step, if the strategy cannot."""
        ...

    def report(self, epoch: int, numbers: Reported) -> None:
        """The user reported; callables are run on the result model."""
        ...

    def save(self, path: str, model: str, *, of: int | None = None, allow_nan: bool = False) -> None:
        """Write a model, one of the words MODELS, once for the whole run; its own at once for each worker.

        Of several torch models that joined, the file has all, or only the one at the place `of`.
        """
        ...

    def once(self, key: object, load: Callable[[], Any]) -> Any:
        """The value of `load()`, loaded once for all workers that share this host."""
        ...

    def plan(self, num_epochs: int | None, num_samples: int, batch_size: int, drop_last: bool) -> None:
        """What the script is about to do: how many epochs of how many samples, in batches of what size."""
        ...


def step_alone(replica: Replica) -> None:
    """One step of a replica that shares nothing with anybody."""
    trained = [bucket for bucket, kind in enumerate(replica.buckets) if kind.trainable]
    replica.apply({bucket: replica.array(GRADIENT, bucket) for bucket in trained}, 1.0, None)


def check_tuned(rank: int, first: Sequence[str], mine: Sequence[str]) -> None:
    """Refuse workers that do not let others change the same hyper-parameters."""
    if list(first) != list(mine):
        raise ConfigError(
            f"worker {rank} tunes {', '.join(mine) or 'nothing'}, worker 0 tunes {', '.join(first) or 'nothing'}.\n"
            "  Call worker.tune(...) alike on every worker."
        )


def name_at(replica: Replica, bucket: int, element: int) -> str:
    """The name of the tensor that has this element of a bucket."""
    return replica.names(bucket)[sum(start <= element for start, _ in replica.buckets[bucket].tensors) - 1]


def check_closures(strategy: Strategy, name: str) -> None:
    """Refuse an optimizer that computes the gradient again and again in its step, if the strategy cannot share that."""
    if not strategy.allows_closures:
        raise ConfigError(
            f"this optimizer computes gradients again and again in its step, which '{name}' cannot share.\n"
            "  Use the strategy allreduce or ensemble, or an optimizer such as SGD or Adam."
        )


def check_optimizers(strategy: Strategy, name: str, replica: Replica) -> None:
    """Refuse several optimizers where workers that are added up may be at the steps of different ones."""
    if replica.num_optimizers > 1 and not strategy.allows_optimizers:
        raise ConfigError(
            f"{replica.num_optimizers} optimizers joined, but under '{name}' gradients are added up of workers that "
            "are at different steps, so those of one optimizer would be mixed with another's.\n"
            "  Use allreduce, ssp or gossip, or one optimizer with several groups."
        )


def check_savable(path: str, name: str, num_bad: int) -> None:
    """Refuse to save a tensor with numbers that are not finite."""
    if num_bad:
        raise CheckpointError(
            f"'{path}' is not saved: '{name}' has {num_bad:,} numbers that are NaN or infinite.\n"
            "  Lower the learning rate if training has diverged; worker.save(..., allow_nan=True) saves it as it is."
        )


def saved_alone(replica: Replica, model: str, num_workers: int = 1) -> dict[str, list[Any]]:
    """What a word for a model stands for where all workers' models are equal to this one."""
    arrays = [replica.array(PARAMS, bucket) for bucket in range(len(replica.buckets))]
    prefixes = [member(worker) for worker in range(num_workers)] if model == Result.ENSEMBLE.value else [""]
    return dict.fromkeys(prefixes, arrays)


_current: Seat | None = None
_join_hook: Callable[[], Seat | None] | None = None


def join_by(join_hook: Callable[[], Seat | None]) -> None:
    """Let `join_hook` find a seat for a script that nobody has prepared one for; it is asked once."""
    global _join_hook
    _join_hook = join_hook


def find_seat() -> Seat | None:
    """The seat that was prepared for this script, or that the join hook finds; None: it is alone."""
    global _join_hook
    if _current is None and _join_hook is not None:
        join_hook, _join_hook = _join_hook, None
        sit(join_hook())
    return _current


def sit(seat: Seat | None) -> Seat | None:
    """Make `seat` the one that `weft.join` takes; returns the one before."""
    global _current
    before, _current = _current, seat
    return before


def current() -> Seat | None:
    """The seat that a driver has prepared for this script, if any."""
    return _current

"""The messages between a worker process and its engine: small, typed, and sent in order over a channel.

Each docstring says who is told: "to the engine" (the launcher, or a host's agent), "to a worker" or "to all workers".
"""

from msgspec import Struct

from weft.checkpoints.taking import CheckpointPlan
from weft.core.pace import LearningRatePace
from weft.core.score import WORST
from weft.cost.links import Link
from weft.cost.staging import AUTO
from weft.data.proportional import EVERY
from weft.data.shares import STATIC
from weft.observe.records.status import Status, Told
from weft.observe.records.tracks import Traced
from weft.runtime.checkpoint_messages import CheckpointDue, PartCopied, PartLost, PartWritten, TakePart
from weft.runtime.descriptors import Descriptors
from weft.runtime.seats.returned_files import FilePiece, PieceTaken, Unsaved
from weft.runtime.view_messages import (
    CannotSurvive,
    DealAgain,
    Depart,
    Departs,
    Freeze,
    Frozen,
    GoOn,
    HandedOver,
    LaidOut,
    LinkBroken,
    LookAsked,
    LookTold,
    LostBefore,
    PieceAsked,
    PieceHanded,
    Progressed,
    RestAsked,
    RestAt,
    Resting,
    RestTold,
    StepCommitted,
    Unreached,
    ViewTaken,
    ViewTold,
)


class WorkerJob(Struct, frozen=True, tag=True, kw_only=True):
    """To a worker, its first message: its rank, its script and the settings of the run."""

    rank: int
    num_workers: int
    seed: int
    script: str
    arguments: list[str]
    steps_max: int | None
    global_batch: int | None
    slow: float
    """--slow: this worker's iterations are made to take this many times as long."""
    transport: str
    secret: bytes
    owns_core: bool
    spin_s: float
    bucket_bytes_max: int
    outbox_bytes_max: int
    checks_replay: bool
    baseline: str | None
    descriptors: Descriptors
    """The host's shared memory and bells, by their descriptor numbers in the worker's own process."""
    hiccups: tuple[float, float] = (0.0, 1.0)
    """(share, factor) of worker.hiccups: this share of iterations, drawn at random, takes `factor` times as long."""
    addresses: list[str] = []
    """The IP addresses of the workers, in order of rank; empty: all on loopback."""
    connect_timeout_s: float = 10.0
    """How long the workers may take to connect to each other."""
    share: str = STATIC
    """How data is shared: STATIC or another constant of data/shares.py."""
    block_steps: int = EVERY
    """Steps of a share after which the workers' fractions of a global batch may change."""
    traces: bool = False
    """Whether workers record a trace of their activities and messages, and send it to the engine."""
    pace: LearningRatePace = LearningRatePace()
    """The factor by which the script's learning rates are multiplied."""
    saves: bool = True
    """Whether saved models are written to disk."""
    is_probe: bool = False
    """Whether the run is only a first look at the script (`weft compare`): every share ends after one step."""
    device: tuple[float, float] | None = None
    """The latency and the bandwidth of the fake device that this worker is on; None: it is on the host."""
    on_devices: list[int] = []
    """The ranks of all workers that have a device."""
    reduce_place: str = AUTO
    """Where sums are made if some workers have devices: AUTO or another constant of cost/staging.py."""
    hosts: list[int] = []
    """The number of each worker's host, in order of rank; empty: all are on one."""
    is_private: bool = False
    """The addresses are in a network namespace that the launcher made for this run alone: no encryption is needed."""
    link: Link | None = None
    """The slowest link of the emulated network; None: the network is as it is."""
    trusts_network: bool = False
    """--set network.trusted: nothing between hosts is encrypted, and libraries that do not authenticate (Gloo, NCCL)
    may be used there."""
    survives: bool = False
    """Whether the others go on when this worker is lost, so that its memory must not be theirs."""
    must_survive: bool = True
    """Scripts of which nobody knows what a lost worker had are refused; else a loss ends their run."""
    departs: bool = False
    """Whether this worker leaves when it is sent SIGTERM, and the others go on."""
    stops_on_nan: bool = False
    """--on-nan stop: the first gradient that is not finite ends the run."""
    first_view: int = 0
    """The first view in which this worker can be; it is a newcomer if that is not 0."""
    checkpoint: CheckpointPlan | None = None
    """Where checkpoints are written, and from which one the worker goes on; None: there are none."""
    gives_back: bool = False
    """Whether files that the worker saves are sent to the engine, for the user's machine."""

    @property
    def on_host(self) -> list[int]:
        """The ranks of this host's workers, in order: the n-th of them has local rank n."""
        if not self.hosts:
            return list(range(self.num_workers))
        return [rank for rank, host in enumerate(self.hosts) if host == self.hosts[self.rank]]

    @property
    def local_rank(self) -> int:
        """This worker's number among the workers of its host, as torchrun's LOCAL_RANK."""
        return self.on_host.index(self.rank)


class ScriptJoined(Struct, frozen=True, tag=True):
    """To the engine: the script has called weft.join."""

    layout: list[str]
    num_bytes: int
    strategy: str | None
    """The strategy that the script asks for, by name; '' stands for an object of the script's own."""
    port: int
    """The TCP port on which this worker listens; 0 if it does not use sockets."""
    compress: str | None = None
    """The codec that the script asks for."""


class Welcome(Struct, frozen=True, tag=True):
    """To all workers, once all have joined with equal layouts: the strategy, the ports, and how to reduce."""

    strategy: str | None
    """The strategy's name; None: the object that the script passed to weft.join."""
    ports: list[int]
    collective: str | None = None
    """The collective whose messages carry out reductions; None: they are done natively."""
    compress: str | None = None
    scheme: str | None = None
    """How coded tensors are reduced: a scheme of config/compression.py."""
    sums_hosts: bool = False
    """The workers of a host sum theirs first, and what is coded is the host's."""


class Order(Struct, frozen=True, tag=True):
    """From each worker to the engine, then worker 0's from it to all: the order of parameters, and tuned
    hyper-parameters."""

    order: list[int]
    tuned: list[str] = []


class Planned(Struct, frozen=True, tag=True):
    """To the engine, from worker 0: the epochs, samples and batches that its script plans."""

    num_epochs: int | None
    num_samples: int
    batch_size: int
    drop_last: bool


class Reported(Struct, frozen=True, tag=True):
    """To the engine: the script's report number `number`; `callables` are the names whose values are functions."""

    number: int
    epoch: int
    numbers: dict[str, float]
    callables: list[str]
    badness: float = WORST
    """The worker's score, signed so that smaller is better."""


class ReplicaTold(Struct, frozen=True, tag=True):
    """To the engine, before a report or the end: digests of this worker's tensors, for comparison with the others'."""

    number: int
    """The number of the report; END of core/consensus.py for the end."""
    step: int
    digests: dict[str, int]
    sketches: dict[str, list[float]] = {}
    """On several hosts: sketches of the tensors, from which the engine finds how much they differ."""
    processor: str = ""
    """On several hosts: the kind of this host's processor; different kinds may round differently."""


class Decided(Struct, frozen=True, tag=True):
    """To a worker that reports or saves: whether it is to evaluate or write; `best` is the rank with the best score."""

    is_yours: bool
    best: int = 0


class Evaluated(Struct, frozen=True, tag=True):
    """To the engine: what the callables of a report returned on the result model."""

    number: int
    epoch: int
    numbers: dict[str, float]
    consensus: float | None = None
    """The consensus distance of the replicas; None if the engine finds it itself."""


class Saves(Struct, frozen=True, tag=True):
    """To the engine: the script's save number `number` of the run's model, to `path`."""

    number: int
    badness: float = WORST
    path: str = ""


class OnceAsked(Struct, frozen=True, tag=True):
    """To the engine: this worker calls weft.once for `key`, and asks whether it has to load the value."""

    key: str


class OnceAnswer(Struct, frozen=True, tag=True):
    """To a worker: if `form` is None, load the value and store it in the memfd from byte `start` on. If
    `form` is b"", load it without storing it; else map the stored value that `form` describes."""

    start: int
    form: bytes | None


class OnceLoaded(Struct, frozen=True, tag=True):
    """To the engine: the value of `key` is in the memfd, up to byte `stop`, as `form` describes. A `form` of b"" says
    that it could not be stored: each worker has to load it itself."""

    key: str
    form: bytes | None
    stop: int


class ThroughputMeasured(Struct, frozen=True, tag=True):
    """To the engine: steps and samples of this worker so far, and its own seconds for them, without waiting."""

    steps: int
    samples: float
    seconds: float


class FractionsAsked(Struct, frozen=True, tag=True):
    """To the engine: requests all workers' fractions of a global batch in block `block` of share `share`."""

    share: int
    num_samples: int
    block: int
    measured: ThroughputMeasured


class FractionsTold(Struct, frozen=True, tag=True):
    fractions: list[float]


class PortionRequested(Struct, frozen=True, tag=True):
    """To the engine: requests the next of the `num_portions` portions of share `share`."""

    share: int
    num_samples: int
    num_portions: int


class PortionTold(Struct, frozen=True, tag=True):
    portion: int | None
    """The index of the portion; None: all are taken."""


class StepAsked(Struct, frozen=True, tag=True):
    """To all workers: an orderly stop begins; answer with `StepTold`, and pause after this step until `LeaveAt`."""


class StepTold(Struct, frozen=True, tag=True):
    step: int


class LeaveAt(Struct, frozen=True, tag=True):
    """To all workers: end when `step` steps are made."""

    step: int


class SpoilGradients(Struct, frozen=True, tag=True):
    """To a worker, by --chaos: from now on its gradients are NaN."""


class Halt(Struct, frozen=True, tag=True):
    """To all workers: the run has failed; answer with `Halted`, and end."""


class Halted(Struct, frozen=True, tag=True):
    step: int
    waiting_for: str


class ScriptCompleted(Struct, frozen=True, tag=True):
    """To the engine: the script has ended without an error; `final` is its last status."""

    final: Status
    badness: float = WORST


class Conclude(Struct, frozen=True, tag=True):
    """To all workers, twice: when all scripts have ended (worker `first` then evaluates `reports`, and whom this is for
    writes `saves`), and when all have sent `Concluded`."""

    reports: list[int]
    saves: list[int]
    best: int = 0
    first: int = 0


class Concluded(Struct, frozen=True, tag=True):
    """To the engine: this worker is done; the consensus distance, and where a replay of its events differed."""

    consensus: float | None
    replay: list[str] | None
    ages: dict[int, int] = {}
    """Histogram of staleness: number of updates of this worker's nodes by their age in whole steps."""
    num_unused: int = 0
    """Samples of lost workers that nobody used, because all others had ended that epoch."""


class Leaving(Struct, frozen=True, tag=True):
    """To a host agent: this worker sends nothing more, and exits only after its host agent has exited."""


class Failed(Struct, frozen=True, tag=True):
    """To the engine: this worker failed; `error` is its exception's class name, `exit_code` that of its process.

    `is_said`: the script has printed the reason itself.
    """

    error: str
    text: str
    traceback: str
    step: int
    doing: str
    exit_code: int = 1
    is_said: bool = False


Message = (
    WorkerJob | ScriptJoined | Welcome | Order | Planned | Reported | ReplicaTold | Decided | Evaluated | Saves
    | FilePiece | Unsaved | PieceTaken | OnceAsked | OnceAnswer | OnceLoaded | ThroughputMeasured | FractionsAsked
    | FractionsTold | PortionRequested | PortionTold | Traced | LaidOut | Freeze | Frozen | ViewTold | ViewTaken
    | DealAgain | Departs | Depart | RestAsked | RestTold | RestAt | Resting | LookAsked | LookTold | HandedOver | GoOn
    | CannotSurvive | CheckpointDue | TakePart | PartCopied | PartWritten | PartLost | Unreached | LinkBroken
    | LostBefore | Progressed | PieceAsked | PieceHanded | StepCommitted
    | StepAsked | StepTold | LeaveAt | SpoilGradients | Halt | Halted | ScriptCompleted | Conclude | Concluded | Leaving
    | Failed | Told
)  # fmt: skip

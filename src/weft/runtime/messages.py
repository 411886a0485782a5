"""The messages between a worker process and its engine: small, typed, and told in order over a channel.

Each docstring says who is told: "to the engine" (the launcher, or a host's agent), "to a worker" or "to all workers".
"""

from msgspec import Struct

from weft.core.pace import LearningRatePace
from weft.core.score import WORST
from weft.cost.staging import AUTO
from weft.data.proportional import EVERY
from weft.data.shares import STATIC
from weft.observe.records.status import Status, Told
from weft.observe.records.tracks import Traced
from weft.runtime.descriptors import Descriptors
from weft.runtime.seats.returned_files import FilePiece, PieceTaken, Unsaved


class WorkerJob(Struct, frozen=True, tag=True):
    """To a worker, first of all: what it is part of."""

    rank: int
    num_workers: int
    seed: int
    script: str
    arguments: list[str]
    steps_max: int | None
    global_batch: int | None
    slow: float
    """How many times as long as it needs its iterations shall take."""
    transport: str
    secret: bytes
    owns_core: bool
    spin_s: float
    bucket_bytes_max: int
    outbox_bytes_max: int
    checks_replay: bool
    baseline: str | None
    descriptors: Descriptors
    """By the numbers that they have in the worker's own process."""
    hiccups: tuple[float, float] = (0.0, 1.0)
    """The share of its iterations, drawn at random, that take so many times as long again."""
    addresses: list[str] = []
    """Where the workers are found, in order of rank; empty: all on loopback."""
    connect_timeout_s: float = 10.0
    """How long the workers may take to connect to each other."""
    share: str = STATIC
    """How data is shared: a word of data/shares.py."""
    block_steps: int = EVERY
    """After how many steps of a share the parts of a global batch may change."""
    traces: bool = False
    """Workers tell what they do and send, moment by moment."""
    pace: LearningRatePace = LearningRatePace()
    """By what the script's learning rates are multiplied."""
    saves: bool = True
    """Models are written."""
    is_probe: bool = False
    """This is a first look at the script."""
    device: tuple[float, float] | None = None
    """The latency and the bandwidth of the fake device that this worker is on; None: it is on the host."""
    on_devices: list[int] = []
    """All workers that are on one."""
    reduce_place: str = AUTO
    """Where sums are made if there are any: a word of cost/staging.py."""
    hosts: list[int] = []
    """The number of each worker's host, in order of rank; empty: all are on one."""
    is_private: bool = False
    """The addresses are in a network that the launcher made for this run alone: what is sent there is not encrypted."""
    trusts_network: bool = False
    """Libraries that neither encrypt nor ask who is there may use the network between hosts."""
    gives_back: bool = False
    """Files that it saves are given to the engine."""

    @property
    def on_host(self) -> list[int]:
        """The workers of this worker's host, in order of rank: the n-th of them has the local rank n."""
        if not self.hosts:
            return list(range(self.num_workers))
        return [rank for rank, host in enumerate(self.hosts) if host == self.hosts[self.rank]]

    @property
    def local_rank(self) -> int:
        """This worker's number among those of its host, as torchrun's LOCAL_RANK."""
        return self.on_host.index(self.rank)


class ScriptJoined(Struct, frozen=True, tag=True):
    """To the engine: the script has joined."""

    layout: list[str]
    num_bytes: int
    strategy: str | None
    """What the script asks for, in words if it can be said so; '' stands for an object of its own."""
    port: int
    """Where it listens for the others, if they talk by sockets."""
    compress: str | None = None
    """The codec that the script asks for."""


class Welcome(Struct, frozen=True, tag=True):
    """To all workers, when all have joined alike."""

    strategy: str | None
    """None: the script's own object."""
    ports: list[int]
    collective: str | None = None
    """By whose messages reductions are spoken; None: they are done natively."""
    compress: str | None = None
    scheme: str | None = None
    """How what is coded is reduced."""


class Order(Struct, frozen=True, tag=True):
    """Worker 0's order of the parameters and what it tunes, to the engine and from there to all."""

    order: list[int]
    tuned: list[str] = []


class Planned(Struct, frozen=True, tag=True):
    """To the engine: what the script is about to do, as far as worker 0 has said."""

    num_epochs: int | None
    num_samples: int
    batch_size: int
    drop_last: bool


class Reported(Struct, frozen=True, tag=True):
    """To the engine: the script's n-th report, and the names that stand for callables."""

    number: int
    epoch: int
    numbers: dict[str, float]
    callables: list[str]
    badness: float = WORST
    """How bad the worker is, by its score."""


class ReplicaTold(Struct, frozen=True, tag=True):
    """To the engine, before a report or the end: what this worker's script sees in its model, by tensor."""

    number: int
    """That of the report; that of core/consensus.py for the end."""
    step: int
    digests: dict[str, int]
    sketches: dict[str, list[float]] = {}
    """Where there are several hosts: by how much tensors differ that do."""
    processor: str = ""
    """Where there are several hosts: of what kind this one's is."""


class Decided(Struct, frozen=True, tag=True):
    """To a worker that reported or saves: whether it is the one to do it, being the last; and who is best."""

    is_yours: bool
    best: int = 0


class Evaluated(Struct, frozen=True, tag=True):
    """To the engine: what the callables of a report gave on the result model."""

    number: int
    epoch: int
    numbers: dict[str, float]
    consensus: float | None = None
    """How far the replicas are apart."""


class Saves(Struct, frozen=True, tag=True):
    """To the engine: the script's n-th call to save a model of all workers, to `path`."""

    number: int
    badness: float = WORST
    path: str = ""


class OnceAsked(Struct, frozen=True, tag=True):
    """To the engine: who loads this?"""

    key: str


class OnceAnswer(Struct, frozen=True, tag=True):
    """To a worker: load it, from `start` of the shared file on; or, with a form, find it there."""

    start: int
    form: bytes | None


class OnceLoaded(Struct, frozen=True, tag=True):
    """To the engine: it lies there now, in this form (None: it cannot be shared)."""

    key: str
    form: bytes | None
    stop: int


class ThroughputMeasured(Struct, frozen=True, tag=True):
    """To the engine: what a worker has done so far, and its own seconds for it, without waiting."""

    steps: int
    samples: float
    seconds: float


class FractionsAsked(Struct, frozen=True, tag=True):
    """To the engine: what part of a global batch does each worker take in this block of this share?"""

    share: int
    num_samples: int
    block: int
    measured: ThroughputMeasured


class FractionsTold(Struct, frozen=True, tag=True):
    """To a worker: the fractions that it asked for, in order of rank."""

    fractions: list[float]


class PortionRequested(Struct, frozen=True, tag=True):
    """To the engine: requests the next of `num_portions` portions of a share."""

    share: int
    num_samples: int
    num_portions: int


class PortionTold(Struct, frozen=True, tag=True):
    """To a worker: the portion that it requested."""

    portion: int | None
    """None: all are taken."""


class StepAsked(Struct, frozen=True, tag=True):
    """To all workers: the run shall end in order; which step are you in?"""


class StepTold(Struct, frozen=True, tag=True):
    """To the engine: the step that this worker is in."""

    step: int


class LeaveAt(Struct, frozen=True, tag=True):
    """To all workers: end after this step."""

    step: int


class Halt(Struct, frozen=True, tag=True):
    """To all workers: the run has failed; say what you wait for, and end."""


class Halted(Struct, frozen=True, tag=True):
    """To the engine: where this worker was when the run had failed."""

    step: int
    waiting_for: str


class ScriptCompleted(Struct, frozen=True, tag=True):
    """To the engine: the script has ended well, with these figures."""

    final: Status
    badness: float = WORST


class Conclude(Struct, frozen=True, tag=True):
    """To all workers when all scripts have ended; worker 0 concludes what is still open, and knows who is best."""

    reports: list[int]
    saves: list[int]
    best: int = 0


class Concluded(Struct, frozen=True, tag=True):
    """To the engine: everything is done; how far the replicas are apart, and differences of a replay."""

    consensus: float | None
    replay: list[str] | None
    ages: dict[int, int] = {}
    """How many updates of this worker's nodes were how many whole steps old."""


class Leaving(Struct, frozen=True, tag=True):
    """To a host agent: this worker has nothing more to do or to say, and waits for its host agent's last words."""


class Failed(Struct, frozen=True, tag=True):
    """To the engine: this worker cannot go on, by an `error` of this class; its process ends with `exit_code`.

    `is_said`: its script has told its user why.
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
    | FractionsTold | PortionRequested | PortionTold | Traced | StepAsked | StepTold | LeaveAt | Halt | Halted
    | ScriptCompleted | Conclude | Concluded | Leaving | Failed | Told
)  # fmt: skip

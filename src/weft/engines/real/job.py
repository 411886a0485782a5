"""The description of one run of a script on real workers, checked before any process starts."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from weft.checkpoints.taking import CheckpointPlan
from weft.config.chaos import ChaosPlan
from weft.config.compression import check_pair, said, with_codec
from weft.config.compression import codec as codec_of
from weft.config.devices import OPTION as DEVICE
from weft.config.devices import FakeKind, check_on_devices
from weft.config.extras import check_extra
from weft.config.network import EmulatedNetwork
from weft.config.on_loss import REPLACE, STOP
from weft.config.option_values import check_hiccups
from weft.config.options import Options
from weft.config.registry import AUTO
from weft.config.registry import strategy as strategy_of
from weft.core.errors import ConfigError, did_you_mean
from weft.core.pace import LearningRatePace
from weft.data.shares import STATIC, check_share, check_sharing, with_share
from weft.engines.job_checks import check_job, check_slow
from weft.engines.netem.network import check_network
from weft.engines.real.session import DEFAULT_STRATEGY
from weft.runtime.connections import SHM, TCP, TORCH, TRANSPORTS

BASELINES = ("ddp", "ddp+fp16", "ddp+powersgd")
"""torch's DistributedDataParallel, plain or with one of its hooks that compress gradients."""


def spread(num_workers: int, num_hosts: int) -> tuple[int, ...]:
    """The number of each worker's host, for workers spread evenly over `num_hosts`; empty if there is only one."""
    if num_hosts == 1:
        return ()
    if not 1 <= num_hosts <= num_workers:
        raise ConfigError(
            f"--hosts is {num_hosts}, but each host has a worker, and there are {num_workers}.\n"
            f"  Use --hosts 1 to {num_workers}."
        )
    return tuple(rank * num_hosts // num_workers for rank in range(num_workers))


@dataclass(frozen=True, kw_only=True)
class RealJob:
    """One run of a script on real workers; invalid combinations raise ConfigError when it is made."""

    script: Path
    arguments: tuple[str, ...] = ()
    num_workers: int = 2
    strategy: str | None = None
    collective: str | None = None
    transport: str = SHM
    seed: int = 0
    steps_max: int | None = None
    slow: dict[int, float] = field(default_factory=dict)
    hiccups: tuple[float, float] = (0.0, 1.0)
    """(share, factor): this share of all iterations, drawn at random, takes `factor` times as long."""
    global_batch: int | None = None
    baseline: str | None = None
    compress: str | None = None
    share: str = STATIC
    options: Options = field(default_factory=Options)
    checks_replay: bool = False
    traces: bool = False
    """Record what every worker does and sends, for timelines and traces."""
    pace: LearningRatePace = LearningRatePace()  # noqa: RUF009
    saves: bool = True
    """Whether models are written; not in comparisons, where several runs would overwrite each other's files."""
    is_probe: bool = False
    """Only a first look at the script (`weft compare`): shares end after one step, reported callables are not run."""
    network: EmulatedNetwork | None = None
    """An emulated network (`--net`) between the workers, which then communicate by sockets."""
    devices: dict[int, FakeKind] = field(default_factory=dict)
    """Workers with a (fake) device of their own, by rank."""
    hosts: tuple[int, ...] = ()
    """The number of each worker's host: workers of different hosts share no memory. Empty: all are on one."""
    on_loss: str = STOP
    """What happens when a worker's process dies: a constant of config/on_loss.py."""
    is_survival_asked: bool = True
    """`on_loss` was asked for: scripts that cannot go on after a loss are refused, instead of ended by one."""
    workers_min: int = 1
    """The run ends when fewer workers than this are left."""
    chaos: ChaosPlan | None = None
    """Faults that are put into the run; None: none are."""
    checkpoint: CheckpointPlan | None = None
    """Where checkpoints are written, and from which one the run goes on."""
    brings_back_to: Path | None = None
    """The folder for copies of files that workers save on other machines; None: they are not copied."""

    def __post_init__(self) -> None:
        check_job(self.script, self.num_workers, self.seed, self.steps_max)
        if self.transport not in TRANSPORTS:
            raise ConfigError(
                f"transport '{self.transport}' is not known.\n  {did_you_mean(self.transport, TRANSPORTS)}"
            )
        if self.network is not None:
            if self.transport != TCP and self.num_hosts == 1:
                raise ConfigError("--net is for workers that talk by sockets.\n  Use --transport tcp, or leave it out.")
            check_network(self.num_workers)
            self._check_links(self.network)
        self._check_hosts()
        if self.baseline not in (None, *BASELINES):
            raise ConfigError(f"baseline '{self.baseline}' is not known.\n  {did_you_mean(self.baseline, BASELINES)}")
        if self.baseline is not None:
            check_extra("torch", f"--baseline {self.baseline}")
            if self.options.run.on_nan == STOP:
                raise ConfigError(
                    f"--on-nan stop does not go with --baseline {self.baseline}, which trains as without Weft.\n"
                    "  Leave out one of them."
                )
        if self.global_batch is not None and self.global_batch < self.num_workers:
            raise ConfigError(
                f"data.global_batch is {self.global_batch}, but {self.num_workers} workers need at least 1 sample "
                "each.\n"
                f"  Use --set data.global_batch={self.num_workers} or more."
            )
        if self.transport == TORCH:
            self._check_torch()
        check_slow(self.slow, self.num_workers)
        check_hiccups(*self.hiccups)
        check_share(self.share)
        self._check_devices()
        built = strategy_of(self.strategy or DEFAULT_STRATEGY, self.collective)
        built.check(self.num_workers, self.num_memories)
        if self.strategy is not None:
            check_sharing(built, self.strategy, self.sharing)
        if self.on_loss != STOP:
            check_survives(self, f"--on-loss {self.on_loss}")
            if self.num_workers == 1:
                raise ConfigError(
                    f"--on-loss {self.on_loss} lets others go on without a lost worker, but there is one worker.\n"
                    "  Use -n 2 or more; or --checkpoint FOLDER, from which the same command goes on."
                )
        elif self.chaos is not None:
            check_survives(self, "--chaos")
            raise ConfigError(
                f"--chaos would {self.chaos.would}.\n  Use --on-loss replace or shrink, with -n 2 or more."
            )
        if self.devices:
            check_on_devices(built if self.strategy is not None else None, said(self.compress), self.label)
        if self.compress is not None and said(self.compress) is not None:
            codec = codec_of(self.compress)
            if self.strategy is not None:
                check_pair(built, codec, self.strategy)

    def _check_links(self, network: EmulatedNetwork) -> None:
        for worker, _ in network.own:
            if worker >= self.num_workers:
                raise ConfigError(
                    f"--net says the link of worker {worker}, but there are {self.num_workers} workers.\n"
                    f"  Name one from 0 to {self.num_workers - 1}."
                )

    def _check_hosts(self) -> None:
        if self.num_hosts == 1:
            return
        others = {
            DEVICE: bool(self.devices),
            f"--baseline {self.baseline}": self.baseline is not None,
            "the link of a single worker": self.network is not None and bool(self.network.own),
        }
        for option in (option for option, is_used in others.items() if is_used):
            raise ConfigError(f"--hosts does not go with {option}.\n  Leave out one of them.")
        if self.network is None:
            check_extra("tls", "--hosts")

    def _check_torch(self) -> None:
        check_extra("torch", "--transport torch")
        if self.collective not in (None, AUTO):
            raise ConfigError(
                f"reduce.collective={self.collective} does all-reduce by Weft's own messages, but with --transport "
                "torch it is torch.distributed that sums.\n  Leave out one of them."
            )

    def _check_devices(self) -> None:
        if not self.devices:
            return
        if self.num_workers == 1:
            raise ConfigError(f"{DEVICE} is for sums of several workers, but there is one.\n  Use -n 2 or more.")
        for worker in self.devices:
            if worker >= self.num_workers:
                raise ConfigError(
                    f"{DEVICE} names worker {worker}, but there are {self.num_workers} workers.\n"
                    f"  Name one from 0 to {self.num_workers - 1}."
                )
        others = {
            f"--transport {self.transport}": self.transport != SHM,
            "--set reduce.collective": self.collective is not None,
        }
        for option in (option for option, is_used in others.items() if is_used):
            raise ConfigError(
                f"{DEVICE} is for sums in shared memory, and does not go with {option}.\n  Leave out one of them."
            )

    @property
    def survives(self) -> bool:
        """Whether workers can stop between two batches, so that members may change or a checkpoint be taken."""
        return self.on_loss != STOP or (self.checkpoint is not None and self.num_workers > 1)

    @property
    def num_memories(self) -> int:
        """Number of groups that share memory: workers over TCP share none, so each is its own group."""
        return self.num_workers if self.transport == TCP else self.num_hosts

    @property
    def num_hosts(self) -> int:
        return len(set(self.hosts)) or 1

    @property
    def num_addresses(self) -> int:
        """Number of addresses in the emulated network: one per host, or one per worker if there is only one host."""
        return self.num_workers if self.num_hosts == 1 else self.num_hosts

    @property
    def sharing(self) -> str:
        """How data is shared; static under a baseline and with a single worker."""
        return STATIC if self.baseline is not None or self.num_workers == 1 else self.share

    @property
    def label(self) -> str:
        """The run's name before the script has said which strategy it wants."""
        asked = with_codec(self.strategy or DEFAULT_STRATEGY, self.compress)
        return self.baseline or with_share(asked, self.sharing)

    def with_strategy(self, strategy: str | None) -> "RealJob":
        """A copy of this job with another strategy."""
        return replace(self, strategy=strategy)

    def under(self, baseline: str) -> "RealJob":
        """A copy of this job under `baseline`, without strategy, codec, sharing and devices."""
        return replace(self, baseline=baseline, strategy=None, compress=None, share=STATIC, devices={})


def check_survives(job: RealJob, option: str) -> None:
    """Refuse what an option does not go with whose workers must be able to stop between two batches."""
    others = {
        f"--baseline {job.baseline}": job.baseline is not None,
        f"--transport {TORCH}": job.transport == TORCH,
        DEVICE: bool(job.devices),
        f"--share {job.share}": job.share != STATIC,
    }
    for other in (other for other, is_used in others.items() if is_used):
        raise ConfigError(f"{option} does not go with {other} yet.\n  Leave out one of them.")


def survivable(job: RealJob) -> RealJob:
    """This job with lost workers replaced, if nothing stands against it; else as it is: a lost worker ends it. Where
    workers share no memory that has to be asked for, because reductions are then made of messages, which takes
    longer."""
    if job.num_workers == 1 or job.num_memories > 1:
        return job
    try:
        return replace(job, on_loss=REPLACE, is_survival_asked=False)
    except ConfigError:
        return job

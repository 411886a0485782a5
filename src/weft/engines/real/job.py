"""One run of a script on real workers of this machine, checked before anything starts."""

from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path

from weft.config.compression import check_pair, said, with_codec
from weft.config.compression import codec as codec_of
from weft.config.devices import FakeKind, check_on_devices
from weft.config.extras import check_extra
from weft.config.network import EmulatedNetwork
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
    """The number of each worker's host, where workers are spread evenly over so many; none if there is only one."""
    if num_hosts == 1:
        return ()
    if not 1 <= num_hosts <= num_workers:
        raise ConfigError(
            f"--hosts is {num_hosts}, but each host has a worker, and there are {num_workers}.\n"
            f"  Use --hosts 1 to {num_workers}."
        )
    return tuple(rank * num_hosts // num_workers for rank in range(num_workers))


@dataclass(frozen=True)
class RealJob:
    """One run of a script on real workers of this machine."""

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
    """The share of all iterations, drawn at random, that take so many times as long."""
    global_batch: int | None = None
    baseline: str | None = None
    compress: str | None = None
    share: str = STATIC
    options: Options = field(default_factory=Options)
    checks_replay: bool = False
    traces: bool = False
    """What every worker does and sends is kept, for timelines and traces."""
    pace: LearningRatePace = LearningRatePace()  # noqa: RUF009
    saves: bool = True
    """Models are written; not so where many runs would write over each other."""
    is_probe: bool = False
    """This is a first look: every share ends after one step, and what is reported is not worked out."""
    network: EmulatedNetwork | None = None
    """A slow network between the workers, which talk by sockets then."""
    devices: dict[int, FakeKind] = field(default_factory=dict)
    """Workers that are not on the host."""
    hosts: tuple[int, ...] = ()
    """The number of each worker's host: those of different ones share no memory. Empty: all are on one."""
    brings_back_to: Path | None = None
    """The folder to which files come that workers elsewhere save; None: they stay where workers write them."""

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
        if self.global_batch is not None and self.global_batch < self.num_workers:
            raise ConfigError(
                f"--global-batch is {self.global_batch}, but {self.num_workers} workers need at least 1 sample each.\n"
                f"  Use --global-batch {self.num_workers} or more."
            )
        if self.transport == TORCH:
            self._check_torch()
        check_slow(self.slow, self.num_workers)
        share, factor = self.hiccups
        if not 0 <= share <= 1 or not 1 <= factor < inf:
            raise ConfigError(
                f"--hiccups {share:g}:{factor:g} wants a share from 0 to 1 and a factor of at least 1.\n"
                "  Write e.g. --hiccups 0.1:8 to let one iteration in ten take 8 times as long."
            )
        check_share(self.share)
        self._check_devices()
        built = strategy_of(self.strategy or DEFAULT_STRATEGY, self.collective)
        built.check(self.num_workers, self.num_memories)
        if self.strategy is not None:
            check_sharing(built, self.strategy, self.sharing)
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
            "--device": bool(self.devices),
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
                f"--collective {self.collective} says all-reduce in messages of Weft's own, but with --transport torch "
                "it is torch.distributed that sums.\n  Leave out one of them."
            )

    def _check_devices(self) -> None:
        if not self.devices:
            return
        if self.num_workers == 1:
            raise ConfigError("--device is for sums of several workers, but there is one.\n  Use -n 2 or more.")
        for worker in self.devices:
            if worker >= self.num_workers:
                raise ConfigError(
                    f"--device names worker {worker}, but there are {self.num_workers} workers.\n"
                    f"  Name one from 0 to {self.num_workers - 1}."
                )
        others = {f"--transport {self.transport}": self.transport != SHM, "--collective": self.collective is not None}
        for option in (option for option, is_used in others.items() if is_used):
            raise ConfigError(
                f"--device is for sums in shared memory, and does not go with {option}.\n  Leave out one of them."
            )

    @property
    def num_memories(self) -> int:
        """Workers that talk by sockets share nothing."""
        return self.num_workers if self.transport == TCP else self.num_hosts

    @property
    def num_hosts(self) -> int:
        return len(set(self.hosts)) or 1

    @property
    def num_addresses(self) -> int:
        """How many ends its network has, if there is one: a host's workers share theirs."""
        return self.num_workers if self.num_hosts == 1 else self.num_hosts

    @property
    def sharing(self) -> str:
        """How data is shared; evenly under a baseline, and one worker has nobody to share it with."""
        return STATIC if self.baseline is not None or self.num_workers == 1 else self.share

    @property
    def label(self) -> str:
        """How it is called before the script has said what it wants."""
        asked = with_codec(self.strategy or DEFAULT_STRATEGY, self.compress)
        return self.baseline or with_share(asked, self.sharing)

    def with_strategy(self, strategy: str | None) -> "RealJob":
        """The same with another strategy."""
        return replace(self, strategy=strategy)

    def under(self, baseline: str) -> "RealJob":
        """The same under a baseline."""
        return replace(self, baseline=baseline, strategy=None, compress=None, share=STATIC, devices={})

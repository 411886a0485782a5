"""The description of one simulation: what the user asks for, and the strategy to use for a model and a cluster."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from weft.config.chaos import ChaosPlan
from weft.config.cluster import Cluster
from weft.config.compression import Compression, check_pair, compressed, compression, said, with_codec
from weft.config.compression import codec as codec_of
from weft.config.registry import AUTO, lowered, spelled
from weft.config.registry import strategy as strategy_of
from weft.core.names import Bucket
from weft.core.pace import LearningRatePace
from weft.core.strategy import Strategy
from weft.cost.choice import cheapest, prices_s
from weft.data.shares import STATIC, STEALING, check_share, check_sharing, with_share
from weft.engines.explanation import Explanation, coded, explained
from weft.engines.job_checks import check_job
from weft.engines.real.session import DEFAULT_STRATEGY
from weft.engines.simulated.chaos import check_simulated_chaos

NATIVE = "done natively, at the price of the cheapest formula on the slowest link"


@dataclass(frozen=True, kw_only=True)
class SimulatedJob:
    """One simulation: a script with its arguments on a cluster."""

    script: Path
    arguments: tuple[str, ...]
    cluster: Cluster
    num_workers: int
    strategy: Strategy | str | None = None
    collective: str | None = None
    seed: int = 0
    steps_max: int | None = None
    compress: str | None = None
    share: str = STATIC
    traces: bool = False
    """Record what every worker does and sends, for timelines and traces."""
    chaos: ChaosPlan | None = None
    """Kills of workers, which are then replaced; for dry runs."""
    pace: LearningRatePace = LearningRatePace()  # noqa: RUF009
    saves: bool = True
    """Whether models are written; not in comparisons, where several runs would overwrite each other's files."""
    is_probe: bool = False
    """Only a first look at the script (`weft compare`): shares end after one step, reported callables are not run."""

    def __post_init__(self) -> None:
        check_job(self.script, self.num_workers, self.seed, self.steps_max)
        check_share(self.share)
        if self.chaos is not None:
            check_simulated_chaos(self.chaos, self.sharing, traces=self.traces)
        if self.compress is not None and said(self.compress) is not None:
            codec_of(self.compress)
        if self.strategy is not None or self.collective is not None:
            self.resolved(None).check(self.num_workers, self.cluster.num_hosts(self.num_workers))

    def asked(self, by_script: Strategy | str | None) -> Strategy:
        """The strategy as it is asked for: the job's own, else the script's, else all-reduce."""
        chosen = self.strategy or by_script or DEFAULT_STRATEGY
        return strategy_of(chosen) if isinstance(chosen, str) else chosen

    def resolved(
        self, by_script: Strategy | str | None, buckets: Sequence[Bucket] = (), compress: str | None = None
    ) -> Strategy:
        """The strategy to run on a model of these buckets, with the named collective or else the cheapest."""
        asked, compress = self.asked(by_script), self.codec_for(compress)
        check_sharing(asked, self.name_of(by_script), self.sharing)
        collective = self.collective_for(asked, buckets, compress)
        if compress is not None:
            check_pair(asked, codec_of(compress), self.name_of(by_script))
            return compressed(asked, self.compression_for(asked, buckets, compress), collective)
        return asked if collective is None else lowered(asked, collective)

    @property
    def sharing(self) -> str:
        """How data is shared; static with a single worker."""
        return STATIC if self.num_workers == 1 else self.share

    @property
    def steals(self) -> bool:
        """Whether workers take batches from one queue."""
        return self.sharing == STEALING

    def codec_for(self, by_script: str | None) -> str | None:
        """The codec that the job, or else the script, asks for; None with a single worker."""
        return None if self.num_workers == 1 else said(self.compress or by_script)

    def collective_for(self, strategy: Strategy, buckets: Sequence[Bucket], compress: str | None = None) -> str | None:
        """The collective whose messages carry out reductions; None: they are done natively, without a codec."""
        if self.collective != AUTO and not (self.collective is None and compress is not None):
            return self.collective
        sizes = [bucket.num_bytes for bucket in buckets]
        return cheapest(prices_s(sizes, self.cluster.ground(self.num_workers))) if strategy.reduces else None

    def compression_for(self, strategy: Strategy, buckets: Sequence[Bucket], compress: str) -> Compression:
        """How tensors are coded, and by which scheme what is coded is reduced."""
        codec, ground = codec_of(compress), self.cluster.ground(self.num_workers)
        if not strategy.reduces:
            return Compression(codec)
        num_bytes = sum(bucket.num_bytes for bucket in buckets)
        return compression(codec, num_bytes, ground, survives=self.chaos is not None)

    def explained(
        self, by_script: Strategy | str | None, buckets: Sequence[Bucket], compress: str | None = None
    ) -> Explanation:
        """How a model of these buckets will be trained."""
        asked, ground, compress = self.asked(by_script), self.cluster.ground(self.num_workers), self.codec_for(compress)
        coding = None
        if compress is not None:
            num_bytes = sum(bucket.num_bytes for bucket in buckets)
            coding = coded(compress, self.compression_for(asked, buckets, compress), num_bytes, ground)
        place = f"simulated on {len(ground.sizes)} hosts like those of cluster '{self.cluster.name}'"
        sizes = [bucket.num_bytes for bucket in buckets]
        collective = self.collective_for(asked, buckets, compress)
        return explained(asked, self.name_of(by_script), place, NATIVE, sizes, ground, collective, coding)

    def name_of(self, by_script: Strategy | str | None) -> str:
        """The strategy's name."""
        chosen = self.strategy or by_script or DEFAULT_STRATEGY
        return chosen if isinstance(chosen, str) else spelled(chosen)

    def label(self, by_script: Strategy | str | None, compress: str | None = None) -> str:
        """The run's name in tables."""
        return with_share(with_codec(self.name_of(by_script), self.codec_for(compress)), self.sharing)

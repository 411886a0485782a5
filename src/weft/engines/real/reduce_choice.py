"""How a run reduces: natively, or by which collective and in which scheme of its codec; and why, in words."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from weft.config.compression import Compression, compression
from weft.config.compression import codec as codec_of
from weft.config.network import EmulatedNetwork
from weft.config.registry import AUTO
from weft.core.strategy import Strategy
from weft.cost.choice import Ground, taken
from weft.cost.links import Link
from weft.engines.explanation import Explanation, coded, cut, explained, native, native_with_devices
from weft.runtime.connections import LINKS, SHM, TCP, TLS, TORCH

PLACES = {
    SHM: "shared memory",
    TCP: "sockets (tcp)",
    TORCH: "torch.distributed for sums, and for all else shared memory",
}
GOES_ON = "by messages, so that the others can go on without a worker that is lost"
ONE_STREAM = "so that a bucket crosses between hosts once each way, however many workers are there"


class ChosenReduction(NamedTuple):
    """How a run reduces."""

    collective: str | None = None
    """The collective whose messages reductions are; None: they are native."""
    scheme: str | None = None
    """The scheme by which what is coded is reduced."""
    sums_hosts: bool = False
    """The workers of a host sum theirs before it is coded."""


@dataclass(frozen=True, kw_only=True)
class ReductionChoice:
    """What a run is given to choose by."""

    hosts: Sequence[int]
    """The number of each worker's host."""
    transport: str
    collective: str | None
    """The collective that the user asks for; None or 'auto': native if possible, else the cheapest."""
    network: EmulatedNetwork | None
    bucket_bytes_max: int
    on_devices: Sequence[int]
    reduce_place: str
    trusts_network: bool = False
    """Nothing between hosts is encrypted."""
    survives: bool = False
    """Whether the others go on when a worker is lost: those that wait for native sums between hosts, which the first
    worker of each host makes, could not."""

    def choose(self, strategy: Strategy | None, compress: str | None, num_bytes: int) -> ChosenReduction:
        """How the run reduces; `strategy` is None for one of the script's own, which may reduce, too."""
        if strategy is not None and not strategy.reduces:
            return ChosenReduction(self._asked)
        collective, ground = self._asked, self._ground()
        if collective is None and (compress is not None or self._survives_between_hosts):
            collective = taken(cut(num_bytes, self.bucket_bytes_max), ground)
        if compress is None:
            return ChosenReduction(collective)
        coded = compression(codec_of(compress), num_bytes, ground, survives=self.survives)
        return ChosenReduction(collective, coded.scheme, coded.sums_hosts)

    @property
    def _asked(self) -> str | None:
        return None if self.collective == AUTO else self.collective

    @property
    def _survives_between_hosts(self) -> bool:
        return self.survives and (self.transport == TCP or len(set(self.hosts)) > 1)

    def explain(
        self, strategy: Strategy, text: str, compress: str | None, num_bytes: int, layout: Sequence[str]
    ) -> Explanation:
        """What was chosen, and what else it could cost."""
        ground, buckets = self._ground(), cut(num_bytes, self.bucket_bytes_max)
        chosen = self.choose(strategy, compress, num_bytes)
        is_chosen = self._asked is None and chosen.collective is not None and ground.shares_links
        coding = None
        if compress is not None:
            how = Compression(codec_of(compress), chosen.scheme, chosen.sums_hosts)
            coding = coded(compress, how, num_bytes, ground)
        place, native_way = self._place(len(ground.sizes)), self._native(len(ground.sizes), layout)
        why = ONE_STREAM if is_chosen else ""
        if self._asked is None and strategy.reduces and compress is None and self._survives_between_hosts:
            why = GOES_ON
        return explained(strategy, text, place, native_way, buckets, ground, chosen.collective, coding, why)

    def _ground(self) -> Ground:
        """The number of workers on each host, and the links that are assumed within and between hosts."""
        net, sizes = self.network, tuple(Counter(self.hosts).values())
        between = LINKS[self.transport if len(sizes) == 1 else TCP if self.trusts_network else TLS]
        if net is not None:
            between = Link(net.worst.delay_s, net.worst.bytes_per_s)
        return Ground(sizes, LINKS[self.transport] if len(sizes) > 1 else between, between)

    def _native(self, num_hosts: int, layout: Sequence[str]) -> str:
        if self.on_devices:
            return native_with_devices(self.on_devices, self.reduce_place)
        return native(self.transport, num_hosts, is_on_gpus=any(line.endswith(" on cuda") for line in layout))

    def _place(self, num_hosts: int) -> str:
        net = f", {self.network}" if self.network else ""
        if num_hosts == 1:
            return f"processes of this machine over {PLACES[self.transport]}{net}"
        between = "sockets (tcp)" if net or self.trusts_network else "TLS"
        return f"processes on {num_hosts} hosts: {PLACES[self.transport]} within a host, {between} between them{net}"

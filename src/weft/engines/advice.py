"""Advice for a run with a slow worker or network: alternatives are simulated, without tensors, from measured times."""

import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf

from weft.config.compression import NONE, Compression, check_pair, compressed, compression
from weft.config.compression import codec as codec_of
from weft.config.network import EmulatedNetwork
from weft.config.registry import lowered
from weft.config.registry import strategy as strategy_of
from weft.config.ways import Way
from weft.core.activity import PAUSED, READS
from weft.core.errors import WeftError
from weft.core.names import Bucket
from weft.core.strategy import Strategy
from weft.core.world import World
from weft.cost.choice import Ground, taken
from weft.cost.links import Link
from weft.data.proportional import counts
from weft.data.shares import PROPORTIONAL, STATIC, check_sharing
from weft.engines.explanation import cut
from weft.engines.real.job import RealJob
from weft.observe.records.linkbook import NETWORK
from weft.observe.records.stragglers import Blame, Cost
from weft.runtime.connections import LINKS, TCP, TLS
from weft.runtime.messages import Welcome
from weft.sim.compute import PerSample
from weft.sim.facts import Facts
from weft.sim.network import HostLinks
from weft.sim.program import GhostProgram
from weft.sim.reports import NoReports
from weft.sim.simulation import Simulation
from weft.store.building import ghost_stores

HELPS = 1.1
"""Alternatives that gain less than this factor are not mentioned."""
ADVICE_S_MAX = 0.2
"""How long all trials of one advice may take together: the supervisor must not be held up."""
WORKERS_MAX = 32
"""With more workers, alternatives are not simulated: it would take too long."""
STEPS = 20
STEPS_MAX = 200
"""Steps of a trial: of each worker on average, and of all together at most."""
BUCKETS_MAX = 4
FEWER_BYTES, FEWER_ROUNDS, FEWER_OF_BOTH = "topk(0.01)", "local_sgd(period=16)", "diloco(period=16)"
WAITS_LESS = ("quorum", "ssp(staleness=3)", "async_gossip")
LOADER = "Give its loader processes of its own (num_workers) if it has none."


@dataclass(frozen=True)
class RunDescription:
    """A run as it is now: its way of training, the size of its model, and where it runs."""

    way: Way
    num_bytes: int
    bucket_bytes_max: int
    transport: str
    network: EmulatedNetwork | None
    num_cores: int
    is_baseline: bool = False
    """The run is under a baseline (torch's DDP), which `way` only approximates."""
    hosts: tuple[int, ...] = ()
    """The number of each worker's host; empty: all are on one."""

    @property
    def is_one_host(self) -> bool:
        """All workers share memory, and cores."""
        return self.transport != TCP and not self.hosts

    def ends(self, num_workers: int) -> tuple[int, ...]:
        """The number of the link that each worker uses: its host's, or its own where workers use sockets."""
        return (0,) * num_workers if self.is_one_host else self.hosts or tuple(range(num_workers))

    @property
    def buckets(self) -> tuple[int, ...]:
        """The sizes of the model's buckets, or of BUCKETS_MAX larger ones if there are more."""
        return cut(max(4, self.num_bytes), max(self.bucket_bytes_max, -(-self.num_bytes // BUCKETS_MAX)))


def setting_of(job: RealJob, welcome: Welcome, num_bytes: int) -> RunDescription | None:
    """The description of a run whose workers got `welcome`; None if the script has a strategy object of its own."""
    if not welcome.strategy:
        return None
    return RunDescription(
        Way(welcome.strategy, welcome.compress, job.sharing),
        num_bytes,
        job.options.buckets.bytes_max,
        job.transport,
        job.network,
        max(1, len(os.sched_getaffinity(0)) // job.options.worker.threads),
        job.baseline is not None,
        job.hosts,
    )


def advise(blame: Blame, costs: Mapping[int, Cost], setting: RunDescription | None) -> str:
    """One or two sentences of advice; empty if no alternative helps much."""
    said = [LOADER] if blame.cause == READS else []
    if setting is None:
        return " ".join(said)
    if blame.cause == PAUSED:
        return "Workers need not wait for it with --strategy async_gossip." if _waits(setting.way) else ""
    ways = _network_ways(setting.way) if blame.cause == NETWORK else _unequal_ways(setting.way)
    can_try = len(costs) <= WORKERS_MAX and all(cost.own_s > 0 and cost.samples > 0 for cost in costs.values())
    best = _best(ways, costs, setting) if can_try else None
    if best is not None:
        way, times = best
        options = _options(way, Way("") if setting.is_baseline else setting.way)
        said.append(f"Try {options}: {times:.1f} times as many samples/s at most, by simulation.")
    return " ".join(said)


def _waits(way: Way) -> bool:
    return strategy_of(way.strategy).keeps_step


def _unequal_ways(way: Way) -> list[Way]:
    """Alternatives against slow computing or reading; those that change least come first."""
    shared = [Way(way.strategy, way.compress, PROPORTIONAL)] if way.share == STATIC else []
    return shared + [Way(text, way.compress, way.share) for text in WAITS_LESS]


def _network_ways(way: Way) -> list[Way]:
    """Alternatives against slow links: fewer bytes, fewer rounds, or both."""
    if way.compress is not None:
        return [Way(FEWER_OF_BOTH, way.compress, way.share), Way(FEWER_ROUNDS, None, way.share)]
    return [
        Way(way.strategy, FEWER_BYTES, way.share),
        Way(FEWER_ROUNDS, None, way.share),
        Way(FEWER_OF_BOTH, FEWER_BYTES, way.share),
    ]


def _options(way: Way, now: Way) -> str:
    """The options to add to the command line for `way` instead of `now`."""
    said = {"--strategy": (way.strategy, now.strategy), "--compress": (way.compress, now.compress)}
    said["--share"] = way.share, now.share
    return " ".join(f"{option} {_quoted(new or NONE)}" for option, (new, old) in said.items() if new != old)


def _quoted(text: str) -> str:
    return text if text.isidentifier() else f"'{text}'"


def _best(ways: Sequence[Way], costs: Mapping[int, Cost], setting: RunDescription) -> tuple[Way, float] | None:
    """The first of `ways` that is at most HELPS times slower than the fastest; and how many times as fast as now."""
    until_s = time.perf_counter() + ADVICE_S_MAX
    gains: dict[Way, float] = {}
    with suppress(_TooLate):
        now = samples_per_s(setting.way, costs, setting, until_s)
        for way in ways:
            with suppress(WeftError):  # the way cannot be combined with this model, codec or share
                gains[way] = samples_per_s(way, costs, setting, until_s) / now
    enough = max(gains.values(), default=0.0) / HELPS
    return next(((way, gain) for way, gain in gains.items() if gain >= max(HELPS, enough)), None)


class _Enough(Exception):
    """Ends a trial: enough steps were simulated."""


class _TooLate(Exception):
    """A trial took too long; its result so far is not used."""


def samples_per_s(way: Way, costs: Mapping[int, Cost], setting: RunDescription, until_s: float = inf) -> float:
    """Samples per second of all workers together, in virtual time.

    Raises _TooLate if the trial has not ended by `until_s` of the real clock.
    """
    simulation = _simulation(way, costs, setting, until_s)
    with suppress(_Enough):
        simulation.run()
    return simulation.facts.samples / simulation.kernel.now_s


def _simulation(way: Way, costs: Mapping[int, Cost], setting: RunDescription, until_s: float) -> Simulation:
    num_workers = len(costs)
    each = [costs[rank] for rank in range(num_workers)]
    lines = _links(setting, num_workers)
    strategy = _resolved(way, setting, num_workers, lines)
    roles = strategy.roles(num_workers)
    ends, is_one_host = setting.ends(num_workers), setting.is_one_host
    hosts = tuple(ends[node % num_workers] for node in range(sum(roles)))
    buckets = tuple(Bucket(max(1, size // 4)) for size in setting.buckets)
    world = World(roles, buckets, strategy.graph(num_workers), hosts)
    samples = _samples(way, each)
    steps_max = min(STEPS * num_workers, STEPS_MAX)

    def on_step(facts: Facts, now_s: float) -> None:
        if sum(facts.steps) >= steps_max:
            raise _Enough
        if time.perf_counter() > until_s:
            raise _TooLate

    paces = [cost.own_s / cost.samples for cost in each]
    usual = sorted(paces)[(num_workers - 1) // 2]
    return Simulation(
        strategy,
        world,
        ghost_stores(strategy, world),
        [GhostProgram([size] * steps_max, steps_max + 1) for size in samples],
        HostLinks(hosts, lines, LINKS[setting.transport] if setting.hosts else lines[0]),
        PerSample([min(usual, pace) for pace in paces] if is_one_host else paces),
        NoReports(),
        on_step=on_step,
        num_cores=setting.num_cores if is_one_host else None,
        stretch=[max(1.0, pace / usual) for pace in paces] if is_one_host else (),
    )


def _samples(way: Way, costs: Sequence[Cost]) -> list[int]:
    """The samples of each worker in a step."""
    sizes = [max(1, round(cost.samples)) for cost in costs]
    if way.share == PROPORTIONAL:
        return counts(sum(sizes), [cost.samples / cost.own_s for cost in costs])
    return sizes


def _links(setting: RunDescription, num_workers: int) -> list[Link]:
    if setting.network is None:
        return [LINKS[TLS if setting.hosts else setting.transport]] * num_workers
    each = [setting.network.link(worker) for worker in range(num_workers)]
    return [Link(link.delay_s, link.bytes_per_s) for link in each]


def _resolved(way: Way, setting: RunDescription, num_workers: int, lines: Sequence[Link]) -> Strategy:
    """The strategy as the workers would run it, with collective and codec."""
    built = strategy_of(way.strategy)
    sizes = tuple(Counter(setting.ends(num_workers)).values())
    built.check(num_workers, len(sizes))
    check_sharing(built, way.strategy, way.share)
    worst = Link(max(line.latency_s for line in lines), min(line.bandwidth_bytes_per_s for line in lines))
    ground = Ground(sizes, LINKS[setting.transport], worst) if setting.hosts else Ground((num_workers,), worst, worst)
    collective = None
    if built.reduces and (setting.transport == TCP or way.compress is not None):
        collective = taken(setting.buckets, ground)
    if way.compress is None:
        return built if collective is None else lowered(built, collective)
    codec = codec_of(way.compress)
    check_pair(built, codec, way.strategy)
    how = compression(codec, setting.num_bytes, ground) if built.reduces else Compression(codec)
    return compressed(built, how, collective)

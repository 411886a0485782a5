"""Cluster files: which hosts there are, how fast they are, how they are linked, who straggles."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from weft.config.toml import load_toml, read_toml
from weft.config.units import bytes_per_s, seconds
from weft.core.errors import ConfigError, did_you_mean
from weft.core.shortening import WORD_CHARACTERS_MAX, shortened
from weft.cost.choice import Ground
from weft.cost.coding import Throughput
from weft.cost.links import Link
from weft.cost.recovery import RecoveryTimes

PACKAGED = ("rack", "cloud", "edge")
WORKERS_MAX = 100_000
"""Of a run, real or simulated."""
LEAST, MOST = 1e-18, 1e18
"""Between which numbers of a cluster file are, if they are not 0: all that is computed from them is finite."""


@dataclass(frozen=True)
class HostSpec:
    """One kind of host: `count` of them, each with `workers` workers that run at `speed`."""

    count: int = 1
    workers: int = 1
    speed: float = 1.0
    seconds_per_sample: float | None = None


@dataclass(frozen=True)
class Straggler:
    """A worker that takes `factor` times as long as its host says; cores that are shared are free for the more."""

    worker: int
    factor: float


@dataclass(frozen=True)
class Cluster:
    """A cluster file. Workers fill the hosts in order; when there are more, the list of hosts starts over."""

    name: str
    hosts: tuple[HostSpec, ...]
    between: Link
    within: Link = field(default=Link(5e-6, 5e9))
    seconds_per_sample: float = 1e-3
    variation: float = 0.0
    seconds_per_step: float = 0.0
    """What a step takes besides its samples."""
    cores: int | None = None
    """Of each host, shared by its workers; None: every worker has one of its own."""
    stragglers: tuple[Straggler, ...] = ()
    step_s: tuple[tuple[float, ...], ...] = ()
    """Recorded step times, a row for each worker, in place of seconds per sample."""
    codecs: tuple[tuple[str, Throughput], ...] = ()
    """How fast codecs are, by name; none: they take no time."""
    recovery: RecoveryTimes = RecoveryTimes()  # noqa: RUF009
    """What the loss of a worker and its replacement take."""

    @property
    def num_workers(self) -> int:
        """How many workers the hosts have when each is used once."""
        return sum(host.count * host.workers for host in self.hosts)

    def place(self, num_workers: int) -> "ClusterPlacement":
        """Where each worker sits and how long a sample takes there."""
        hosts: list[int] = []
        per_sample: list[float] = []
        speeds: list[float] = []
        number = 0
        while len(hosts) < num_workers:
            for kind in self.hosts:
                for _ in range(kind.count):
                    hosts += [number] * kind.workers
                    cost = kind.seconds_per_sample or self.seconds_per_sample
                    per_sample += [cost / kind.speed] * kind.workers
                    speeds += [kind.speed] * kind.workers
                    number += 1
        factors = [1.0] * num_workers
        for straggler in self.stragglers:
            if straggler.worker < num_workers:
                factors[straggler.worker] *= straggler.factor
        slower = factors if self.cores is None else [min(1.0, factor) for factor in factors]
        return ClusterPlacement(
            tuple(hosts[:num_workers]),
            tuple(cost * factor for cost, factor in zip(per_sample, slower)),
            tuple(self.seconds_per_step / speed * factor for speed, factor in zip(speeds, slower)),
            tuple(factors if self.cores is None else [max(1.0, factor) for factor in factors]),
        )

    def num_hosts(self, num_workers: int) -> int:
        """Over how many hosts so many workers are spread."""
        return len(set(self.place(num_workers).hosts))

    def ground(self, num_workers: int) -> Ground:
        """How many workers sit on each host, and their links, for those who choose by cost."""
        sizes = Counter(self.place(num_workers).hosts)
        return Ground(tuple(sizes.values()), self.within, self.between)

    def with_codecs(self, throughputs: Mapping[str, Throughput]) -> "Cluster":
        """The cluster with measured speeds of codecs."""
        return replace(self, codecs=tuple(throughputs.items()))

    def with_stragglers(self, slow: Mapping[int, float]) -> "Cluster":
        """The cluster with more workers that take so many times as long."""
        more = tuple(Straggler(worker, factor) for worker, factor in slow.items() if factor != 1)
        return replace(self, stragglers=self.stragglers + more)

    def with_seconds_per_sample(self, value: float) -> "Cluster":
        """The cluster with a measured compute time in place of recorded ones, for hosts that have none of their own."""
        return replace(self, seconds_per_sample=value, step_s=())


@dataclass(frozen=True)
class ClusterPlacement:
    """Workers on hosts: the host's number, the seconds per sample and per step, and how much slower each one is.

    Where every worker has a core of its own, the seconds are those of the slower worker already; those of a worker that
    is faster are everywhere.
    """

    hosts: tuple[int, ...]
    seconds_per_sample: tuple[float, ...]
    seconds_per_step: tuple[float, ...]
    factors: tuple[float, ...]


def load_cluster(name: str) -> Cluster:
    """A cluster that comes with Weft, by name, or one in a file, by path."""
    if name in PACKAGED:
        source = files("weft.config").joinpath(f"clusters/{name}.toml")
        return read_cluster(read_toml(source.read_text(), f"cluster '{name}'"), name)
    if not name.endswith(".toml"):
        raise ConfigError(
            f"cluster '{name}' is not known.\n  {did_you_mean(name, PACKAGED)} A path to a file ends in .toml."
        )
    return read_cluster(load_toml(Path(name), "cluster file"), name)


def read_cluster(table: dict[str, Any], name: str) -> Cluster:
    """Check a parsed cluster file and give it meaning."""
    _check_keys(table, ("name", "compute", "hosts", "links", "stragglers", "codecs", "recovery"), name)
    compute = _table(table, "compute", name)
    _check_keys(
        compute, ("seconds_per_sample", "seconds_per_step", "variation", "step_s", "cores"), f"{name}: [compute]"
    )
    hosts = tuple(_host(host, name) for host in _tables(table, "hosts", name))
    num_workers = sum(host.count * host.workers for host in hosts)
    if num_workers < 1:
        raise ConfigError(f"cluster '{name}' has no workers.\n  Add hosts: [[hosts]] with count = 4 and workers = 1.")
    if num_workers > WORKERS_MAX:
        raise ConfigError(
            f"cluster '{name}' has more than {WORKERS_MAX:,} workers.\n"
            "  Make count or workers of its hosts smaller: when there are more workers, the hosts are used again."
        )
    links = _table(table, "links", name)
    _check_keys(links, ("between", "within"), f"{name}: [links]")
    if "between" not in links:
        raise ConfigError(
            f"cluster '{name}' does not say how its hosts are linked.\n"
            '  Add [links.between] with latency = "0.5ms" and bandwidth = "1Gbit/s".'
        )
    optional = {"within": _link(links, "within", name)} if "within" in links else {}
    return Cluster(
        name=str(table.get("name", Path(name).stem)),
        hosts=hosts,
        between=_link(links, "between", name),
        seconds_per_sample=_positive(compute.get("seconds_per_sample", 1e-3), f"{name}: seconds_per_sample"),
        variation=_number(compute.get("variation", 0.0), f"{name}: variation"),
        seconds_per_step=_number(compute.get("seconds_per_step", 0.0), f"{name}: seconds_per_step"),
        cores=_cores(compute.get("cores"), name),
        stragglers=tuple(_straggler(entry, name) for entry in _tables(table, "stragglers", name)),
        step_s=_trace(compute.get("step_s", []), name),
        codecs=tuple(_codec(codec, entry, name) for codec, entry in _table(table, "codecs", name).items()),
        recovery=_recovery(_table(table, "recovery", name), f"{name}: [recovery]"),
        **optional,
    )


def _cores(value: Any, name: str) -> int | None:
    cores = None if value is None else _whole(value, f"{name}: cores of a host")
    if cores == 0:
        raise ConfigError(f"{name}: cores of a host are 0, but workers need some.\n  Leave it out, or write e.g. 2.")
    return cores


def _recovery(table: dict[str, Any], where: str) -> RecoveryTimes:
    """Times by their names without the unit, such as notice = "20ms"; those that are not said are the defaults."""
    names = [time.name.removesuffix("_s") for time in fields(RecoveryTimes)]
    _check_keys(table, tuple(names), where)
    return RecoveryTimes(**{f"{name}_s": seconds(value, f"{where} {name}") for name, value in table.items()})


def _codec(codec: str, table: Any, name: str) -> tuple[str, Throughput]:
    where = f"{name}: [codecs] {codec}"
    if not isinstance(table, dict) or set(table) != {"encode", "decode"}:
        raise ConfigError(
            f"{where} is {_short(table)}, but must say how fast it encodes and decodes.\n"
            f'  Write e.g. {codec} = {{ encode = "1GB/s", decode = "2GB/s" }}.'
        )
    speeds = [_positive(bytes_per_s(table[way], f"{where} {way}"), f"{where} {way}") for way in ("encode", "decode")]
    return codec, Throughput(*speeds)


def _trace(rows: Any, name: str) -> tuple[tuple[float, ...], ...]:
    if not isinstance(rows, list) or not all(isinstance(row, list) and row for row in rows):
        raise ConfigError(
            f"{name}: step_s is not a list of step times for each worker.\n"
            "  Write e.g. step_s = [[0.10, 0.12], [0.30]], in seconds; rows repeat."
        )
    return tuple(tuple(_positive(value, f"{name}: a step time") for value in row) for row in rows)


def _host(table: dict[str, Any], name: str) -> HostSpec:
    _check_keys(table, ("count", "workers", "speed", "seconds_per_sample"), f"{name}: [[hosts]]")
    own = table.get("seconds_per_sample")
    return HostSpec(
        _whole(table.get("count", 1), f"{name}: count of hosts"),
        _whole(table.get("workers", 1), f"{name}: workers of a host"),
        _positive(table.get("speed", 1.0), f"{name}: speed of a host"),
        None if own is None else _positive(own, f"{name}: seconds_per_sample of a host"),
    )


def _link(links: dict[str, Any], which: str, name: str) -> Link:
    where = f"{name}: [links.{which}]"
    table = _table(links, which, f"{name}: links")
    _check_keys(table, ("latency", "bandwidth"), where)
    latency = seconds(table.get("latency", 0.0), f"{where} latency")
    bandwidth = bytes_per_s(table.get("bandwidth", "1Gbit/s"), f"{where} bandwidth")
    return Link(latency, _positive(bandwidth, f"{where} bandwidth"))


def _straggler(table: dict[str, Any], name: str) -> Straggler:
    _check_keys(table, ("worker", "factor"), f"{name}: [[stragglers]]")
    if "worker" not in table:
        raise ConfigError(f"{name}: [[stragglers]] does not say which worker it is.\n  Add worker = 0.")
    worker = _whole(table["worker"], f"{name}: worker of a straggler")
    return Straggler(worker, _positive(table.get("factor", 2.0), f"{name}: factor of a straggler"))


def _table(table: dict[str, Any], key: str, where: str) -> dict[str, Any]:
    found = table.get(key, {})
    if not isinstance(found, dict):
        raise ConfigError(f"{where}: '{key}' is {_short(found)}, but must be a table.\n  Write [{key}] above its keys.")
    return found


def _tables(table: dict[str, Any], key: str, where: str) -> list[dict[str, Any]]:
    found = table.get(key, [])
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise ConfigError(f"{where}: '{key}' must be a list of tables.\n  Write [[{key}]] above each of them.")
    return found


def _whole(value: Any, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MOST:
        raise ConfigError(
            f"{where} is {_short(value)}, but must be a whole number, 0 or more and at most {MOST:g}.\n  Write e.g. 1."
        )
    return value


def _number(value: Any, where: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= MOST:
        raise ConfigError(
            f"{where} is {_short(value)}, but must be a number, 0 or more and at most {MOST:g}.\n  Write e.g. 0.5."
        )
    return float(value)


def _positive(value: Any, where: str) -> float:
    if _number(value, where) < LEAST:
        raise ConfigError(f"{where} is {value!r}, but must be greater than 0: at least {LEAST:g}.\n  Write e.g. 0.5.")
    return float(value)


def _short(value: Any) -> str:
    return shortened(repr(value), WORD_CHARACTERS_MAX)


def _check_keys(table: dict[str, Any], known: tuple[str, ...], where: str) -> None:
    for key in table:
        if key not in known:
            raise ConfigError(f"{where} has an unknown key {_short(key)}.\n  {did_you_mean(key, known)}")

"""Options that few need to change: `--set worker.threads=2`. A field of a section is all that an option needs."""

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

from weft.checkpoints.interval import EVERY as EVERY_SO_OFTEN
from weft.checkpoints.interval import CheckpointInterval
from weft.config import option_values
from weft.config.chaos import ChaosPlan, read_chaos
from weft.config.devices import FakeKind
from weft.config.grammar import parse
from weft.config.on_loss import REPLACE, STOP, read_on_loss
from weft.config.on_nan import EXCLUDE, read_on_nan
from weft.config.units import seconds
from weft.core.errors import ConfigError, did_you_mean
from weft.cost.staging import AUTO
from weft.data.proportional import EVERY

STRATEGY = "strategy"
"""The section that names a parameter of the strategy rather than an option."""

RUN, COMPARE, SIMULATE, TORCHRUN, PYTHON = "weft run", "weft compare", "weft simulate", "torchrun", "weft.run"
"""Who takes options. torchrun stands for all that starts workers by itself: srun, Kubernetes."""
REAL = (RUN, COMPARE, TORCHRUN, PYTHON)
DEVICE = "worker.device"
"""The one option that collects what it is given, by worker; of others the last value counts."""
FLAGS = {
    "run.on_loss": "--on-loss",
    "run.on_nan": "--on-nan",
    "run.chaos": "--chaos",
    "checkpoint.folder": "--checkpoint",
    "checkpoint.every": "--checkpoint-every",
}
"""Options that `weft run` has a flag for: what is said against their values names the flag."""


class Leaf(NamedTuple):
    """What is known of an option besides its default."""

    reads: Callable[[str, str], Any]
    """Its value, from a text and from how the option is called in what is said against the text."""
    example: str
    does: str
    takers: tuple[str, ...]


def _told(reads: Callable[[str, str], Any], example: str, does: str, takers: tuple[str, ...] = REAL) -> dict[str, Leaf]:
    return {"leaf": Leaf(reads, example, does, takers)}


@dataclass(frozen=True)
class WorkerOptions:
    """A worker process."""

    threads: int = field(default=1, metadata=_told(option_values.whole, "2", "threads of each worker"))
    keeps_memory: bool = field(
        default=True, metadata=_told(option_values.truth, "false", "its allocator keeps memory for the next step")
    )
    device: tuple[tuple[int, FakeKind], ...] = field(
        default=(),
        metadata=_told(
            option_values.devices,
            "1:fake(bandwidth=1GB/s,latency=20us)",
            "a worker on a device; once more for another worker",
            (RUN, PYTHON),
        ),
    )
    hiccups: tuple[float, float] = field(
        default=(0.0, 1.0),
        metadata=_told(option_values.share_and_factor, "0.1:8", "a share of all iterations, at random, takes longer"),
    )


@dataclass(frozen=True)
class Data:
    """What workers train on."""

    global_batch: int | None = field(
        default=None,
        metadata=_told(option_values.whole, "256", "samples of a step over all workers, not batch_size for each"),
    )


@dataclass(frozen=True)
class BucketOptions:
    """How a model is cut into buckets."""

    bytes_max: int = field(default=4 << 20, metadata=_told(option_values.size, "4MiB", "size of a bucket of gradients"))


@dataclass(frozen=True)
class WaitingOptions:
    """How a worker waits, while every worker has a core of its own."""

    spin_s: float = field(default=200e-6, metadata=_told(seconds, "200us", "a worker spins so long before it sleeps"))


@dataclass(frozen=True)
class OutboxOptions:
    """Messages that could not leave at once."""

    bytes_max: int = field(
        default=64 << 20, metadata=_told(option_values.size, "64MiB", "unsent messages at which a script waits")
    )


@dataclass(frozen=True)
class ShareOptions:
    """Proportional shares of data."""

    every: int = field(
        default=EVERY, metadata=_told(option_values.whole, "4", "steps after which proportional shares may change")
    )


@dataclass(frozen=True)
class ReduceOptions:
    """How gradients are summed."""

    collective: str | None = field(
        default=None,
        metadata=_told(
            option_values.collective,
            "ring",
            "all-reduce in messages; auto: sums in place where they can be made so, else the cheapest",
            (*REAL, SIMULATE),
        ),
    )
    place: str = field(
        default=AUTO, metadata=_told(option_values.place, "host", "where devices' sums are made: auto, host, device")
    )


@dataclass(frozen=True)
class NetworkOptions:
    """The network between hosts."""

    trusted: bool = field(
        default=False,
        metadata=_told(option_values.truth, "true", "all on it are trusted: nothing between hosts is encrypted"),
    )


@dataclass(frozen=True)
class RayOptions:
    """A Ray cluster."""

    address: str | None = field(
        default=None,
        metadata=_told(option_values.words, "10.0.0.1:6379", "the cluster, or auto; default: RAY_ADDRESS", (RUN,)),
    )
    resources: str | None = field(
        default=None,
        metadata=_told(option_values.words, "cpu=1,gpu=0,memory=4GiB", "what each worker gets; default: cpu=1", (RUN,)),
    )
    patience_s: float = field(
        default=10.0, metadata=_told(seconds, "600s", "how long to wait for places that others have", (RUN,))
    )


@dataclass(frozen=True)
class Write:
    """What runs leave besides their figures."""

    trace: Path | None = field(
        default=None,
        metadata=_told(
            option_values.path, "trace.json.gz", "what every worker did and sent, for ui.perfetto.dev", (RUN, SIMULATE)
        ),
    )
    log: Path | None = field(
        default=None,
        metadata=_told(
            option_values.path, "run.jsonl", "a line of JSON for each status, report and end", (RUN, SIMULATE)
        ),
    )
    tensorboard: Path | None = field(
        default=None,
        metadata=_told(option_values.path, "scalars", "a folder of scalars for TensorBoard", (RUN, SIMULATE)),
    )


@dataclass(frozen=True)
class Checked:
    """What a run proves of itself."""

    check_replay: bool = field(
        default=False,
        metadata=_told(option_values.truth, "true", "record the run and feed it to fresh peers at the end", (RUN,)),
    )
    on_loss: str | None = field(
        default=None,
        metadata=_told(
            read_on_loss,
            REPLACE,
            "when a worker is lost: replace it, shrink (others go on) or stop; without it, replace where that works",
            (RUN,),
        ),
    )
    on_nan: str = field(
        default=EXCLUDE,
        metadata=_told(
            read_on_nan,
            STOP,
            "when a gradient is not finite: exclude (it weighs nothing) or stop (the run ends)",
            (RUN, TORCHRUN, PYTHON),
        ),
    )
    chaos: ChaosPlan | None = field(
        default=None,
        metadata=_told(
            read_chaos,
            "kill every 15s seed 7",
            "kill or stop workers now and then, or make their gradients nan, to try it out",
            (RUN, SIMULATE),
        ),
    )


@dataclass(frozen=True)
class CheckpointOptions:
    """Checkpoints of a run."""

    folder: Path | None = field(
        default=None,
        metadata=_told(option_values.path, "runs/a", "where a run writes checkpoints, and goes on from them", (RUN,)),
    )
    every: CheckpointInterval = field(
        default=EVERY_SO_OFTEN,
        metadata=_told(
            option_values.interval, "500steps", "how often, in steps, epochs, s, m or h; default: 10m", (RUN,)
        ),
    )


@dataclass(frozen=True)
class Options:
    """The tree of options; every leaf is a field of its owner's record."""

    worker: WorkerOptions = WorkerOptions()
    data: Data = Data()
    buckets: BucketOptions = BucketOptions()
    waiting: WaitingOptions = WaitingOptions()
    outbox: OutboxOptions = OutboxOptions()
    shares: ShareOptions = ShareOptions()
    reduce: ReduceOptions = ReduceOptions()
    network: NetworkOptions = NetworkOptions()
    ray: RayOptions = RayOptions()
    write: Write = Write()
    run: Checked = Checked()
    checkpoint: CheckpointOptions = CheckpointOptions()


def _leaves() -> Iterator[tuple[str, Leaf]]:
    for section in fields(Options):
        for leaf in fields(getattr(Options, section.name)):
            yield f"{section.name}.{leaf.name}", leaf.metadata["leaf"]


LEAVES = dict(_leaves())
"""Every option by its key: 'worker.threads'."""


def set_options(settings: Iterable[str]) -> tuple[Options, dict[str, str]]:
    """Options from texts like 'worker.threads=2'; those of the strategy apart, by parameter."""
    options = Options()
    of_strategy: dict[str, str] = {}
    for text in settings:
        key, equals, value = text.partition("=")
        section, dot, name = key.partition(".")
        if not equals or not dot or not name or not (value or key in FLAGS):
            raise ConfigError(
                f"--set got '{text}', but wants section.name=value.\n"
                "  Write e.g. --set worker.threads=2; weft run --set help lists all."
            )
        if section == STRATEGY:
            if len(parse(f"set({name}={value})").kwargs) > 1:
                raise ConfigError(f"--set got '{text}', but wants one value.\n  Use --set once for each parameter.")
            of_strategy[name] = value
            continue
        if key not in LEAVES:
            raise ConfigError(
                f"--set: option '{key}' is not known.\n  {did_you_mean(key, [*LEAVES, 'strategy.<name>'])}"
            )
        owner = getattr(options, section)
        read = LEAVES[key].reads(value, FLAGS.get(key, f"--set {key}"))
        if key == DEVICE:
            read = tuple((dict(owner.device) | dict(read)).items())
        options = replace(options, **{section: replace(owner, **{name: read})})
    return options, of_strategy


def keys(settings: Iterable[str]) -> list[str]:
    """The options that texts set, those of the strategy apart."""
    found = [text.partition("=")[0] for text in settings]
    return [key for key in found if not key.startswith(f"{STRATEGY}.")]


def check_takes(taker: str, settings: Sequence[str]) -> None:
    """Refuse options that say nothing there."""
    for key in keys(settings):
        if key in LEAVES and taker not in LEAVES[key].takers:
            others = " and ".join(each for each in LEAVES[key].takers if each.startswith("weft "))
            raise ConfigError(f"--set {key} is for {others}, not for {taker}.\n  Leave it out.")


def with_parameters(strategy: str, parameters: dict[str, str]) -> str:
    """A strategy's text with some of its parameters set."""
    if not parameters:
        return strategy
    parse(strategy)  # says what is wrong with it, if anything is
    tree = ast.parse(strategy.strip(), mode="eval").body
    call = tree if isinstance(tree, ast.Call) else ast.Call(tree, [], [])
    call.keywords = [keyword for keyword in call.keywords if keyword.arg not in parameters]
    call.keywords += [ast.keyword(name, ast.parse(value, mode="eval").body) for name, value in parameters.items()]
    return ast.unparse(call)

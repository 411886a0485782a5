"""Options of a real run that few need to change: `--set worker.threads=2`."""

import ast
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any

from weft.config.grammar import parse
from weft.config.units import num_bytes, seconds
from weft.core.errors import ConfigError, did_you_mean
from weft.cost.staging import AUTO, PLACES
from weft.data.proportional import EVERY

STRATEGY = "strategy"
"""The section that names a parameter of the strategy rather than an option."""


@dataclass(frozen=True)
class WorkerOptions:
    """A worker process: its threads, and whether its allocator keeps memory for the next step."""

    threads: int = 1
    keeps_memory: bool = True


@dataclass(frozen=True)
class BucketOptions:
    """How a model is cut into buckets."""

    bytes_max: int = 4 << 20


@dataclass(frozen=True)
class WaitingOptions:
    """How a worker waits: it spins for so long before it sleeps, while every worker has a core of its own."""

    spin_s: float = 200e-6


@dataclass(frozen=True)
class OutboxOptions:
    """Messages that could not leave at once: a script goes on only while they are less than this."""

    bytes_max: int = 64 << 20


@dataclass(frozen=True)
class ShareOptions:
    """Proportional shares of data: after how many steps they may change."""

    every: int = EVERY


@dataclass(frozen=True)
class ReduceOptions:
    """Where gradients are summed when some workers are on devices: auto, host or device."""

    place: str = AUTO


@dataclass(frozen=True)
class NetworkOptions:
    """The network between hosts: everybody on it is trusted, so torch.distributed may use it as it is."""

    trusted: bool = False


@dataclass(frozen=True)
class RayOptions:
    """Places on a Ray cluster: how long to wait until others have left them."""

    patience_s: float = 10.0


@dataclass(frozen=True)
class Options:
    """The tree of options; every leaf is a field of its owner's record."""

    worker: WorkerOptions = WorkerOptions()
    buckets: BucketOptions = BucketOptions()
    waiting: WaitingOptions = WaitingOptions()
    outbox: OutboxOptions = OutboxOptions()
    shares: ShareOptions = ShareOptions()
    reduce: ReduceOptions = ReduceOptions()
    network: NetworkOptions = NetworkOptions()
    ray: RayOptions = RayOptions()


def set_options(settings: Iterable[str]) -> tuple[Options, dict[str, str]]:
    """Options from texts like 'worker.threads=2'; those of the strategy apart, by parameter."""
    options = Options()
    of_strategy: dict[str, str] = {}
    for text in settings:
        key, equals, value = text.partition("=")
        section, dot, name = key.partition(".")
        if not equals or not dot or not name or not value:
            raise ConfigError(
                f"--set got '{text}', but wants section.name=value.\n  Write e.g. --set worker.threads=2."
            )
        if section == STRATEGY:
            if len(parse(f"set({name}={value})").kwargs) > 1:
                raise ConfigError(f"--set got '{text}', but wants one value.\n  Use --set once for each parameter.")
            of_strategy[name] = value
            continue
        known = {
            f"{owner.name}.{f.name}" for owner in fields(Options) for f in fields(type(getattr(options, owner.name)))
        }
        if key not in known:
            raise ConfigError(
                f"--set: option '{key}' is not known.\n  {did_you_mean(key, [*known, 'strategy.<name>'])}"
            )
        owner = getattr(options, section)
        options = replace(options, **{section: replace(owner, **{name: _converted(key, name, value)})})
    return options, of_strategy


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


def _converted(key: str, name: str, value: str) -> Any:
    """The value in the unit that its name says."""
    where = f"--set {key}"
    if name in ("keeps_memory", "trusted"):
        return _truth(value, where)
    if name == "place":
        return _place(value, where)
    if name.endswith("_s"):
        return seconds(value, where)
    number = num_bytes(int(value) if value.isdecimal() else value, where) if "bytes" in name else _whole(value, where)
    if number < 1:
        raise ConfigError(f"{where} is '{value}', but must be at least 1.\n  Leave it out for the default.")
    return number


def _truth(value: str, where: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise ConfigError(f"{where} is '{value}', but wants true or false.\n  Write one of them.")
    return value.lower() == "true"


def _place(value: str, where: str) -> str:
    if value not in PLACES:
        raise ConfigError(f"{where} is '{value}', but wants a place.\n  {did_you_mean(value, PLACES)}")
    return value


def _whole(value: str, where: str) -> int:
    if not value.isdecimal():
        raise ConfigError(f"{where} is '{value}', but wants a whole number.\n  Write e.g. 2.")
    return int(value)

"""Workers on devices: `--set 'worker.device=1:fake(bandwidth=1GB/s, latency=20us)'`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from weft.config.registry import Objection
from weft.config.units import bytes_per_s, seconds
from weft.core.errors import ConfigError, did_you_mean
from weft.core.strategy import Strategy

OPTION = "--set worker.device"
EXAMPLE = "--set 'worker.device=1:fake(bandwidth=1GB/s, latency=20us)'"
KINDS = ("fake",)
PARAMETERS = ("bandwidth", "latency")


@dataclass(frozen=True)
class FakeKind:
    """A device that stands for a GPU where there is none: what its copies cost."""

    latency_s: float = 20e-6
    bandwidth_bytes_per_s: float = 8e9

    def __str__(self) -> str:
        """As it is typed."""
        return f"fake(bandwidth={self.bandwidth_bytes_per_s / 1e6:g}MB/s, latency={self.latency_s * 1e6:g}us)"


def read_devices(several: str) -> dict[int, FakeKind]:
    """Which workers are on which devices: '1:fake(latency=20us), 2:fake'."""
    found: dict[int, FakeKind] = {}
    for text in re.split(r",(?![^(]*\))", several):  # commas within parentheses are a device's own
        match = re.fullmatch(r"\s*(\d+)\s*:\s*(\w+)\s*(?:\((.*)\))?\s*", text)
        if match is None:
            raise ConfigError(f"{OPTION} got '{text}', but wants WORKER:KIND.\n  Write e.g. {EXAMPLE}.")
        worker, kind = int(match[1]), match[2]
        if kind not in KINDS:
            raise ConfigError(
                f"{OPTION} {worker}: '{kind}' is no kind of device; real ones are not supported yet.\n"
                f"  {did_you_mean(kind, KINDS)}"
            )
        if worker in found:
            raise ConfigError(f"{OPTION} says the device of worker {worker} twice.\n  Say it once.")
        found[worker] = _fake(worker, match[3] or "")
    return found


def objection(devices: Mapping[int, FakeKind]) -> Objection | None:
    """What is to be said against a strategy when some workers are on devices."""
    return (lambda built, name: check_on_devices(built, None, name)) if devices else None


def check_on_devices(built: Strategy | None, compress: str | None, name: str) -> None:
    """Refuse what does not sum plain gradients; None is what is not known yet."""
    if built is not None and not built.reduces:
        raise ConfigError(
            f"{OPTION} is for strategies that sum over all workers, which '{name}' never does.\n"
            "  Use e.g. --strategy allreduce."
        )
    if compress is not None:
        raise ConfigError(f"{OPTION} does not go with a codec, but '{name}' has one.\n  Use --compress none.")


def _fake(worker: int, text: str) -> FakeKind:
    said: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not value:
            raise ConfigError(f"{OPTION} {worker}: got '{part}', but wants name=value.\n  Write e.g. {EXAMPLE}.")
        if name not in PARAMETERS:
            raise ConfigError(f"{OPTION} {worker}: a fake device has no '{name}'.\n  {did_you_mean(name, PARAMETERS)}")
        said[name] = value
    usual = FakeKind()
    latency_s = seconds(said["latency"], f"{OPTION} {worker}: latency") if "latency" in said else usual.latency_s
    where = f"{OPTION} {worker}: bandwidth"
    rate = bytes_per_s(said["bandwidth"], where) if "bandwidth" in said else usual.bandwidth_bytes_per_s
    if rate <= 0:
        raise ConfigError(f"{where} is '{said['bandwidth']}', but must be more than 0.\n  Write e.g. {EXAMPLE}.")
    return FakeKind(latency_s, rate)

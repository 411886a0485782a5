"""What the texts of options mean: `where` names the option in what is said against a text."""

from math import inf
from pathlib import Path

from weft.checkpoints.interval import CheckpointInterval, read_interval
from weft.config.devices import FakeKind, read_devices
from weft.config.registry import AUTO as CHEAPEST
from weft.config.registry import COLLECTIVES
from weft.config.units import num_bytes
from weft.core.errors import ConfigError, did_you_mean
from weft.cost.staging import PLACES


def truth(value: str, where: str) -> bool:
    """'true' or 'false'."""
    if value.lower() not in ("true", "false"):
        raise ConfigError(f"{where} is '{value}', but wants true or false.\n  Write one of them.")
    return value.lower() == "true"


def whole(value: str, where: str) -> int:
    """'2': at least 1."""
    if not value.isdecimal():
        raise ConfigError(f"{where} is '{value}', but wants a whole number.\n  Write e.g. 2.")
    return _positive(int(value), value, where)


def size(value: str, where: str) -> int:
    """'4MiB', or a number of bytes: at least 1."""
    return _positive(num_bytes(int(value) if value.isdecimal() else value, where), value, where)


def words(value: str, where: str) -> str:
    """A text that its user understands."""
    return value


def path(value: str, where: str) -> Path:
    """A file or folder; whether it can be written is seen before anything starts."""
    if not value:
        raise ConfigError(f"{where} is empty, but wants a path.\n  Write e.g. runs/a, or leave it out.")
    return Path(value)


def place(value: str, where: str) -> str:
    """Where sums are made."""
    if value not in PLACES:
        raise ConfigError(f"{where} is '{value}', but wants a place.\n  {did_you_mean(value, PLACES)}")
    return value


def collective(value: str, where: str) -> str:
    """The name of a collective, or 'auto'."""
    if value not in (*COLLECTIVES, CHEAPEST):
        raise ConfigError(f"collective '{value}' is not known.\n  {did_you_mean(value, [*COLLECTIVES, CHEAPEST])}")
    return value


def devices(value: str, where: str) -> tuple[tuple[int, FakeKind], ...]:
    """'1:fake(bandwidth=1GB/s, latency=20us)': who is on which device; several with commas between them."""
    return tuple(read_devices(value).items())


def interval(value: str, where: str) -> CheckpointInterval:
    """'500steps', '1epoch' or '5m'."""
    return read_interval(value, where)


def share_and_factor(value: str, where: str) -> tuple[float, float]:
    """'0.1:8': how many of all iterations take how many times as long."""
    try:
        share, factor = map(float, value.split(":"))
    except ValueError as error:
        raise ConfigError(f"{where} got '{value}', but wants SHARE:FACTOR.\n  Write e.g. {where}=0.1:8.") from error
    check_hiccups(share, factor)
    return share, factor


def check_hiccups(share: float, factor: float) -> None:
    """Refuse what is no share, and iterations that would take less time."""
    if not 0 <= share <= 1 or not 1 <= factor < inf:
        raise ConfigError(
            f"worker.hiccups={share:g}:{factor:g} wants a share from 0 to 1 and a factor of at least 1.\n"
            "  Write e.g. worker.hiccups=0.1:8 to let one iteration in ten take 8 times as long."
        )


def _positive(number: int, value: str, where: str) -> int:
    if number < 1:
        raise ConfigError(f"{where} is '{value}', but must be at least 1.\n  Leave it out for the default.")
    return number

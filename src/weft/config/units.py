"""Friendly units at the edge: '20Mbit/s', '30ms' and '4MiB' become bytes per second, seconds and bytes."""

import re

from weft.core.errors import ConfigError
from weft.core.shortening import WORD_CHARACTERS_MAX, shortened

SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
INTERVALS = {**SECONDS, "m": 60.0, "h": 3600.0}
BYTES_PER_S = {
    "bit/s": 0.125,
    "kbit/s": 125.0,
    "Mbit/s": 125e3,
    "Gbit/s": 125e6,
    "B/s": 1.0,
    "kB/s": 1e3,
    "MB/s": 1e6,
    "GB/s": 1e9,
}
LINK_RATES = {name.removesuffix("/s").lower(): value for name, value in BYTES_PER_S.items() if "bit" in name}
"""As network tools write them: 'mbit'."""

MOST = 1e18
"""Of seconds, bytes or bytes per second: what is computed from them stays finite."""
BYTES = {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30}


def num_bytes(value: object, where: str) -> int:
    """'4MiB' or a number of bytes."""
    return int(_read(value, where, BYTES, "4MiB"))


def seconds(value: object, where: str) -> float:
    """'30ms' or a number of seconds."""
    return _read(value, where, SECONDS, "30ms")


def interval_seconds(value: object, where: str) -> float:
    """'15s', '5m' or '1h': how often something happens."""
    return _read(value, where, INTERVALS, "15s")


def bytes_per_s(value: object, where: str) -> float:
    """'20Mbit/s' or a number of bytes per second."""
    return _read(value, where, BYTES_PER_S, "20Mbit/s")


def link_rate(value: object, where: str) -> float:
    """'100mbit' or '100Mbit/s', in bytes per second."""
    return _read(value, where, {**LINK_RATES, **BYTES_PER_S}, "100mbit")


def _read(value: object, where: str, units: dict[str, float], example: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MOST:
        return float(value)
    match = re.fullmatch(r"\s*((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE]-?[0-9]+)?)\s*([A-Za-z/]+)\s*", str(value))
    if match is None or match[2] not in units or float(match[1]) * units[match[2]] > MOST:
        shown = shortened(str(value), WORD_CHARACTERS_MAX)
        raise ConfigError(
            f"{where} is '{shown}', but wants a number with one of the units {', '.join(units)}.\n"
            f'  Write e.g. "{example}".'
        )
    return float(match[1]) * units[match[2]]

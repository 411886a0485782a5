"""Faults that users let happen to their own runs: the words of --set run.chaos, such as 'kill every 15s seed 7'."""

import re
from typing import NamedTuple

from weft.config.units import seconds
from weft.core.errors import ConfigError

KILL, STOP_PROCESS = "kill", "stop"
KINDS = (KILL, STOP_PROCESS)
"""SIGKILL and SIGSTOP, to a worker's process."""


class ChaosPlan(NamedTuple):
    """What happens, how often, and by which seed victims and moments are drawn."""

    kind: str
    every_s: float
    seed: int = 0


def read_chaos(value: str, where: str) -> ChaosPlan:
    """'kill every 15s', 'stop every 1m seed 7'."""
    match = re.fullmatch(rf"({'|'.join(KINDS)}) every (\S+)(?: seed (\d+))?", " ".join(value.split()))
    every_s = seconds(match[2], where) if match is not None else 0.0
    if match is None or not every_s:
        raise ConfigError(
            f"{where} is '{value}', but wants what happens and how often.\n  Write e.g. 'kill every 15s seed 7'."
        )
    return ChaosPlan(match[1], every_s, int(match[3] or 0))

"""Faults that users let happen to their own runs: the words of --chaos, such as 'kill every 15s seed 7'."""

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from weft.config.units import interval_seconds
from weft.core.errors import ConfigError, did_you_mean
from weft.core.shortening import WORD_CHARACTERS_MAX, shortened

KILL, STOP_PROCESS, NAN = "kill", "stop", "nan"
KINDS = (KILL, STOP_PROCESS, NAN)
"""SIGKILL or SIGSTOP, to a worker's process; or all gradients of a worker are NaN from then on."""
EVERY, SEED = "every", "seed"
EXAMPLE = "Write e.g. 'kill every 15s seed 7'."


JITTER = 0.5
"""Faults come after 1 - JITTER to 1 + JITTER times the interval, so that they meet steps in all moments."""


class ChaosPlan(NamedTuple):
    """What happens, how often, and by which seed victims and moments are drawn."""

    kind: str
    every_s: float
    seed: int = 0

    @property
    def would(self) -> str:
        """Why it does not go with --on-loss stop."""
        if self.kind == NAN:
            return "spoil the gradients of workers, and with --on-loss stop these go on and count for nothing"
        return f"{self.kind} workers, and with --on-loss stop the first loss ends the run"


def read_chaos(value: str, where: str) -> ChaosPlan:
    """'kill every 15s', 'stop every 5m seed 7'."""
    words = value.split()
    refused = f"{where} is '{shortened(value, WORD_CHARACTERS_MAX)}', but"
    if not words or words[0] not in KINDS:
        near = did_you_mean(words[0], KINDS, EXAMPLE) if words else EXAMPLE
        raise ConfigError(f"{refused} wants what happens first: kill, stop or nan.\n  {near}")
    kind, rest = words[0], words[1:]
    if len(rest) < 2 or rest[0] != EVERY:
        raise ConfigError(f"{refused} wants how often after '{kind}': {EVERY} and an interval.\n  {EXAMPLE}")
    every_s = interval_seconds(rest[1], f"the interval of {where}")
    if not every_s:
        raise ConfigError(f"{refused} the interval must be above 0.\n  {EXAMPLE}")
    seed = rest[2:] or [SEED, "0"]
    if len(seed) != 2 or seed[0] != SEED or not (seed[1].isascii() and seed[1].isdecimal()):
        raise ConfigError(f"{refused} wants nothing after the interval but {SEED} and a whole number.\n  {EXAMPLE}")
    return ChaosPlan(kind, every_s, int(seed[1]))


class ChaosDraws:
    """The moments and victims of a plan, drawn by its seed; a simulation with the same seed has the same ones."""

    def __init__(self, plan: ChaosPlan) -> None:
        self._every_s = plan.every_s
        self._rng = Random(f"chaos/{plan.seed}")

    def next_s(self, now_s: float) -> float:
        """When the next fault is due. Drawn before the victim of the one that happens now."""
        return now_s + self._every_s * self._rng.uniform(1 - JITTER, 1 + JITTER)

    def victim(self, healthy: Sequence[int]) -> int:
        """One of these workers, which are in order."""
        return self._rng.choice(healthy)

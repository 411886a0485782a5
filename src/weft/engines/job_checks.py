"""Checks of options that real and simulated runs have in common."""

from collections.abc import Mapping
from math import inf
from pathlib import Path

from weft.config.cluster import WORKERS_MAX
from weft.core.errors import ConfigError
from weft.core.shortening import WORD_CHARACTERS_MAX, shortened

SEED_END = 2**63
STEPS_END = 2**63


def check_job(script: Path, num_workers: int, seed: int, steps_max: int | None) -> None:
    """Raise ConfigError for a script that does not exist, or numbers out of range."""
    if num_workers < 1:
        raise ConfigError(f"-n is {num_workers}, but a run needs at least 1 worker.\n  Use -n 1.")
    if num_workers > WORKERS_MAX:
        shown = shortened(str(num_workers), WORD_CHARACTERS_MAX)
        raise ConfigError(
            f"-n is {shown}, but a run has at most {WORKERS_MAX:,} workers.\n  Use -n {WORKERS_MAX} or fewer."
        )
    if steps_max is not None and steps_max >= STEPS_END:
        raise ConfigError("--steps must be less than 2**63.\n  Leave it out to run the script's own.")
    if steps_max is not None and steps_max < 1:
        raise ConfigError(f"--steps is {steps_max}, but must be at least 1.\n  Leave it out to run the script's own.")
    if not script.is_file():
        raise ConfigError(f"script '{script}' does not exist.\n  Check the path.")
    if not 0 <= seed < SEED_END:
        raise ConfigError(f"--seed is {seed}, but must be from 0 to 2**63 - 1.\n  Use --seed 0.")


def check_slow(slow: Mapping[int, float], num_workers: int) -> None:
    """Raise ConfigError for ranks in --slow that do not exist, and for factors below 1."""
    for worker, factor in slow.items():
        if not 0 <= worker < num_workers or not 1 <= factor < inf:
            raise ConfigError(
                f"--slow {worker}:{factor:g} wants a worker from 0 to {num_workers - 1} "
                "and a factor of at least 1.\n  Write e.g. --slow 0:4."
            )

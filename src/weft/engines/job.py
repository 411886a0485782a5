"""What every run of a script needs to be told, real or simulated."""

from pathlib import Path

from weft.core.errors import ConfigError

SEED_END = 2**63


def check_job(script: Path, num_workers: int, seed: int, steps_max: int | None) -> None:
    """Refuse what cannot run, before anything starts."""
    if num_workers < 1:
        raise ConfigError(f"-n is {num_workers}, but a run needs at least 1 worker.\n  Use -n 1.")
    if steps_max is not None and steps_max < 1:
        raise ConfigError(f"--steps is {steps_max}, but must be at least 1.\n  Leave it out to run the script's own.")
    if not script.is_file():
        raise ConfigError(f"script '{script}' does not exist.\n  Check the path.")
    if not 0 <= seed < SEED_END:
        raise ConfigError(f"--seed is {seed}, but must be from 0 to 2**63 - 1.\n  Use --seed 0.")

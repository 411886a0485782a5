"""Checks that all workers join with models of the same layout: names, shapes and types of parameters."""

from weft.core.errors import ConfigError


def check_layouts(rank: int, first: list[str], mine: list[str]) -> None:
    """Raise ConfigError if the layout of worker `rank` differs from worker 0's; names the first parameter that does."""
    for a, b in zip(first, mine, strict=False):
        if a != b:
            raise ConfigError(
                f"worker {rank} joined with '{b}' where worker 0 has '{a}'.\n  Build the same model on every worker."
            )
    if len(first) != len(mine):
        raise ConfigError(
            f"worker {rank} joined with {len(mine)} tensors, worker 0 with {len(first)}.\n"
            "  Build the same model on every worker."
        )

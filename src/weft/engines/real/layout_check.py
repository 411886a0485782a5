"""Workers join with models that are laid out alike, or are refused."""

from weft.core.errors import ConfigError


def check_layouts(rank: int, first: list[str], mine: list[str]) -> None:
    """Refuse workers whose models differ; names the first parameter that does."""
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

"""What happens when a worker is lost: the words of --on-loss."""

from weft.core.errors import ConfigError, did_you_mean

STOP = "stop"
"""The run ends, and the worker is named."""
SHRINK = "shrink"
"""The others go on without it."""
REPLACE = "replace"
"""The others go on, and a new worker takes its place."""
ON_LOSS = (STOP, SHRINK, REPLACE)


def read_on_loss(value: str, where: str) -> str:
    """One of ON_LOSS."""
    if value not in ON_LOSS:
        raise ConfigError(
            f"{where} is '{value}', but wants {STOP}, {SHRINK} or {REPLACE}.\n"
            f"  {did_you_mean(value, ON_LOSS, f'Write one of them, e.g. {REPLACE}.')}"
        )
    return value

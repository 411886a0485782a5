"""What happens when a gradient is not finite: the words of --on-nan."""

from weft.config.on_loss import STOP
from weft.core.errors import ConfigError, did_you_mean

EXCLUDE = "exclude"
"""It weighs nothing, and its worker is named."""
ON_NAN = (EXCLUDE, STOP)
"""With STOP, the first one ends the run."""


def read_on_nan(value: str, where: str) -> str:
    """One of ON_NAN."""
    if value not in ON_NAN:
        raise ConfigError(
            f"{where} is '{value}', but wants {EXCLUDE} or {STOP}.\n"
            f"  {did_you_mean(value, ON_NAN, 'Write one of them.')}"
        )
    return value

"""How often a run writes checkpoints: after so many steps, so many epochs, or so much time."""

import re
from math import inf

from msgspec import Struct

from weft.core.errors import ConfigError
from weft.core.shortening import WORD_CHARACTERS_MAX, shortened

SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}
EXAMPLE = "500steps"


class CheckpointInterval(Struct, frozen=True):
    """One of the three is set."""

    steps: int | None = None
    epochs: int | None = None
    seconds: float | None = None

    def __str__(self) -> str:
        if self.steps is not None:
            return f"every {self.steps} steps" if self.steps > 1 else "every step"
        if self.epochs is not None:
            return f"every {self.epochs} epochs" if self.epochs > 1 else "every epoch"
        return f"every {self.seconds:g} s"


EVERY = CheckpointInterval(seconds=600.0)


def read_interval(text: str, where: str) -> CheckpointInterval:
    """'500steps', '1epoch', '30s', '5m' or '1h'."""
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(steps?|epochs?|s|m|h)\s*", text)
    number = inf if match is None or len(match[1]) > 12 else float(match[1])
    if match is None or not 0 < number < inf or (match[2] not in SECONDS and not match[1].isdecimal()):
        raise ConfigError(
            f"{where} is '{shortened(text, WORD_CHARACTERS_MAX)}', but wants a number of steps, epochs, s, m or h.\n"
            f"  Write e.g. {EXAMPLE}, 1epoch or 5m."
        )
    if match[2] in SECONDS:
        return CheckpointInterval(seconds=number * SECONDS[match[2]])
    return (
        CheckpointInterval(steps=int(number)) if match[2].startswith("step") else CheckpointInterval(epochs=int(number))
    )

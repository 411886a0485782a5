"""What a script keeps between steps and names by `worker.keep`: objects with a state, and plain dicts."""

from collections.abc import Mapping
from typing import Any

from weft.core.errors import ConfigError


class KeptDict:
    """A dict of the script's own, such as the counters of an early stop: its items are its state."""

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    def state_dict(self) -> dict[str, Any]:
        return dict(self._values)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._values.clear()
        self._values.update(state)


def kept_values(objects: Mapping[str, Any]) -> dict[str, Any]:
    """The objects that a script names, each with state_dict and load_state_dict; raises ConfigError for others."""
    kept = {name: KeptDict(each) if type(each) is dict else each for name, each in objects.items()}
    for name, each in kept.items():
        if not callable(getattr(each, "state_dict", None)) or not callable(getattr(each, "load_state_dict", None)):
            raise ConfigError(
                f"worker.keep({name}=...) was given a {type(each).__name__}, which has no state_dict and "
                "load_state_dict.\n  Give it an object that has both, as schedulers and scalers have, or a dict."
            )
    return kept

"""Settings of a run, from the command line, the environment and weft.toml; the first that says wins."""

from dataclasses import dataclass, fields
from typing import Any

from weft.core.errors import ConfigError, did_you_mean
from weft.core.shortening import WORD_CHARACTERS_MAX, shortened

COLLECTIVE = "collective"
"""WEFT_COLLECTIVE, and its key in weft.toml: a short name of the option reduce.collective."""


@dataclass(frozen=True)
class Settings:
    """What may be said in each of the places; None is not said."""

    strategy: tuple[str, ...] | None = None
    cluster: str | None = None
    compress: str | None = None
    workers: int | None = None
    seed: int | None = None
    steps: int | None = None
    share: str | None = None
    transport: str | None = None
    set: tuple[str, ...] | None = None
    """Options that few need to change: 'worker.threads=2'; of two for the same option the last counts."""
    checkpoint: str | None = None
    """The folder of the run's checkpoints."""

    @property
    def num_workers(self) -> int:
        """How many there are when nobody says it: two."""
        return 2 if self.workers is None else self.workers

    def over(self, other: "Settings") -> "Settings":
        """These settings, and the other's where these say nothing; so it is with each of their options."""
        mine = {f.name: getattr(self, f.name) for f in fields(self)}
        merged = {name: getattr(other, name) if v is None else v for name, v in mine.items()}
        return Settings(**{**merged, "set": (*(other.set or ()), *(self.set or ())) or None})


def read_settings(table: dict[str, Any], where: str) -> Settings:
    """Settings from plain values, checked."""
    known = {COLLECTIVE, *(field.name for field in fields(Settings))}
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in known:
            raise ConfigError(f"{where} has an unknown key '{key}'.\n  {did_you_mean(key, known)}")
        if key == "strategy":
            values[key] = _names(value, f"{where}: {key}")
        elif key == "set":
            values[key] = (*values.get(key, ()), *_options(value, f"{where}: {key}"))
        elif key == COLLECTIVE:
            values["set"] = (f"reduce.collective={value}", *values.get("set", ()))
        elif key in ("workers", "seed", "steps"):
            values[key] = _whole(value, f"{where}: {key}")
        else:
            values[key] = str(value)
    return Settings(**values)


def _names(value: Any, where: str) -> tuple[str, ...]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise ConfigError(f'{where} is {value!r}, but wants a name or a list of names.\n  Write e.g. "gossip".')
    return tuple(names)


def _options(value: Any, where: str) -> tuple[str, ...]:
    texts = value.split() if isinstance(value, str) else value
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        raise ConfigError(f'{where} is {value!r}, but wants options.\n  Write e.g. "worker.threads=2".')
    return tuple(texts)


def _whole(value: Any, where: str) -> int:
    try:
        return int(str(value))
    except ValueError as error:
        shown = shortened(str(value), WORD_CHARACTERS_MAX)
        raise ConfigError(f"{where} is '{shown}', but wants a whole number.\n  Write e.g. 4.") from error

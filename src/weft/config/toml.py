"""Reading and writing TOML, with errors that name the file."""

import sys
from pathlib import Path
from typing import Any

from weft.core.errors import ConfigError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def load_toml(path: Path, what: str) -> dict[str, Any]:
    """The tables of a file."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{what} '{path}' cannot be read: {error.strerror}.\n  Check the path.") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{what} '{path}' is not text in UTF-8.\n  Save it as UTF-8.") from error
    return read_toml(text, f"{what} '{path}'")


def read_toml(text: str, what: str) -> dict[str, Any]:
    """The tables of a text."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{what} is not valid TOML: {error}.\n  Mend that place.") from error

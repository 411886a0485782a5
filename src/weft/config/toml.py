"""Reading TOML, with errors that name the file; what would take for ever, or all memory, is refused."""

import os
import re
import stat
import sys
from pathlib import Path
from typing import Any

from weft.core.errors import ConfigError
from weft.core.shortening import WORD_CHARACTERS_MAX, shortened

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

BYTES_MAX = 1 << 20
"""Of a file: some 50,000 hosts, each described for itself, or 100,000 recorded step times."""
DEPTH_MAX = 50
"""How deeply tables and lists may lie in each other; reading takes the square of a key's depth."""
BRACKETS = re.compile(r"[\[\]{}]")
KEY_ENDS = re.compile(r"[\n,=\[\]{}]")
DOTTED = re.compile(r"\.\s*[\w\"'-]")


def load_toml(path: Path, what: str) -> dict[str, Any]:
    """The tables of a file."""
    try:
        raw = _read(path)
    except OSError as error:
        raise ConfigError(f"{what} '{path}' cannot be read: {error.strerror}.\n  Check the path.") from error
    if raw is None:
        raise ConfigError(f"{what} '{path}' is not a regular file.\n  Check the path.")
    if len(raw) > BYTES_MAX:
        raise ConfigError(
            f"{what} '{path}' is longer than {BYTES_MAX:,} bytes.\n"
            "  Say of hosts that are alike how many there are: count = 100."
        )
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{what} '{path}' is not text in UTF-8.\n  Save it as UTF-8.") from error
    return read_toml(text, f"{what} '{path}'")


def _read(path: Path) -> bytes | None:
    """A little more than a file may have, if it has so much; None for what is no regular file: a pipe, a device."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return None
        return file.read(BYTES_MAX + 1)


def read_toml(text: str, what: str) -> dict[str, Any]:
    """The tables of a text."""
    if _depth(text) > DEPTH_MAX:
        raise ConfigError(
            f"{what} has tables or lists that lie in each other more than {DEPTH_MAX} deep.\n  Make it flatter."
        )
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        why = shortened(str(error), WORD_CHARACTERS_MAX)
        raise ConfigError(f"{what} is not valid TOML: {why}.\n  Mend that place.") from error
    except ValueError as error:  # Python itself refuses to read numbers of thousands of digits
        raise ConfigError(f"{what} has a number that is too long to be read.\n  Shorten it.") from error


def _depth(text: str) -> int:
    """How deeply brackets lie in each other, or how many parts a key has; what stands in strings counts, too."""
    depth = deepest = 0
    for bracket in BRACKETS.findall(text):
        depth = depth + 1 if bracket in "[{" else max(0, depth - 1)
        deepest = max(deepest, depth)
    return max(deepest, *(len(DOTTED.findall(part)) for part in KEY_ENDS.split(text)))

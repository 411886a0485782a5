"""Where settings come from besides the command line: WEFT_* variables, then weft.toml."""

import os
from pathlib import Path

from weft.config.settings import Settings, read_settings
from weft.config.toml import load_toml

PREFIX = "WEFT_"
FILE = "weft.toml"
NO_SETTINGS = {"WEFT_SECRET", "WEFT_SECRET_FILE", "WEFT_INTERFACE"}
"""Variables that are no settings of the run: the secret, and the network interface, which differs between hosts."""


def settings_of(given: Settings, folder: Path | None = None) -> Settings:
    """Settings by precedence: command line, then environment, then weft.toml; what none says is left to the script."""
    said = {
        name.removeprefix(PREFIX).lower(): value
        for name, value in os.environ.items()
        if name.startswith(PREFIX) and name not in NO_SETTINGS and value
    }
    settings = given.over(read_settings(said, f"the environment ({PREFIX}...)"))
    path = (folder or Path.cwd()) / FILE
    if path.exists():
        settings = settings.over(read_settings(load_toml(path, "settings"), f"'{path}'"))
    return settings

"""Where settings come from besides the command line: WEFT_* variables, then weft.toml."""

import os
from dataclasses import fields
from pathlib import Path

from weft.config.settings import Settings, read_settings
from weft.config.toml import load_toml

PREFIX = "WEFT_"
FILE = "weft.toml"


def settings_of(given: Settings, folder: Path | None = None) -> Settings:
    """Command line beats environment beats weft.toml; what none of them says is left to the script."""
    names = {PREFIX + field.name.upper(): field.name for field in fields(Settings)}
    said = {name: os.environ[variable] for variable, name in names.items() if os.environ.get(variable)}
    settings = given.over(read_settings(said, "the environment (WEFT_...)"))
    path = (folder or Path.cwd()) / FILE
    if path.is_file():
        settings = settings.over(read_settings(load_toml(path, "settings"), f"'{path}'"))
    return settings

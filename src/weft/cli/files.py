"""Files that verbs write: what cannot be written is refused before anything runs."""

from pathlib import Path

from weft.core.errors import ConfigError


def check_writable(path: Path | None) -> None:
    """Refuse a path whose folder is missing, or that is a folder itself."""
    if path is None:
        return
    if path.is_dir():
        raise ConfigError(f"'{path}' cannot be written: it is a folder.\n  Add the name of a file.")
    if not path.parent.is_dir():
        raise ConfigError(f"'{path}' cannot be written: there is no folder '{path.parent}'.\n  Make it first.")

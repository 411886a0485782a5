"""Files that verbs write: what cannot be written is refused before anything runs."""

from pathlib import Path

from weft.core.errors import ConfigError


def check_writable(path: Path | None) -> None:
    """Refuse a path whose folder is missing, that is a folder itself, or that the system does not let us write."""
    if path is None:
        return
    if path.is_dir():
        raise ConfigError(f"'{path}' cannot be written: it is a folder.\n  Add the name of a file.")
    if not path.parent.is_dir():
        raise ConfigError(f"'{path}' cannot be written: there is no folder '{path.parent}'.\n  Make it first.")
    is_new = not path.exists()
    try:
        path.open("ab").close()
    except OSError as error:
        raise ConfigError(f"'{path}' cannot be written: {error.strerror}.\n  Choose another place.") from error
    if is_new:
        path.unlink()


def check_folder(path: Path | None) -> None:
    """Refuse a folder that cannot be made, or in which nothing can be."""
    if path is None:
        return
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / ".weft"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise ConfigError(
            f"nothing can be written into the folder '{path}': {error.strerror}.\n  Choose another place."
        ) from error

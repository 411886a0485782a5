"""Files that verbs write: those that cannot be written are refused before anything runs.

What a disk cannot take afterwards is told of, and shown where it would be lost.
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from weft.cli.show.screen import errors, screen
from weft.core.errors import ConfigError


def check_writable(path: Path | None) -> None:
    """Refuse a path whose folder is missing, that is a folder itself, or that the system does not let us write."""
    if path is None:
        return
    if path.is_dir():
        raise ConfigError(f"'{path}' cannot be written: it is a folder.\n  Add the name of a file.")
    if not path.parent.is_dir():
        raise ConfigError(f"'{path}' cannot be written: there is no folder '{path.parent}'.\n  Make it first.")
    try:
        if path.exists():
            path.open("ab").close()
        else:  # under another name: other hosts may share the folder, and must not see a file that is gone at once
            NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.").close()
    except OSError as error:
        raise ConfigError(f"'{path}' cannot be written: {error.strerror}.\n  Choose another place.") from error


def remove_old(path: Path | None) -> None:
    """A run begins that will write this file: what an earlier run left there must not be taken for its own.

    Links, such as /dev/stdout, and what cannot be removed stay.
    """
    if path is not None and path.is_file() and not path.is_symlink():
        with suppress(OSError):
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


def write_or_show(what: str, path: Path, text: str) -> bool:
    """Write a text; if the disk cannot take it, it is shown instead, because the run that it tells of is over."""
    is_written = written(what, path, lambda: path.write_text(text), "what belongs there comes here")
    if not is_written:
        screen.print(text, markup=False, soft_wrap=True)
    return is_written


def written(what: str, path: Path, write: Callable[[], Any], otherwise: str = "all else is as it should be") -> bool:
    """Let `write` write a file; False if the disk cannot take it, which is told."""
    try:
        write()
    except OSError as error:
        why = error.strerror or str(error)
        errors.print(f"{what} {path} cannot be written: {why}; {otherwise}", style="bold red", markup=False)
        return False
    return True

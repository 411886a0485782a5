"""A launcher in a process of its own, forked from the soak's, with what it writes in a file."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

WRITTEN = "written"
"""The file with all that a run writes."""


def start_launcher(folder: Path, launch: Callable[[], int]) -> int:
    """Fork a process that launches a run in `folder` and ends with the code that `launch` returns; its pid."""
    launcher = os.fork()
    if launcher:
        return launcher
    code = 1
    try:
        _become_launcher(folder)
        code = launch()
        sys.stdout.flush()
    finally:
        os._exit(code)


def _become_launcher(folder: Path) -> None:
    os.setsid()
    descriptor = os.open(folder / WRITTEN, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    os.chdir(folder)

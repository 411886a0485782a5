"""Describes this machine, for the JSON of measurements made on it."""

import os
import platform
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from weft.runtime.measure.processor import processor_name


def machine() -> dict[str, Any]:
    """This machine: processor, cores, memory, versions of Python and torch, and the date."""
    return {
        "cpu": processor_name(),
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "python": platform.python_version(),
        "torch": _torch(),
        "date": date.today().isoformat(),
    }


def _torch() -> str | None:
    try:
        return version("torch")
    except PackageNotFoundError:
        return None

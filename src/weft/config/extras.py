"""What Weft's extras install, and how a package that is missing is said."""

import re
from importlib.util import find_spec

from weft.core.errors import ConfigError

EXTRAS = {"torch": "torch", "tls": "OpenSSL", "plot": "matplotlib", "examples": "sklearn", "ray": "ray"}
"""By the name of each extra, the module that comes with it."""
PACKAGES = {"OpenSSL": "pyOpenSSL"}
"""Packages that are not called as their module."""

MISSING = re.compile(r"No module named '(\w+)'")
"""How Python says so."""


def has_extra(extra: str) -> bool:
    """Whether its module is installed; it is not imported."""
    return find_spec(EXTRAS[extra]) is not None


def check_extra(extra: str, wanted_by: str) -> None:
    """Refuse to go on without a package; `wanted_by` is what the user asked for."""
    if not has_extra(extra):
        package = PACKAGES.get(EXTRAS[extra], EXTRAS[extra])
        raise ConfigError(f"{wanted_by} needs {package}, which is not installed.\n  Install it: {install_line(extra)}")


def install_line(extra: str) -> str:
    return f"pip install 'weft[{extra}]'"


def advice_on_import(error: str, text: str) -> str:
    """The line to add to a script's error, of this kind and text, if an extra has what it lacks; else nothing."""
    found = MISSING.fullmatch(text) if error == ModuleNotFoundError.__name__ else None
    extra = next((extra for extra, module in EXTRAS.items() if found and found[1] == module), None)
    return "" if extra is None else f"\n  Install it: {install_line(extra)}"

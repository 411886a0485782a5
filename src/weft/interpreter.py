"""Python processes that Weft starts, and the path of users' scripts: the current folder is on neither.

A file `torch.py` or `weft.py` that happens to lie in the folder in which a command is given would be imported instead
of the library. Python itself puts only the script's own folder on a script's path, and so does Weft.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

HAS_SAFE_PATH = sys.version_info >= (3, 11)
"""Whether Python has the option -P."""
WITHOUT_FOLDER = "import sys; del sys.path[0]; "
"""What -P does, for Python 3.10: `sys` comes with the interpreter, so no file can stand in for it."""
RUN_MODULE = "del sys.argv[0]; import runpy; runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"


def python_module(module: str, arguments: Sequence[str] = (), *, has_safe_path: bool = HAS_SAFE_PATH) -> list[str]:
    """The command that runs an installed module as a process."""
    if has_safe_path:
        return [sys.executable, "-P", "-m", module, *arguments]
    return [sys.executable, "-c", WITHOUT_FOLDER + RUN_MODULE, module, *arguments]


def python_code(code: str, *, has_safe_path: bool = HAS_SAFE_PATH) -> list[str]:
    """The command that runs a program of a few lines, which imports only what is installed."""
    return [sys.executable, "-P", "-c", code] if has_safe_path else [sys.executable, "-c", WITHOUT_FOLDER + code]


def script_path(script: str | Path) -> list[str]:
    """`sys.path` for a script that runs in this process: its own folder first, unless PYTHONSAFEPATH forbids it."""
    folder = [] if os.environ.get("PYTHONSAFEPATH") else [str(Path(script).resolve().parent)]
    return folder + sys.path

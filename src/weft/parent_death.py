"""Processes that end when their parent does, however that ends (PR_SET_PDEATHSIG).

    python -I parent_death.py PARENT_PID COMMAND...

becomes the command, bound to its parent before it loads anything.
"""

import ctypes
import os
import sys
from signal import SIGKILL, SIGTERM, Signals

PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int | None = None) -> None:
    """Ask the kernel for SIGKILL when the parent is gone; ends at once if it is gone already.

    `parent` is the process that started this one, as it said itself; without it, whoever is the parent now.
    """
    if not _bind(os.getppid() if parent is None else parent, SIGKILL):
        os._exit(1)


def bound_to_this_process(command: list[str]) -> list[str]:
    """The command, ending with this process. It is bound before it loads anything: imports may take seconds."""
    return [sys.executable, "-I", __file__, str(os.getpid()), *command]


def main(arguments: list[str]) -> None:
    """Become the command. It is asked, not killed, so that a launcher can end what it launched."""
    parent, *command = arguments
    if not _bind(int(parent), SIGTERM):
        sys.exit("the process that started this one has ended.")
    os.execvp(command[0], command)


def _bind(parent: int, by: Signals) -> bool:
    """Ask the kernel for this signal when the parent ends; False if it had ended before it could be asked."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, int(by)) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    return os.getppid() == parent


if __name__ == "__main__":
    main(sys.argv[1:])

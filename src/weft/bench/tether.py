"""Processes that end with whoever started them, even when that one is killed.

python -I tether.py PARENT_PID COMMAND...
"""

import ctypes
import os
import sys
from signal import SIGKILL, SIGTERM, Signals

PR_SET_PDEATHSIG = 1


def die_with(parent_pid: int, by: Signals = SIGKILL) -> None:
    """Ask the kernel for this signal when the parent ends; leave at once if it already has."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(by))
    if os.getppid() != parent_pid:
        sys.exit("the process that started this one has ended.")


def tethered(command: list[str]) -> list[str]:
    """The command, ending with this process. It is bound before it loads anything: imports may take seconds."""
    return [sys.executable, "-I", __file__, str(os.getpid()), *command]


def main(arguments: list[str]) -> None:
    """Become the command. It is asked, not killed, so that a launcher can end what it launched."""
    parent_pid, *command = arguments
    die_with(int(parent_pid), SIGTERM)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])

"""A process that ends when its parent does, however that ends."""

import ctypes
import os
import signal

PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int | None = None) -> None:
    """Ask the kernel for SIGKILL when the parent is gone; ends at once if it is gone already.

    `parent` is the process that started this one, as it said itself; without it, whoever is the parent now.
    """
    before = os.getppid() if parent is None else parent
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != before:
        os._exit(1)

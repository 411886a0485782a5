"""Lets a process end when its parent ends, even by SIGKILL (prctl PR_SET_PDEATHSIG)."""

import ctypes
import os
import signal

PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int | None = None) -> None:
    """Ask the kernel for SIGKILL when the parent ends; exits at once if it has ended already.

    `parent` is the pid of the process that started this one, as that process told it; None: the current parent. The
    kernel sends the signal when the *thread* that started this process ends.
    """
    before = os.getppid() if parent is None else parent
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != before:
        os._exit(1)

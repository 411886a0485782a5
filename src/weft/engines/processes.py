"""Processes of Weft's own that outlive whoever starts them: they are told what to do on standard input."""

import os
import subprocess
from collections.abc import Sequence

from weft.engines.secret import VARIABLE
from weft.interpreter import python_module

_started: list["subprocess.Popen[bytes]"] = []
"""Kept, so that nobody complains of those that still run."""


def start_apart(module: Sequence[str], orders: bytes, descriptors: Sequence[int] = ()) -> "subprocess.Popen[bytes]":
    """Start a module of Weft's in a session of its own, with orders that nobody else can see.

    What is secret comes with the orders: the environment, which other processes of this user can read, is without it.
    """
    process = subprocess.Popen(
        python_module(module[0], module[1:]),
        stdin=subprocess.PIPE,
        pass_fds=descriptors,
        start_new_session=True,
        env={name: value for name, value in os.environ.items() if name != VARIABLE},
    )
    _started.append(process)
    assert process.stdin is not None
    with process.stdin:
        process.stdin.write(orders)
    return process

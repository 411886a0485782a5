"""Processes that end with whoever started them."""

import os
import select
import subprocess
import sys

from weft.bench import tether

PARENT = """
import subprocess, sys
from weft.bench.tether import tethered
command = [sys.executable, "-c", "print('up', flush=True); import signal; signal.pause()"]
child = subprocess.Popen(tethered(command))
print(child.pid, flush=True)
child.wait()
"""


def test_a_tethered_command_ends_when_its_parent_is_killed() -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    handle = os.pidfd_open(int(parent.stdout.readline()))
    assert parent.stdout.readline() == "up\n"
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert select.select([handle], [], [], 10)[0] == [handle]
    os.close(handle)


def test_a_command_whose_parent_is_already_gone_is_not_started() -> None:
    command = [sys.executable, "-I", tether.__file__, "1", "echo", "started"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == "the process that started this one has ended.\n"

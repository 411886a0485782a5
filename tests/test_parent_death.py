"""Processes that end when their parent does."""

import os
import select
import subprocess
import sys

import pytest

from weft import parent_death
from weft.parent_death import die_with_parent

BOUND = "from weft.parent_death import die_with_parent; die_with_parent({parent}); print('up', flush=True)"
PARENT = f"""
import signal, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {BOUND.format(parent="")!r} + "; import signal; signal.pause()"])
print(child.pid, flush=True)
signal.pause()
"""


def check_ends_with_parent(script: str) -> None:
    """A process runs this script, which starts another one; that one ends when the first is killed."""
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    handle = os.pidfd_open(int(parent.stdout.readline()))
    assert parent.stdout.readline() == "up\n"
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert select.select([handle], [], [], 10)[0] == [handle]
    os.close(handle)


def test_a_bound_process_ends_when_its_parent_is_killed() -> None:
    check_ends_with_parent(PARENT)


@pytest.mark.parametrize(("parent", "code", "out"), [("1", 1, ""), ("__import__('os').getppid()", 0, "up\n")])
def test_a_process_whose_parent_is_already_gone_ends_at_once(parent: str, code: int, out: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", BOUND.format(parent=parent)], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (code, out)


def test_a_kernel_that_refuses_is_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parent_death, "PR_SET_PDEATHSIG", 10**6)
    with pytest.raises(OSError, match=r"prctl\(PR_SET_PDEATHSIG\) failed"):
        die_with_parent()


COMMANDING = """
import subprocess, sys
from weft.parent_death import bound_to_this_process
command = [sys.executable, "-c", "print('up', flush=True); import signal; signal.pause()"]
child = subprocess.Popen(bound_to_this_process(command))
print(child.pid, flush=True)
child.wait()
"""


def test_a_bound_command_ends_when_its_parent_is_killed() -> None:
    check_ends_with_parent(COMMANDING)


def test_a_command_whose_parent_is_already_gone_is_not_started() -> None:
    command = [sys.executable, "-I", parent_death.__file__, "1", "echo", "started"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == "the process that started this one has ended.\n"

"""A process that ends when its parent does."""

import os
import select
import subprocess
import sys

import pytest

from weft import lifeline
from weft.lifeline import die_with_parent

BOUND = "from weft.lifeline import die_with_parent; die_with_parent({parent}); print('up', flush=True)"
PARENT = f"""
import signal, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {BOUND.format(parent="")!r} + "; import signal; signal.pause()"])
print(child.pid, flush=True)
signal.pause()
"""


def test_a_bound_process_ends_when_its_parent_is_killed() -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    handle = os.pidfd_open(int(parent.stdout.readline()))
    assert parent.stdout.readline() == "up\n"
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert select.select([handle], [], [], 10)[0] == [handle]
    os.close(handle)


@pytest.mark.parametrize(("parent", "code", "out"), [("1", 1, ""), ("__import__('os').getppid()", 0, "up\n")])
def test_a_process_whose_parent_is_already_gone_ends_at_once(parent: str, code: int, out: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", BOUND.format(parent=parent)], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (code, out)


def test_a_kernel_that_refuses_is_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifeline, "PR_SET_PDEATHSIG", 10**6)
    with pytest.raises(OSError, match=r"prctl\(PR_SET_PDEATHSIG\) failed"):
        die_with_parent()

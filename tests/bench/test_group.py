"""A contender's processes while they run."""

import os
import select
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from weft.bench import group as groups
from weft.bench.contender import BenchmarkContender, process
from weft.bench.group import Group
from weft.core.errors import NodeLost


def by_a_shell(module: str, num_processes: int, task: str) -> list[str]:
    """A launcher: it starts all processes and waits for them."""
    one = shlex.join(process(module, task))
    return ["sh", "-c", " ".join([f"{one} &"] * num_processes) + " wait"]


FAKE = BenchmarkContender("fake", "fake_contender")
LAUNCHED = BenchmarkContender("launched", "fake_contender", launcher=by_a_shell)

PARENT = """
import sys
from weft.bench.contender import BenchmarkContender
from weft.bench.group import Group
with Group(BenchmarkContender("fake", "fake_contender"), sys.argv[1], 2) as group:
    print(*(one.pid for one in group._started), flush=True)
    group.meet()
    print("ready", flush=True)
    group.block(1)
"""


@pytest.fixture(autouse=True)
def _fakes_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))


def handles(group: Group) -> list[int]:
    """Handles of all processes that are ready; they outlive the group's own."""
    return [os.dup(member.pidfd) for member in group._members]


def run_block(contender: BenchmarkContender, work: str, repeats: int) -> None:
    with Group(contender, work, 1) as group:
        group.meet()
        group.block(repeats)


def assert_gone(pidfds: list[int]) -> None:
    for pidfd in pidfds:
        assert select.select([pidfd], [], [], 10)[0] == [pidfd]
        os.close(pidfd)


@pytest.mark.parametrize("contender", [FAKE, LAUNCHED], ids=["each by itself", "by a launcher"])
def test_a_group_runs_blocks_and_leaves_nothing_behind(contender: BenchmarkContender) -> None:
    with Group(contender, "steady", 2) as group:
        group.meet()
        assert [0 <= group.block(repeats) < 1 for repeats in (1, 1000)] == [True, True]
        ready = handles(group)
    assert len(ready) == 2
    assert_gone(ready)


def test_a_limit_runs_in_one_process_whatever_the_work_is_for() -> None:
    assert Group(BenchmarkContender("memcpy", "m", is_alone=True), "steady", 4).num_processes == 1


@pytest.mark.parametrize("contender", [FAKE, LAUNCHED], ids=["each by itself", "by a launcher"])
def test_an_interruption_ends_processes_in_the_middle_of_their_block(
    contender: BenchmarkContender, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready: list[int] = []

    def interrupted(group: Group, *_: object) -> str:
        ready.extend(handles(group))
        raise KeyboardInterrupt

    monkeypatch.setattr(Group, "_answer", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_block(contender, "stuck", 1)
    assert len(ready) == 1
    assert_gone(ready)


@pytest.mark.parametrize("work", ["mute", "stuck"], ids=["while they start", "in a block"])
def test_processes_end_when_the_benchmark_is_killed(work: str) -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT, work], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    started = [os.pidfd_open(int(pid)) for pid in parent.stdout.readline().split()]
    assert len(started) == 2
    assert work == "mute" or parent.stdout.readline() == "ready\n"
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert_gone(started)


def test_a_process_that_cannot_start_is_reported_with_its_last_words() -> None:
    with pytest.raises(NodeLost) as lost, Group(FAKE, "broken", 1) as group:
        group.meet()
    assert str(lost.value) == ("contender 'fake' ended before it was ready. Its last words:\n  it could not start")


def test_a_process_that_falls_during_a_block_is_reported() -> None:
    with pytest.raises(NodeLost) as lost:
        run_block(FAKE, "fragile", 1)
    assert str(lost.value) == "contender 'fake' ended during a block. Its last words:\n  rank 0 fell"


def test_a_block_has_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "BLOCK_S_MAX", 0.0)
    with pytest.raises(NodeLost) as lost:
        run_block(FAKE, "stuck", 7)
    assert str(lost.value) == (
        "contender 'fake' did not finish a block of 7 in 0 s. Its last words:\n  It said nothing."
    )


def test_a_start_has_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "START_S_MAX", -1.0)
    with pytest.raises(NodeLost, match="contender 'fake' was not ready after -1 s"), Group(FAKE, "stuck", 1) as group:
        group.meet()

"""Workers that keep others waiting: when they are named, and what is said of them."""

from pathlib import Path

import pytest
from support.processes.launches import FOREVER, TRAIN
from support.processes.real import Heard, real
from support.processes.records import status_with
from support.scripts.training_scripts import write

from weft.engines.real import timeouts
from weft.engines.real.stalls import Delays
from weft.engines.real.timeouts import STACK_FRESH_S, STALL_S
from weft.engines.real.worker_record import WorkerRecord
from weft.observe.records.status import StackTold
from weft.runtime.measure import script_watch

STACK = (
    '  File "train.py", line 3, in <module>\n    evaluate()\n  File "train.py", line 9, in evaluate\n    time.sleep(9)'
)


def worker(
    rank: int, step: int = 4, *, waits: bool = False, has_joined: bool = True, has_ended: bool = False
) -> WorkerRecord:
    made = WorkerRecord(rank, "mill", 100 + rank)
    made.has_joined, made.has_ended = has_joined, has_ended
    doing = "waits for worker 1" if waits else "computes"
    status = status_with(rank=rank, step=step, doing=doing, is_waiting=waits)
    made.status = status if has_joined else None
    return made


def said(workers: list[WorkerRecord], *, has_begun: bool = True) -> list[str]:
    """What is said when worker 1 has been in one place for long, and the others have been what they are."""
    found = Delays()
    assert found.check(0.0, workers, has_begun=has_begun) == []
    found.hear(1, StackTold(STALL_S, STACK), STALL_S - 1)
    assert found.check(STALL_S - 0.1, workers, has_begun=has_begun) == []
    return found.check(STALL_S + 0.1, workers, has_begun=has_begun)


def test_a_worker_for_which_another_waits_is_named_with_its_stack_and_what_the_other_waits_for() -> None:
    (text,) = said([worker(0, waits=True), worker(1), worker(2)])
    assert text == (
        "worker 1 (host mill, pid 101) has been in one place of its script for 8 s, at step 4, and others wait:\n"
        "  Worker 0, at step 4, waits for worker 1.\n"
        '    File "train.py", line 3, in <module>\n'
        "      evaluate()\n"
        '    File "train.py", line 9, in evaluate\n'
        "      time.sleep(9)\n"
        "  If it computes or evaluates there, all is well: the run goes on. Else stop it, and look there."
    )


def test_workers_that_have_joined_wait_for_those_that_have_not() -> None:
    (text,) = said([worker(0), worker(1, has_joined=False)], has_begun=False)
    assert "for 8 s, before it had joined, and others wait:\n  Worker 0 waits for the others to join.\n" in text


def test_workers_whose_script_has_ended_wait_for_the_others() -> None:
    (text,) = said([worker(0, has_ended=True), worker(1)])
    assert "\n  Worker 0 has ended and waits for the others to end.\n" in text


def test_nobody_is_named_if_nobody_waits_or_the_waiting_go_on() -> None:
    assert said([worker(0), worker(1)]) == []
    assert said([worker(0, waits=True), worker(1, waits=True)]) == []
    found = Delays()
    for second in range(int(4 * STALL_S)):
        found.hear(1, StackTold(STALL_S, STACK), float(second))
        assert found.check(float(second), [worker(0, step=second, waits=True), worker(1)], has_begun=True) == []


def test_a_worker_is_named_again_only_when_it_stays_twice_as_long_and_not_when_it_has_gone_on() -> None:
    found, workers = Delays(), [worker(0, waits=True), worker(1)]
    assert found.check(0.0, workers, has_begun=True) == []
    named = []
    for second in range(8, 40, 4):
        found.hear(1, StackTold(float(second), STACK), float(second))
        named += [second for _ in found.check(float(second), workers, has_begun=True)]
    assert named == [8, 16, 32]
    place = 'File "train.py", line 9, in evaluate: time.sleep(9)'
    assert found.lines(37.0, workers) == [f"  Worker 1 was in one place of its script for 36 s: {place}."]
    assert found.lines(37.0 + STACK_FRESH_S, workers) == []
    assert found.check(37.0 + STACK_FRESH_S, workers, has_begun=True) == []


@pytest.mark.parametrize("where", ["before it joins", "in its loop"])
def test_a_script_that_sleeps_while_others_wait_is_named_while_the_run_goes_on(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name in ((script_watch, "STAYS_S"), (script_watch, "LOOK_S"), (timeouts, "STALL_S")):
        monkeypatch.setattr(module, name, 0.2)
    sleep = "from weft.core.seat import current\nif current().rank == 1: time.sleep(1.0)\n"
    controller, join = TRAIN.split("w = np", 1)
    loop = FOREVER.replace("10_000", "1")
    script = controller + sleep + "w = np" + join + loop if where == "before it joins" else TRAIN + sleep + loop
    heard = Heard()
    assert real(write(tmp_path, script), 2, heard=heard).to_json()["steps"] == 8
    told = next(text for text in heard.told if "in one place of its script" in text)
    assert told.startswith("worker 1 (host ")
    assert "\n  Worker 0" in told
    assert "if current().rank == 1: time.sleep(1.0)" in told

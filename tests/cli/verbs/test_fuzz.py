"""weft fuzz."""

import os
import re
import signal
import subprocess
import sys

import pytest
from support.processes.commands import assert_refused, weft_command

from weft.cli.verbs import fuzz
from weft.fuzz import campaign
from weft.fuzz import shrinking as shrinks
from weft.fuzz.evidence import Evidence, Violation
from weft.sim.faults.plan import Crash

INTERRUPTED = """
import sys
from weft.cli.app import main
from weft.fuzz import campaign
from weft.fuzz.evidence import Violation

campaign.audit = lambda evidence: [Violation(2, "twice")] * (evidence.scenario.seed == 0)
sys.argv = "weft fuzz --seeds 100000 --strategy async_gossip".split()
main()
"""


def test_a_clean_campaign_shows_what_it_covered() -> None:
    ended = weft_command("fuzz", "--seeds", 6, "--strategy", "async_gossip", "--jobs", 1)
    assert (ended.code, ended.err) == (0, "")
    assert "6 seeds in " in ended.out
    assert "async_gossip │ 6 " in ended.out
    assert "no invariant was broken" in ended.out


def test_seeds_with_codecs_are_counted() -> None:
    ended = weft_command("fuzz", "--first", 3, "--seeds", 1, "--strategy", "asgd", "--jobs", 1)
    assert (ended.code, ended.err) == (0, "")
    assert "│ asgd     │ 1     │ topk  │ 1 " in ended.out


@pytest.mark.slow
def test_a_failure_is_named_made_small_and_can_be_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    def dislikes_crashes(evidence: Evidence) -> list[Violation]:
        bad = any(isinstance(fault, Crash) for fault in evidence.scenario.faults.schedule)
        return [Violation(3, "somebody crashed")] if bad else []

    monkeypatch.setattr(campaign, "audit", dislikes_crashes)
    monkeypatch.setattr(shrinks, "audit", dislikes_crashes)
    ended = weft_command("fuzz", "--seeds", 12, "--strategy", "async_gossip", "--jobs", 1)
    assert ended.code == 1
    failed = [line for line in ended.out.splitlines() if "invariant 3: somebody crashed" in line]
    assert failed
    small = [line for line in ended.out.splitlines() if "made small: weft replay " in line]
    assert small
    assert all("--strategy 'async_gossip'" in line and line.endswith("--steps 2") for line in small)


def test_the_auditors_own_exceptions_name_their_seed_and_how_to_replay_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(evidence: Evidence) -> list[Violation]:
        raise IndexError("index 31 is out of bounds")

    monkeypatch.setattr(campaign, "audit", fails)
    monkeypatch.setattr(shrinks, "audit", fails)
    ended = weft_command("fuzz", "--first", 7, "--seeds", 1, "--strategy", "ssp", "--jobs", 1)
    assert ended.code == 1
    lines = ended.out.splitlines()
    assert lines[0] == "seed 7 ssp: the auditor itself failed: IndexError: index 31 is out of bounds"
    assert lines[1] == "  weft replay 7 --strategy 'ssp'"
    assert lines[-1] == (
        "seed 7 cannot be made small (IndexError: index 31 is out of bounds): weft replay 7 --strategy 'ssp'"
    )


@pytest.mark.processes
def test_progress_is_told_every_few_seconds_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "PROGRESS_S", 0.0)
    ended = weft_command("fuzz", "--seeds", 3, "--strategy", "async_gossip", "--jobs", 1)
    told = re.sub(r"in \d+ s", "in 1 s", ended.err)
    assert told == "1 of 3 seeds in 1 s, 0 found\n2 of 3 seeds in 1 s, 0 found\n3 of 3 seeds in 1 s, 0 found\n"


def test_ctrl_c_shows_what_was_found_until_then() -> None:
    command = [sys.executable, "-c", INTERRUPTED]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        first = [process.stdout.readline() for _ in range(2)]
        os.killpg(process.pid, signal.SIGINT)
        rest, err = process.communicate(timeout=30)
    out = b"".join((*first, rest)).decode()
    assert process.returncode == 130
    assert b"Traceback" not in err
    assert "seed 0 async_gossip: invariant 2: twice\n  weft replay 0 --strategy 'async_gossip'\n" in out
    assert re.search(r"interrupted after [1-9]\d* of 100000 seeds; this is what they showed:\n", out)
    assert re.search(r"async_gossip │ [1-9]", out)
    assert re.search(r"; [1-9]\d* seeds broke an invariant\n", out)


@pytest.mark.parametrize(
    ("arguments", "because"),
    [
        (("--seeds", 0), "--seeds is 0, but it is at least 1.\n  Use --seeds 1."),
        (("--jobs", 0), "--jobs is 0, but it is at least 1.\n  Use --jobs 1."),
        (("--strategy", "gosip"), "strategy 'gosip' is not known.\n  Did you mean 'gossip'?"),
    ],
)
def test_bad_input_is_refused(arguments: tuple[object, ...], because: str) -> None:
    assert_refused("fuzz", *arguments, because=because)

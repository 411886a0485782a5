"""weft replay."""

import pytest
from support.processes.commands import assert_refused, weft_command

from weft.cli.verbs import replay as replays
from weft.fuzz.evidence import Violation
from weft.fuzz.scenario import draw


def test_the_story_of_a_seed_ends_with_its_trace_and_the_verdict() -> None:
    ended = weft_command("replay", 3, "--strategy", "async_gossip", "--until", 0.02, "--node", 1)
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert lines[0].startswith("seed 3: async_gossip(topology=")
    assert any("worker 1   started in view 0" in line for line in lines)
    assert not any("worker 0   started" in line for line in lines)
    assert " events, trace " in lines[-2]
    assert lines[-1] == "no invariant was broken"


def test_fewer_faults_and_steps_can_be_asked_for() -> None:
    ended = weft_command("replay", 3, "--strategy", "async_gossip", "--faults", "none", "--steps", 4, "--until", 0)
    assert ended.code == 0
    assert ended.out.splitlines()[0].endswith("workers, 4 steps")
    assert "fault 0" not in ended.out


def test_a_broken_invariant_is_the_last_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replays, "audit", lambda evidence: [Violation(2, "twice")])
    ended = weft_command("replay", 0, "--strategy", "async_gossip", "--until", 0)
    assert ended.code == 1
    assert "invariant 2 is broken: twice" in ended.out


def test_the_auditors_own_failure_is_told_with_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replays, "audit", lambda evidence: [Violation.of_auditor(IndexError("31"))])
    ended = weft_command("replay", 0, "--strategy", "async_gossip", "--until", 0)
    assert ended.code == 1
    assert "\nthe auditor itself failed: IndexError: 31\nIndexError: 31\n" in ended.out


SCENARIO = draw(1, ("async_gossip",))
NUM_FAULTS, NUM_STEPS, LAST = len(SCENARIO.faults.schedule), SCENARIO.num_steps, SCENARIO.num_workers - 1


@pytest.mark.parametrize(
    ("arguments", "because"),
    [
        (
            ("--node", 99),
            f"--node is 99, but the nodes of this world are 0 to {LAST}.\n  Workers are 0 to {LAST}, servers follow.",
        ),
        (
            ("--faults", "7"),
            f"--faults is '7', but seed 1 has {NUM_FAULTS} faults.\n"
            "  Name some of them by their numbers, from 0 on, such as '0,2', or write 'none'.",
        ),
        (
            ("--steps", 9999),
            f"--steps is 9999, but seed 1 makes {NUM_STEPS}.\n  Use a number from 1 to {NUM_STEPS}.",
        ),
        (("--strategy", "gosip"), "strategy 'gosip' is not known.\n  Did you mean 'gossip'?"),
    ],
)
def test_bad_input_is_refused(arguments: tuple[object, ...], because: str) -> None:
    assert_refused("replay", 1, "--strategy", "async_gossip", *arguments, because=because)

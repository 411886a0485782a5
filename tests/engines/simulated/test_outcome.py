"""The outcome of one run."""

import json

from weft.engines.simulated.outcome import Outcome
from weft.sim.facts import Facts
from weft.sim.faults.kills import SimulatedLoss

DOCUMENTED = [
    "strategy",
    "workers",
    "seed",
    "trace",
    "virtual_s",
    "steps",
    "samples",
    "samples_per_s",
    "bytes_sent",
    "staleness_mean",
    "staleness_max",
    "staleness_histogram",
    "coding",
    "not_finite",
    "consensus",
    "waiting_fraction",
    "final",
    "curve",
    "reports",
    "not_saved",
    "per_worker",
    "timeline",
    "events",
    "losses",
    "goodput",
]


def outcome() -> Outcome:
    facts = Facts(2, num_events=9)
    facts.sent(1, 80)
    facts.step(0, 0.5, 3.0, 2.0)
    facts.step(1, 1.0, 5.0, 1.0)
    facts.compute_s, facts.finished_s = [1.0, 1.5], [2.0, 3.0]
    facts.report(0, 1.0, {"accuracy": 0.5})
    facts.note("staleness", 3)
    return Outcome("gossip", 2, 7, "abc", facts, 0.25)


def test_it_is_plain_data_with_the_names_of_the_documentation() -> None:
    told = outcome().to_json()
    assert list(told) == DOCUMENTED
    assert json.loads(json.dumps(told)) == told


def test_its_figures_are_those_of_the_run() -> None:
    told = outcome().to_json()
    assert (told["virtual_s"], told["steps"], told["samples"], told["samples_per_s"]) == (3.0, 1, 8.0, 8 / 3)
    assert (told["staleness_mean"], told["staleness_max"], told["consensus"]) == (3.0, 3, 0.25)
    assert told["waiting_fraction"] == 0.5
    assert told["final"] == {"loss": 1.5, "accuracy": 0.5}
    assert told["curve"] == [{"virtual_s": 1.0, "samples": 8.0, "loss": 1.5}]
    assert told["reports"] == [{"epoch": 0, "virtual_s": 1.0, "accuracy": 0.5, "consensus": None}]
    assert told["staleness_histogram"] == {"3": 1}


def test_a_worker_computes_and_waits_for_parts_of_the_runs_time_and_does_nothing_when_it_has_ended() -> None:
    first, second = outcome().to_json()["per_worker"]
    assert first == {
        "rank": 0,
        "seconds": 2.0,
        "steps": 1,
        "samples": 3.0,
        "samples_per_s": 1.5,
        "computing_fraction": 1 / 3,
        "reading_fraction": 0.0,
        "waiting_fraction": 1 / 3,
        "paused_fraction": 0.0,
        "bytes_sent": 0,
    }
    assert (second["computing_fraction"], second["waiting_fraction"], second["bytes_sent"]) == (0.5, 0.5, 80)


def test_ages_are_told_from_the_newest_to_the_oldest() -> None:
    ran = outcome()
    for age in (10, 2, 2):
        ran.facts.note("staleness", age)
    assert list(ran.to_json()["staleness_histogram"].items()) == [("2", 2), ("3", 1), ("10", 1)]


def test_a_run_without_losses_and_time_is_told_without_them() -> None:
    told = Outcome("gossip", 1, 0, "abc", Facts(1)).to_json()
    assert (told["final"], told["curve"], told["samples_per_s"], told["consensus"]) == ({}, [], 0.0, None)


def test_what_is_not_finite_is_none_because_json_cannot_say_it() -> None:
    ran = outcome()
    ran.facts.step(0, 1.0, 1.0, float("nan"))
    ran.facts.report(1, 2.0, {"accuracy": float("inf")})
    told = ran.to_json()
    assert told["final"] == {"loss": None, "accuracy": None}
    assert told["curve"][-1]["loss"] is None
    assert json.loads(json.dumps(told, allow_nan=False)) == told


def test_losses_and_goodput_are_those_of_a_run_with_kills() -> None:
    disturbed = outcome()
    assert (disturbed.to_json()["losses"], disturbed.to_json()["goodput"]) == ([], None)
    disturbed.losses = [SimulatedLoss(1, 4, 0.5, 0.9)]
    disturbed.samples_per_s_undisturbed = 4.0
    told = disturbed.to_json()
    assert told["losses"] == [{"worker": 1, "step": 4, "lost_s": 0.5, "replaced_s": 0.9}]
    assert told["goodput"] == (8 / 3) / 4.0

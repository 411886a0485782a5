"""The outcome of a real run."""

import json
from dataclasses import replace
from math import inf, nan
from typing import Any

import msgspec

from weft.engines.real.losses import WorkerLoss
from weft.engines.real.outcome import POINTS_MAX, RealOutcome
from weft.engines.simulated.outcome import Outcome
from weft.observe.records.left_out import LeftOut
from weft.observe.records.status import DeviceStatus, LinkStatus, Status
from weft.observe.records.stragglers import Blame
from weft.sim.facts import Facts

FIRST = Status(
    rank=0,
    time_s=10.0,
    step=20,
    samples=100.0,
    loss=0.5,
    waiting_s=2.0,
    staleness_mean=1.0,
    staleness_max=3.0,
    bytes_sent=1000,
    num_copies=5,
    refused=1,
    steps_total=20,
    doing="ended",
)
SECOND = msgspec.structs.replace(
    FIRST,
    rank=1,
    step=18,
    samples=60.0,
    loss=0.25,
    waiting_s=4.0,
    staleness_mean=2.0,
    staleness_max=4.0,
    refused=0,
    compute_s=2.0,
    input_s=1.0,
    paused_s=0.5,
)
OUTCOME = RealOutcome(
    strategy="gossip",
    transport="rings",
    seed=3,
    wall_s=8.0,
    workers=[FIRST, SECOND],
    pids=[11, 12],
    reports=[{"epoch": 0, "wall_s": 4.0, "consensus": 0.5, "accuracy": 0.5}, {"epoch": 1, "wall_s": 8.0, "error": 0.1}],
    curve=[{"wall_s": 1.0, "loss": 2.0}],
    consensus=0.125,
    replay=[],
    ages={4: 1, 0: 3},
    not_saved=["'model' is NOT saved."],
    blamed=[Blame(1, "compute", 12, 0.04, 0.01, 0.05, "Try it.")],
)


def test_figures_are_those_of_all_workers_together() -> None:
    told = OUTCOME.to_json()
    del told["per_worker"]
    assert told == {
        "strategy": "gossip",
        "workers": 2,
        "seed": 3,
        "trace": None,
        "transport": "rings",
        "hosts": 1,
        "network": None,
        "virtual_s": None,
        "wall_s": 8.0,
        "steps": 20,
        "samples": 160.0,
        "samples_per_s": 20.0,
        "bytes_sent": 2000,
        "bytes_between_hosts": None,
        "copies": 10,
        "refused": 1,
        "staleness_mean": 1.5,
        "staleness_max": 4.0,
        "staleness_histogram": {"0": 3, "4": 1},
        "coding": None,
        "not_finite": [0, 0],
        "consensus": 0.125,
        "waiting_fraction": 0.375,
        "final": {"loss": 0.375, "accuracy": 0.5, "error": 0.1},
        "curve": OUTCOME.curve,
        "not_saved": ["'model' is NOT saved."],
        "losses": [],
        "samples_unused": 0,
        "reports": OUTCOME.reports,
        "timeline": None,
        "blame": ["worker 1 is slow: it computes 40.0 ms a step, the others 10.0 ms (4.0 times as long). Try it."],
        "blamed": [
            {
                "worker": 1,
                "cause": "compute",
                "step": 12,
                "own_s": 0.04,
                "others_s": 0.01,
                "step_s": 0.05,
                "advice": "Try it.",
                "num_pauses": 0,
            }
        ],
    }


def test_every_worker_has_figures_of_its_own() -> None:
    assert OUTCOME.to_json()["per_worker"][1] == {
        "rank": 1,
        "pid": 12,
        "seconds": 10.0,
        "steps": 18,
        "samples": 60.0,
        "samples_per_s": 6.0,
        "computing_fraction": 0.25,
        "reading_fraction": 0.125,
        "waiting_fraction": 0.5,
        "paused_fraction": 0.0625,
        "staleness_mean": 2.0,
        "staleness_max": 4.0,
        "bytes_sent": 1000,
        "copies": 5,
        "coding": None,
        "device": None,
    }


def test_a_worker_on_a_device_tells_what_was_copied() -> None:
    device = DeviceStatus(10, 20, "host", {"host": 0.1, "device": 0.2})
    on_one = msgspec.structs.replace(FIRST, device=device)
    first, second = replace(OUTCOME, workers=[on_one, SECOND]).to_json()["per_worker"]
    assert first["device"] == {
        "bytes_in": 10,
        "bytes_out": 20,
        "place": "host",
        "prices_s": {"host": 0.1, "device": 0.2},
    }
    assert second["device"] is None


def test_a_real_run_tells_all_that_a_simulated_one_does_except_its_events_and_what_needs_a_second_run() -> None:
    simulated = Outcome("gossip", 2, 3, "0", Facts(2)).to_json()
    assert simulated.keys() - OUTCOME.to_json().keys() == {"events", "goodput"}


def test_what_is_not_finite_is_none_so_that_json_can_say_it() -> None:
    broken: Any = msgspec.structs.replace(FIRST, loss=nan, staleness_mean=inf)
    told = replace(OUTCOME, workers=[broken, broken], consensus=nan).to_json()
    assert (told["final"]["loss"], told["consensus"], told["staleness_mean"]) == (None, None, None)
    assert json.loads(json.dumps(told, allow_nan=False)) == told


def test_a_run_that_took_no_time_has_no_speed() -> None:
    told = replace(OUTCOME, wall_s=0.0).to_json()
    assert (told["samples_per_s"], told["waiting_fraction"]) == (0.0, 0.0)
    assert {row["waiting_fraction"] for row in told["per_worker"]} == {0.0}


def test_without_a_loss_there_is_none_at_the_end() -> None:
    quiet = [msgspec.structs.replace(each, loss=None) for each in OUTCOME.workers]
    assert replace(OUTCOME, workers=quiet, reports=[]).to_json()["final"] == {}


def test_a_long_curve_is_thinned_and_keeps_its_beginning() -> None:
    curve: list[dict[str, float | None]] = [{"loss": float(i)} for i in range(3 * POINTS_MAX + 1)]
    told = replace(OUTCOME, curve=curve).to_json()["curve"]
    assert len(told) <= POINTS_MAX
    assert told == curve[::4]


def test_between_hosts_counts_what_went_from_one_to_another() -> None:
    links = [[LinkStatus(1, 0.1, 10, 0.0), LinkStatus(2, 0.1, 500, 0.0)], [], [LinkStatus(0, 0.1, 700, 0.0)]]
    workers = [msgspec.structs.replace(FIRST, rank=rank, links=each) for rank, each in enumerate(links)]
    told = replace(OUTCOME, workers=workers, pids=[1, 2, 3], hosts=(0, 0, 1)).to_json()
    assert (told["hosts"], told["bytes_between_hosts"]) == (2, 1200)
    by_torch = replace(OUTCOME, workers=workers, pids=[1, 2, 3], hosts=(0, 0, 1), transport="torch").to_json()
    assert by_torch["bytes_between_hosts"] is None, "torch keeps no account of its sockets"


def test_lost_workers_are_told_and_the_figures_are_those_of_the_others() -> None:
    loss = WorkerLoss(worker=0, cause="killed by signal 9", step=3, detected_s=1.5, told_s=1.75)
    told = replace(OUTCOME, workers=[SECOND], pids=[12], losses=[loss], num_unused=5).to_json()
    assert told["losses"] == [
        {
            "worker": 0,
            "how": "lost",
            "cause": "killed by signal 9",
            "step": 3,
            "detected_s": 1.5,
            "told_s": 1.75,
            "committed_s": None,
            "replaced_s": None,
        }
    ]
    assert told["samples_unused"] == 5
    assert [row["rank"] for row in told["per_worker"]] == [1]
    assert told["not_finite"] == [0, 0], "by rank, so that a lost worker has a place"


def test_what_lost_workers_have_done_counts_in_all() -> None:
    lost = [msgspec.structs.replace(FIRST, samples=7.0, left_out=LeftOut(4, "it", 5, 0)) for _ in range(2)]
    lost.append(msgspec.structs.replace(SECOND, rank=2, samples=1.0))
    before, told = OUTCOME.to_json(), replace(OUTCOME, lost=lost).to_json()
    assert told["samples"] == before["samples"] + 15.0
    assert told["bytes_sent"] == before["bytes_sent"] + 3000
    assert told["not_finite"] == [10, 0, 0]
    assert told["per_worker"] == before["per_worker"]

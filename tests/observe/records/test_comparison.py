"""The records of a comparison: a file keeps them unchanged, and medians are of runs that reached the target."""

import msgspec
import pytest

from weft.observe.records.comparison import ComparedRun, Comparison, Contender, Setup, Target, WorkerFigures, spread


def run(to_target_s: float | None, seed: int = 0, sent: int | None = 10, waiting: float | None = 0.5) -> ComparedRun:
    worker = WorkerFigures(0, 4, 40.0, 0.5, 0.0, waiting, 0.0, sent, [("compute", 0.0, 1.0)])
    reports: list[dict[str, float | None]] = [{"at_s": 1.0, "epoch": 0.0, "accuracy": 0.9}]
    return ComparedRun(seed, 2.0, 4, 40.0, to_target_s, None, {"accuracy": 0.9}, reports, [], {"0": 3}, [worker], [])


def setup(seeds: list[int]) -> Setup:
    return Setup("train.py", [], 1, seeds, Target("accuracy", 0.9), {"0": 4.0}, None, None, {}, "weft compare", {})


def test_a_comparison_is_the_same_after_its_stay_in_a_file() -> None:
    comparison = Comparison(setup([0]), [Contender("allreduce", False, [run(1.5)])], "abc")
    assert msgspec.json.decode(msgspec.json.encode(comparison), type=Comparison) == comparison


@pytest.mark.parametrize(
    ("name", "number", "reached"),
    [
        ("accuracy", 0.97, True),
        ("accuracy", 0.9699999988079071, True),
        ("accuracy", 0.96, False),
        ("loss", 0.96, True),
        ("loss", 0.98, False),
    ],
)
def test_a_target_is_reached_from_the_side_that_is_worse(name: str, number: float, reached: bool) -> None:
    assert Target(name, 0.97).is_reached_by(number) is reached


def test_a_contender_has_a_time_to_the_target_only_if_every_run_reached_it() -> None:
    assert Contender("ssp", runs=[run(1.0), run(3.0), run(2.0)]).to_target_s() == 2.0
    assert Contender("ssp", runs=[run(1.0), run(None)]).to_target_s() is None
    assert Contender("ssp", runs=[run(1.0)], error="it failed").to_target_s() is None


def test_what_one_worker_could_not_measure_is_not_known_of_the_run() -> None:
    assert run(1.0).bytes_per_worker == 10
    assert run(1.0).waiting == 0.5
    assert run(1.0).samples_per_s == 20.0
    assert run(1.0, sent=None).bytes_per_worker is None
    assert run(1.0, waiting=None).waiting is None


def test_a_comparison_is_complete_when_every_seed_has_run_or_failed() -> None:
    done, failed, half = Contender("a", runs=[run(1.0), run(2.0, 1)]), Contender("b", error="no"), Contender("c")
    assert Comparison(setup([0, 1]), [done, failed]).is_complete
    assert not Comparison(setup([0, 1]), [done, half]).is_complete
    assert [each.label for each in Comparison(setup([0, 1]), [done, failed, half]).standing()] == ["a"]


def test_the_spread_is_from_the_least_to_the_greatest() -> None:
    assert spread([2.0, 1.0, 3.0]) == (1.0, 3.0)
    assert Contender("a", runs=[run(1.0)]).finals("accuracy") == [0.9]


def test_a_run_has_diverged_when_it_reported_last_what_is_not_finite() -> None:
    steady, lost, blown = run(1.0), run(1.0), run(1.0)
    lost.final["accuracy"], blown.final["accuracy"] = None, float("inf")
    assert [each.has_diverged("loss", "accuracy") for each in (steady, lost, blown)] == [False, True, True]
    assert not steady.has_diverged("never reported")
    assert Contender("a", runs=[steady, lost, blown]).finals("accuracy") == [0.9]

"""A benchmark and its report."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from weft.bench.benchmark import Benchmark, Work, measure, work_rows
from weft.bench.contender import BenchmarkContender
from weft.core.errors import ConfigError

WORK = Work("2xsteady", "steady", 2)
CONTEST = Benchmark(
    name="contest",
    unit="seconds",
    works=(WORK, replace(WORK, name="2xother")),
    contenders=(
        BenchmarkContender("weft", "fake_contender"),
        BenchmarkContender("slow", "fake_contender"),
        BenchmarkContender("slow-too", "fake_contender", rival="slow"),
        BenchmarkContender("absent", "none", missing=lambda: "not here"),
    ),
    bars={"slow/2xsteady": 2.0},
    block_s=1e-3,
)


def test_the_faster_of_two_that_are_one_rival_has_the_ratio_that_counts() -> None:
    seconds = {"weft": [1.0, 2.0], "slow": [5.0, 10.0], "slow-too": [3.0, 6.0]}
    weft, slow, faster, absent = work_rows(CONTEST, WORK, seconds)
    assert (weft["seconds"], "ratio" in weft) == (1.5, False)
    assert (slow["ratio"], slow["counts"], "bar" in slow) == (5, False, False)
    assert (faster["ratio"], faster["ratio_low"], faster["counts"], faster["bar"]) == (3, 3, True, 2.0)
    assert absent == {"work": "2xsteady", "contender": "absent", "rival": "absent", "missing": "not here"}


def test_without_weft_there_are_times_but_no_ratios() -> None:
    rows = work_rows(CONTEST, WORK, {"slow": [5.0], "slow-too": [3.0]})
    assert [row.get("seconds") for row in rows] == [None, 5, 3, None]
    assert not any("ratio" in row or "bar" in row for row in rows)


def test_a_contender_may_compete_in_some_works_only() -> None:
    some = replace(CONTEST, contenders=(*CONTEST.contenders[:2], BenchmarkContender("some", "none", only=("2xother",))))
    assert [one.name for one in some.competing(WORK)] == ["weft", "slow"]
    assert [row["contender"] for row in work_rows(some, some.works[1], {})] == ["weft", "slow", "some"]


@pytest.mark.processes
def test_a_measured_report_has_all_rows_and_the_lower_bounds_of_the_ratios(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    told: list[str] = []
    report = measure(CONTEST, [WORK], 2, tell=told.append)
    assert told == ["contest: 2xsteady"]
    assert (report["benchmark"], report["blocks"], report["unit"]) == ("contest", 2, "seconds")
    assert [row["contender"] for row in report["rows"]] == ["weft", "slow", "slow-too", "absent"]
    counting = [row for row in report["rows"] if row.get("counts")]
    assert report["ratios"] == {"slow/2xsteady": counting[0]["ratio_low"]}
    assert json.loads(json.dumps(report)) == report


def test_works_are_chosen_by_name() -> None:
    assert CONTEST.only([]) == CONTEST.works
    assert CONTEST.only(["2xother"]) == CONTEST.works[1:]
    with pytest.raises(ConfigError) as refused:
        CONTEST.only(["2xsteddy"])
    assert str(refused.value) == "work '2xsteddy' is not one of 'contest'.\n  Did you mean '2xsteady'?"


def test_weft_competes_with_the_contenders_that_are_named() -> None:
    assert CONTEST.against([]) == CONTEST
    assert [one.name for one in CONTEST.against(["slow-too"]).contenders] == ["weft", "slow-too"]
    assert [one.name for one in CONTEST.against(["slow"]).contenders] == ["weft", "slow", "slow-too"], "one rival"
    with pytest.raises(ConfigError) as refused:
        CONTEST.against(["slaw"])
    assert str(refused.value) == "contender 'slaw' is not one of 'contest'.\n  Did you mean 'slow'?"

"""What a comparison was asked for becomes jobs and the head of its report."""

from pathlib import Path
from typing import Any

import pytest

from weft.cli.options.compare_request import CompareOptions
from weft.core.errors import ConfigError
from weft.core.pace import LearningRatePace
from weft.engines.compare.trials import RealTrials, SimulatedTrials
from weft.observe.records.comparison import Target


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text("import weft")
    return path


def asked(script: Path, **other: Any) -> CompareOptions:
    said: dict[str, Any] = {
        "arguments": ("--lr", "1"),
        "num_workers": 4,
        "slow": {0: 4.0},
        **dict.fromkeys(("transport", "steps", "cluster")),
        **dict.fromkeys(("net", "set"), ()),
        "scale_lr": False,
        "warmup": 0,
    }
    return CompareOptions(script, **{**said, **other})


def test_real_runs_have_one_job_in_common(script: Path) -> None:
    trials = asked(script, set=("worker.hiccups=0.1:8", "worker.threads=2"), scale_lr=True, warmup=5).trials()
    assert isinstance(trials, RealTrials)
    job = trials.common
    assert (job.num_workers, job.slow, job.hiccups, job.options.worker.threads) == (4, {0: 4.0}, (0.1, 8.0), 2)
    assert (job.transport, job.pace) == ("shm", LearningRatePace(4, 4.0, 5))


def test_simulated_ones_have_slow_workers_as_stragglers_of_their_cluster(script: Path) -> None:
    trials = asked(script, cluster="rack", steps=7, set=("reduce.collective=ring",)).trials()
    assert isinstance(trials, SimulatedTrials)
    assert (trials.common.steps_max, trials.common.collective) == (7, "ring")
    assert trials.common.cluster.place(4).factors == (4.0, 1.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("other", "because"),
    [
        ({"set": ("worker.hiccups=0.1:8",)}, "--set worker.hiccups is for real runs, but --simulate was said"),
        ({"net": ("1gbit,1ms",)}, "--net is for real runs"),
        ({"set": ("data.global_batch=64",)}, "--set data.global_batch is for real runs"),
        ({"transport": "tcp"}, "--transport is for real runs"),
        ({"set": ("write.log=a.jsonl",)}, "--set write.log is for weft run and weft simulate, not for weft compare"),
        ({"slow": {9: 2.0}}, "--slow 9:2 wants a worker from 0 to 3"),
        ({"slow": {0: 0.5}}, "--slow 0:0.5 wants a worker"),
        ({"slow": {0: float("inf")}}, "--slow 0:inf wants a worker"),
    ],
    ids=str,
)
def test_what_cannot_be_simulated_is_refused(script: Path, other: dict[str, Any], because: str) -> None:
    with pytest.raises(ConfigError, match=because):
        asked(script, cluster="rack", **other).trials()


def test_the_head_of_the_report_has_what_was_said_as_it_was_said(script: Path) -> None:
    setup = asked(script, warmup=5, set=("a.b=1", "c.d=2")).setup(3, Target("accuracy", 0.9))
    assert (setup.seeds, setup.slow, setup.workers) == ([0, 1, 2], {"0": 4.0}, 4)
    assert setup.options == {"warmup": "5", "set": "a.b=1, c.d=2"}
    assert not setup.is_simulated


def test_parameters_that_are_set_are_those_of_every_strategy_and_not_of_all(script: Path) -> None:
    said = asked(script, set=("strategy.period=4",))
    assert said.texts(["local_sgd + fp16 share=static", "diloco(lr=1.0)"]) == [
        "local_sgd(period=4) + fp16 share=static",
        "diloco(lr=1.0, period=4)",
    ]
    with pytest.raises(ConfigError, match="is for strategies that are named"):
        said.texts(["all"])
    assert asked(script).texts(["all", "ssp"]) == ["all", "ssp"]

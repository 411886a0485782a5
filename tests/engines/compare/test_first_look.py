"""A first look at a script: what it reports."""

from pathlib import Path

import pytest
from support.processes.launches import TRAIN
from support.processes.real import fork_from_here
from support.scripts.training_scripts import write

from weft.config.cluster import load_cluster
from weft.core.errors import ConfigError, NodeLost
from weft.engines.compare.first_look import check_target, read_target, reported_names, simulated_names
from weft.engines.real.job import RealJob
from weft.engines.simulated.job import SimulatedJob
from weft.observe.records.comparison import Target

REPORTS = """
for epoch in worker.epochs(5):
    for rows in worker.share(40, batch_size=2):
        worker.step({"w": w - rows.mean()})
    worker.report(mean=w.mean())
    if epoch == 3:
        worker.report(accuracy=lambda: 1 / 0)
worker.save(sys.argv[1])
print(f"made {worker.steps} steps")
"""


def test_all_names_are_found_by_a_step_of_each_share_and_nothing_is_worked_out_or_written(
    tmp_path: Path,
) -> None:
    model = tmp_path / "model.safetensors"
    script = write(tmp_path, TRAIN, REPORTS)
    job = RealJob(script=script, arguments=(str(model),), num_workers=4, strategy="ssp", slow={1: 4.0}, transport="tcp")
    assert set(reported_names(job, fork_from_here, print)) == {"accuracy", "mean"}
    simulated = SimulatedJob(
        script=script, arguments=(str(model),), cluster=load_cluster("edge"), num_workers=4, strategy="gossip"
    )
    assert set(simulated_names(simulated, print)) == {"accuracy", "mean"}
    assert not model.exists()


def test_a_script_that_reports_nothing_has_no_names(tmp_path: Path) -> None:
    script = write(tmp_path, TRAIN, "worker.step({'w': w}, samples=1)\n")
    assert reported_names(RealJob(script=script, arguments=(), num_workers=2), fork_from_here, print) == []


HELPS = "import argparse\nargparse.ArgumentParser(prog='train').parse_args()\n"


def test_a_script_that_leaves_with_its_help_shows_it_though_else_nothing_is_shown(tmp_path: Path) -> None:
    script, shown = write(tmp_path, "print('hello')\n" + HELPS, TRAIN, REPORTS), list[str]()
    with pytest.raises(NodeLost):
        reported_names(RealJob(script=script, arguments=("--help",), num_workers=2), fork_from_here, shown.append)
    with pytest.raises(NodeLost):
        simulated_names(
            SimulatedJob(script=script, arguments=("--help",), cluster=load_cluster("edge"), num_workers=4),
            shown.append,
        )
    assert [text.split("\n")[:2] for text in shown] == 2 * [["hello", "usage: train [-h]"]]


def test_a_target_that_is_never_reported_is_refused_and_the_others_are_named() -> None:
    check_target(Target("accuracy", 0.9), ["loss", "accuracy"])
    check_target(Target("accuracy", 0.9), [])
    with pytest.raises(ConfigError) as refused:
        check_target(Target("acuracy", 0.9), ["accuracy", "mean"])
    assert str(refused.value) == (
        "the script does not report 'acuracy', so --target acuracy=0.9 is never reached.\n"
        "  It reports: accuracy, mean. Did you mean 'accuracy'?"
    )


def test_a_target_is_a_name_and_a_number() -> None:
    assert read_target("accuracy=0.97") == Target("accuracy", 0.97)
    for text in ("accuracy", "accuracy=high", "=1", "accuracy=nan"):
        with pytest.raises(ConfigError, match="wants a reported number and a value"):
            read_target(text)

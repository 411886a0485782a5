"""Simulated workers: a script under a strategy on a cluster."""

import os
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.scripts.training_scripts import (
    ARRAYS,
    ARRAYS_TRAIN,
    SEEN,
    TORCH,
    TORCH_JOIN,
    TORCH_TRAIN,
    simulated,
    write,
)

import weft
from weft.config.cluster import load_cluster
from weft.core.errors import ConfigError, Deadlock, NodeLost
from weft.core.world import World
from weft.engines.explanation import Explanation
from weft.engines.simulated import runner as engine
from weft.engines.simulated.job import SimulatedJob
from weft.engines.simulated.runner import simulate, simulate_dry
from weft.engines.simulated.world_run import SimulationObserver
from weft.sim.facts import Facts


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return write(tmp_path, ARRAYS, ARRAYS_TRAIN)


def job(script: Path, num_workers: int = 2, **options: Any) -> SimulatedJob:
    return SimulatedJob(script=script, arguments=(), cluster=load_cluster("rack"), num_workers=num_workers, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_workers": 0}, "-n is 0, but a run needs at least 1 worker.\n  Use -n 1."),
        ({"steps_max": 0}, "--steps is 0, but must be at least 1.\n  Leave it out to run the script's own."),
        ({"seed": -1}, "--seed is -1, but must be from 0 to 2**63 - 1.\n  Use --seed 0."),
        ({"seed": 2**63}, f"--seed is {2**63}, but must be from 0 to 2**63 - 1.\n  Use --seed 0."),
        ({"strategy": "gosip"}, "strategy 'gosip' is not known.\n  Did you mean 'gossip'?"),
        ({"collective": "rong"}, "collective 'rong' is not known.\n  Did you mean 'ring'?"),
        (
            {"strategy": "gossip(topology=torus(3, 3))"},
            "topology 'torus(3, 3)' has 9 places, but there are 2 workers.\n"
            "  2 is prime: use 9 workers, or 'torus', which is then a ring of 2.",
        ),
    ],
)
def test_a_job_that_cannot_run_is_refused_before_the_script_is_touched(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        job(write(tmp_path, "1 / 0\n"), **options)
    assert str(refused.value) == message


def test_the_cheapest_collective_is_taken_when_asked_for_and_told_with_the_rest(script: Path) -> None:
    told: list[Explanation] = []
    observer = SimulationObserver(lambda line: None, on_explain=told.append)
    outcomes = {
        name: simulate(job(script, 8, collective=name), observer) for name in (None, "auto", "butterfly", "ring")
    }
    assert [explanation.collective for explanation in told] == [None, "butterfly", "butterfly", "ring"]
    assert told[0].native == "done natively, at the price of the cheapest formula on the slowest link"
    assert told[1].place == "simulated on 8 hosts like those of cluster 'rack'"
    assert outcomes["auto"].trace == outcomes["butterfly"].trace != outcomes["ring"].trace
    simulate_dry(job(script, 8, strategy="gossip", collective="auto"), observer)
    assert (told[-1].strategy, told[-1].collective) == ("gossip", None)


def test_a_missing_script_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        job(tmp_path / "none.py")
    assert str(refused.value) == f"script '{tmp_path / 'none.py'}' does not exist.\n  Check the path."


def test_the_job_chooses_the_strategy_then_the_script_then_allreduce(script: Path) -> None:
    assert job(script, strategy="ssp").resolved("gossip") == weft.StaleSync()
    assert job(script).resolved("gossip") == weft.Gossip()
    assert job(script).resolved(weft.PushSum()) == weft.PushSum()
    assert job(script).resolved(None) == weft.AllReduce()
    assert job(script).label(weft.StaleSync(staleness=1)) == "ssp(staleness=1)"
    assert job(script, strategy="ssp( staleness=1 )").label(None) == "ssp( staleness=1 )"


@pytest.mark.parametrize("asked", ["'push_sum'", "weft.PushSum()"])
def test_the_script_may_ask_for_a_strategy(tmp_path: Path, asked: str) -> None:
    text = ARRAYS.replace("lr=0.1)", f"lr=0.1), strategy={asked}")
    path = write(tmp_path, text, ARRAYS_TRAIN)
    assert simulated(path, 2).strategy == "push_sum"
    assert simulate_dry(job(path)).strategy == "push_sum"
    assert simulated(path, 2, "ssp").strategy == "ssp"


def test_all_workers_begin_with_worker_0s_parameters(tmp_path: Path) -> None:
    head = ARRAYS.replace("np.zeros(3)", "np.random.rand(3)")
    simulated(write(tmp_path, head, "SEEN.append(w.tolist())\n", ARRAYS_TRAIN), 3)
    assert SEEN[0] == SEEN[1] == SEEN[2]


@pytest.mark.parametrize("dry", [False, True])
def test_a_script_that_never_joins_is_told_so(tmp_path: Path, dry: bool) -> None:
    path = write(tmp_path, "x = 1\n")
    with pytest.raises(ConfigError) as refused:
        (simulate_dry if dry else simulate)(job(path))
    assert str(refused.value) == (
        f"script '{path}' ended without calling weft.join.\n"
        "  Add worker = weft.join(model, optimizer) before its training loop."
    )


def test_a_script_that_never_steps_is_told_so(tmp_path: Path) -> None:
    path = write(tmp_path, ARRAYS)
    with pytest.raises(ConfigError) as refused:
        simulate(job(path))
    assert str(refused.value) == (
        f"script '{path}' joined but never stepped.\n"
        "  Call optimizer.step() (or worker.step() for arrays) in its training loop."
    )
    with pytest.raises(ConfigError) as refused:
        simulate_dry(job(path))
    assert str(refused.value) == (
        f"script '{path}' joined but computed no gradient.\n  Call backward() in its training loop."
    )


def test_workers_with_other_models_are_refused(tmp_path: Path) -> None:
    head = "from weft.core.seat import current\n" + ARRAYS.replace("zeros(3)", "zeros(3 + current().rank)")
    with pytest.raises(ConfigError) as refused:
        simulated(write(tmp_path, head, ARRAYS_TRAIN), 2)
    assert str(refused.value) == (
        "worker 1 joined with 'w (4,) float64' where worker 0 has 'w (3,) float64'.\n"
        "  Build the same model on every worker."
    )
    head = "from weft.core.seat import current\n" + ARRAYS.replace(
        '{"w": w}', '{"w": w, **({"b": np.zeros(1)} if current().rank else {})}'
    )
    with pytest.raises(ConfigError) as refused:
        simulated(write(tmp_path, head, ARRAYS_TRAIN), 2)
    assert (
        str(refused.value)
        == "worker 1 joined with 2 tensors, worker 0 with 1.\n  Build the same model on every worker."
    )


@pytest.mark.parametrize(
    ("text", "dry", "message"),
    [
        ("1 / 0\n", False, "worker 0 raised ZeroDivisionError before it joined: division by zero"),
        ("1 / 0\n", True, "worker 0 raised ZeroDivisionError before it joined: division by zero"),
        (ARRAYS + "1 / 0\n", True, "worker 0 raised ZeroDivisionError at step 0: division by zero"),
        (ARRAYS + "1 / (worker.rank - 2)\n", False, "worker 2 raised ZeroDivisionError at step 0: division by zero"),
        (
            ARRAYS + ARRAYS_TRAIN + "    1 / (worker.rank - 1)\n",
            False,
            "worker 1 raised ZeroDivisionError at step 2: division by zero",
        ),
        (
            ARRAYS + ARRAYS_TRAIN.replace("w.sum()", "1 / 0"),
            False,
            "worker 0 raised ZeroDivisionError in a reported callable: division by zero",
        ),
        (
            ARRAYS + "import sys\nsys.exit('no data')\n",
            False,
            "worker 0 left at step 0: no data",
        ),
    ],
)
def test_a_worker_that_raises_is_named_with_its_step(tmp_path: Path, text: str, dry: bool, message: str) -> None:
    with pytest.raises(NodeLost) as lost:
        (simulate_dry if dry else simulate)(job(write(tmp_path, text), 3))
    assert str(lost.value) == message
    assert (lost.value.__cause__ is None) == ("sys.exit" in text)


def test_workers_with_unequal_numbers_of_steps_end_in_a_deadlock_that_says_who_waits(tmp_path: Path) -> None:
    text = "for _ in range(2 + worker.rank):\n    worker.step({'w': w}, samples=1)\n"
    with pytest.raises(Deadlock) as stuck:
        simulated(write(tmp_path, ARRAYS, text), 2)
    assert "worker 0 has ended after 2 steps" in str(stuck.value)
    assert "worker 1 (step 2, waits in backward()) waits for the reduction of gradient[0] at step 2" in str(stuck.value)


def test_the_process_is_left_as_it_was_even_when_a_script_fails(tmp_path: Path) -> None:
    text = (
        ARRAYS
        + "import random, os\nrandom.seed(1)\nnp.random.seed(1)\nsys = __import__('sys')\nsys.argv.append('x')\n1 / 0\n"
    )
    random.seed(5)
    np.random.seed(5)
    before = sys.argv[:], sys.path[:], sys.modules["__main__"], sys.stdout, os.getcwd()
    with pytest.raises(NodeLost, match="ZeroDivisionError"):
        simulated(write(tmp_path, text), 2)
    assert (sys.argv, sys.path, sys.modules["__main__"], sys.stdout, os.getcwd()) == before
    assert (random.random(), np.random.rand()) == (random.Random(5).random(), np.random.RandomState(5).rand())


def test_a_script_sees_its_arguments_its_folder_and_itself_as_main(tmp_path: Path) -> None:
    (tmp_path / "beside_me.py").write_text("VALUE = 42\n")
    text = "import sys, beside_me\nSEEN.append((sys.argv[1:], __name__, beside_me.VALUE, __file__))\n"
    path = write(tmp_path, ARRAYS, text, ARRAYS_TRAIN)
    simulated(path, 2, None, "--fast", "3")
    assert [(["--fast", "3"], "__main__", 42, str(path))] * 2 == SEEN


def test_an_edited_script_is_read_anew_and_leaves_no_compiled_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    for value in ("1", "2"):
        path = write(tmp_path, ARRAYS, f"SEEN.append({value})\n", ARRAYS_TRAIN)
        os.utime(path, (1e9, 1e9))
        simulated(path, 1)
        assert [int(value)] == SEEN, "though its size and its second are the same"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["train.py"]


def test_a_run_that_will_not_fit_is_refused_with_the_estimate(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "available_bytes", lambda: 1000)
    monkeypatch.setattr(engine, "resident_bytes", lambda: 0)
    with pytest.raises(ConfigError) as refused:
        simulated(script, 64)
    assert str(refused.value) == (
        "64 workers need about 0.0 GiB (0.0 MiB each), but 0.0 GiB are available.\n"
        "  Use -n 9 or fewer, or --dry, which needs no tensors."
    )
    assert simulate_dry(job(script, 13)).facts.steps == [2] * 13


def test_what_the_second_worker_takes_counts_in_the_estimate(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "available_bytes", lambda: 2**30)
    taken = iter([0, 0, 0, 2**28])
    monkeypatch.setattr(engine, "resident_bytes", lambda: next(taken))
    with pytest.raises(ConfigError) as refused:
        simulated(script, 8)
    assert str(refused.value) == (
        "8 workers need about 2.0 GiB (256.0 MiB each), but 1.0 GiB are available.\n"
        "  Use -n 3 or fewer, or --dry, which needs no tensors."
    )


def test_more_workers_than_samples_are_refused(script: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        simulated(script, 14)
    assert str(refused.value) == (
        "there are 13 samples for 14 workers, and each needs at least 1 in a step.\n"
        "  Use at most 13 workers, or more data."
    )


def test_a_dry_run_must_know_how_long_it_trains(tmp_path: Path) -> None:
    path = write(tmp_path, ARRAYS, "worker.step({'w': w}, samples=4)\n")
    with pytest.raises(ConfigError) as refused:
        simulate_dry(job(path))
    assert str(refused.value) == (
        "a dry run cannot know how long the script would train.\n"
        "  Add --steps 100, or use worker.epochs(...) and worker.share(...) in the script."
    )
    facts = simulate_dry(job(path, steps_max=7)).facts
    assert (facts.steps, facts.samples) == ([7, 7], 7 * 2 * 4)


def test_servers_sit_on_the_hosts_of_the_first_workers(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worlds: list[World] = []
    plain = engine.run_world
    monkeypatch.setattr(engine, "run_world", lambda *args: worlds.append(args[2]) or plain(*args))
    simulated(script, 3, "ssp(servers=5)")
    assert worlds[0].hosts == (0, 1, 2, 0, 1, 2, 0, 1)


def test_whoever_looks_on_sees_worker_0s_lines_and_every_step(tmp_path: Path) -> None:
    lines: list[str] = []
    steps: list[int] = []
    totals: list[int] = []

    def on_step(facts: Facts, now_s: float) -> None:
        steps.append(sum(facts.steps))

    path = write(tmp_path, ARRAYS, ARRAYS_TRAIN, "    print(worker.rank, 'ends epoch', epoch)\n")
    for run in (simulate, simulate_dry):
        run(job(path), SimulationObserver(lines.append, on_step, totals.append))
    assert lines == ["0 ends epoch 0", "0 ends epoch 1"]
    assert steps == [*range(1, 13), *range(1, 13)]
    assert totals == [12, 12]


def test_recorded_step_times_stand_in_for_seconds_per_sample(tmp_path: Path, script: Path) -> None:
    cluster = tmp_path / "recorded.toml"
    cluster.write_text(
        "[compute]\nstep_s = [[0.5], [1.0, 2.0]]\n[[hosts]]\ncount = 2\n[links.between]\nlatency = 0.0\n"
    )
    outcome = simulated(script, 2, "async_gossip", cluster=str(cluster))
    assert outcome.facts.compute_s == [6 * 0.5, 3 * (1.0 + 2.0)]


@pytest.mark.parametrize("strategy", ["allreduce", "gossip", "ssp"])
def test_the_same_seed_gives_a_torch_run_again(tmp_path: Path, strategy: str) -> None:
    path = write(tmp_path, TORCH.replace("nn.ReLU()", "nn.ReLU(), nn.Dropout()"), TORCH_JOIN, TORCH_TRAIN)
    runs = [simulated(path, 3, strategy, cluster="edge", seed=seed) for seed in (1, 1, 2)]
    first, again, other = [(run.trace, [array.tobytes() for array in run.arrays or []]) for run in runs]
    assert first == again
    assert first[0] != other[0]
    assert first[1] != other[1]


def test_a_dry_run_passes_over_a_report_made_before_training(tmp_path: Path) -> None:
    early = "worker.report(accuracy=0.1)\n"
    assert simulate_dry(job(write(tmp_path, ARRAYS, early, ARRAYS_TRAIN), 2)).facts.num_steps > 0


def test_a_workers_iterations_take_the_same_times_whatever_the_strategy(tmp_path: Path) -> None:
    script = write(tmp_path, ARRAYS, ARRAYS_TRAIN)
    ran = [simulated(script, 4, strategy, cluster="edge").facts.compute_s for strategy in ("allreduce", "async_gossip")]
    assert ran[0] == pytest.approx(ran[1])
    assert len(set(ran[0])) == 4


def test_a_dry_run_hands_out_portions_as_the_real_one_does(script: Path) -> None:
    real, dry = (run(job(script, 3, strategy="sandblaster")) for run in (simulate, simulate_dry))
    assert dry.trace == real.trace
    assert dry.facts.steps == real.facts.steps
    short = simulate_dry(job(script, 3, strategy="sandblaster", steps_max=2)).facts
    assert short.steps == simulate(job(script, 3, strategy="sandblaster", steps_max=2)).facts.steps == [2, 2, 2]
    totals: list[int] = []
    simulate_dry(job(script, 3, strategy="sandblaster"), SimulationObserver(on_plan=totals.append))
    assert totals == [2 * 7], "two epochs of 13 samples in portions of 2"


def test_a_dry_run_of_a_script_that_shares_nothing_brings_batches_of_its_own(tmp_path: Path) -> None:
    path = write(tmp_path, ARRAYS, "worker.step({'w': w}, samples=4)\n")
    assert simulate_dry(job(path, 2, strategy="sandblaster", steps_max=3)).facts.steps == [3, 3]

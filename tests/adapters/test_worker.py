"""What a worker offers its script whatever the framework."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from support.scripts.training_scripts import ARRAYS, ARRAYS_TRAIN, SEEN, simulated, write

import weft
from weft.adapters.arrays import ArrayWorker
from weft.core.errors import CheckpointError, ConfigError


def joined() -> ArrayWorker:
    return weft.join(arrays={"w": np.zeros(2)}, optimizer=weft.SGD(lr=0.1))


def test_epochs_count_from_0() -> None:
    assert list(joined().epochs(3)) == [0, 1, 2]


def test_a_run_of_few_steps_ends_its_shares_and_its_epochs(tmp_path: Path) -> None:
    script = write(tmp_path, ARRAYS, ARRAYS_TRAIN, "    SEEN.append((worker.rank, epoch, worker.steps))\n")
    outcome = simulated(script, 2, steps_max=3)
    assert outcome.facts.steps == [3, 3]
    assert sorted(SEEN) == [(0, 0, 3), (1, 0, 3)]


def test_a_run_of_few_steps_ends_a_loop_of_the_scripts_own(tmp_path: Path) -> None:
    endless = "while True:\n    worker.step({'w': w - 1}, samples=2)\n    SEEN.append(worker.rank)\n"
    outcome = simulated(write(tmp_path, ARRAYS, endless), 2, steps_max=3)
    assert outcome.facts.steps == [3, 3]
    assert sorted(SEEN) == [0, 0, 0, 1, 1, 1]


def test_shares_outside_epochs_are_epochs_of_their_own(tmp_path: Path) -> None:
    text = """
    for _ in range(2):
        SEEN.append([rows.tolist() for rows in worker.share(6, batch_size=6)])
    worker.step({"w": w}, samples=1)
    """
    simulated(write(tmp_path, ARRAYS, text), 1)
    first, second = SEEN
    assert sorted(first[0]) == sorted(second[0]) == [0, 1, 2, 3, 4, 5]
    assert first != second


def test_a_step_on_samples_that_nobody_told_of_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        simulated(write(tmp_path, ARRAYS, "worker.step({'w': w})\n"), 2)
    assert str(refused.value) == (
        "step() was called on samples that Weft does not know of, so it would weigh nothing.\n"
        "  Give their number, worker.step(gradients, samples=32), or take them from worker.share(...)."
    )


def test_samples_that_a_script_loads_by_itself_are_counted_when_it_says_so(tmp_path: Path) -> None:
    text = """
    for _ in range(2):
        worker.count(3 + worker.rank)
        worker.count(1)
        worker.step({"w": w + worker.rank})
    """
    outcome = simulated(write(tmp_path, ARRAYS, text), 2, "allreduce")
    assert (outcome.facts.steps, outcome.facts.samples) == ([2, 2], 18.0)


def test_samples_of_skipped_steps_count_for_the_next(tmp_path: Path) -> None:
    text = """
    for i, rows in enumerate(worker.share(8, batch_size=1)):
        if i % 2:
            worker.step({"w": w - worker.rank})
    """
    outcome = simulated(write(tmp_path, ARRAYS, text), 2)
    assert (outcome.facts.steps, outcome.facts.samples) == ([2, 2], 8.0)


def test_a_share_that_is_only_looked_at_does_not_count(tmp_path: Path) -> None:
    text = """
    for rows in worker.share(8, batch_size=1):
        pass
    for rows in worker.share(8, batch_size=1):
        worker.step({"w": w - worker.rank})
    """
    outcome = simulated(write(tmp_path, ARRAYS, text), 2)
    assert (outcome.facts.steps, outcome.facts.samples) == ([4, 4], 8.0)


def test_a_report_that_is_no_number_is_the_scripts_own_error() -> None:
    with pytest.raises(ValueError, match=r"^could not convert string to float: 'good'$"):
        joined().report(accuracy="good")


@pytest.mark.parametrize(
    ("model", "hint"),
    [
        ("meen", "Did you mean 'mean'?"),
        ("assemble", "Did you mean 'ensemble'?"),
        ("", "Known: best, ensemble, mean, mine, result."),
    ],
)
def test_a_model_that_is_not_known_cannot_be_saved(model: str, hint: str) -> None:
    with pytest.raises(ConfigError) as refused:
        joined().save("a.safetensors", model=model)
    assert str(refused.value) == f"save(model='{model}') is not known.\n  {hint}"


@pytest.mark.parametrize(
    ("model", "file", "name"),
    [
        ("result", "a.b.safetensors", "w"),
        ("mean", "a.b.safetensors", "w"),
        ("best", "a.b.safetensors", "w"),
        ("mine", "a.b.0.safetensors", "w"),
        ("ensemble", "a.b.safetensors", "member0.w"),
    ],
)
def test_one_worker_alone_saves_its_model_under_every_word(model: str, file: str, name: str, tmp_path: Path) -> None:
    joined().save(str(tmp_path / "a.b.safetensors"), model=model)
    assert [path.name for path in tmp_path.iterdir()] == [file]
    assert {name: value.tolist() for name, value in load_file(tmp_path / file).items()} == {name: [0.0, 0.0]}


def test_a_folder_that_is_not_there_cannot_be_saved_to(tmp_path: Path) -> None:
    path = tmp_path / "models" / "a.safetensors"
    with pytest.raises(CheckpointError) as refused:
        joined().save(str(path))
    assert str(refused.value) == (f"'{path}' cannot be saved: there is no folder '{path.parent}'.\n  Make it first.")


@pytest.mark.parametrize("samples", [-1, float("nan"), float("inf")])
def test_a_step_has_a_number_of_samples(samples: float) -> None:
    with pytest.raises(ConfigError) as refused:
        joined().step({"w": np.zeros(2)}, samples=samples)
    assert str(refused.value) == f"a step was made on {float(samples)} samples.\n  Give their number, 0 or more."

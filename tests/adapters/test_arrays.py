"""The framework-neutral face: numpy arrays in, gradients in."""

import runpy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file
from support.scripts.training_scripts import ARRAYS, ARRAYS_TRAIN, SEEN, simulated, write

import weft
from weft.core.errors import ConfigError

MIXED: dict[str, Any] = {"a": np.arange(6.0).reshape(2, 3), "b": np.array([7, 8], np.float32), "c": np.array(9.0)}
FUNCTION = ARRAYS.replace("optimizer=weft.Momentum(lr=0.1)", "apply=descend").replace(
    "w = np.zeros(3)",
    "def descend(params, gradients):\n    params['w'] -= 0.1 * gradients['w']\n\nw = np.zeros(3)",
)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"arrays": {}}, "weft.join was given no arrays.\n  Give at least one: weft.join(arrays={'w': w}, ...)."),
        *(
            (
                {"arrays": {"w": wrong}},
                "array 'w' is not a numpy array of floats, so it cannot be trained.\n  Use e.g. np.zeros((64, 10)).",
            )
            for wrong in ([0.0], np.zeros(2, int), np.zeros(2, complex))
        ),
        *(
            (
                {"arrays": {"w": np.zeros(2)}, **both},
                "weft.join needs either an optimizer or apply= for its arrays.\n"
                "  Use weft.join(arrays=..., optimizer=weft.SGD(lr=0.1)).",
            )
            for both in ({}, {"optimizer": weft.SGD(lr=0.1), "apply": print})
        ),
    ],
)
def test_what_cannot_be_trained_is_refused(given: Mapping[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        weft.join(**given)
    assert str(refused.value) == message


def test_the_users_arrays_hold_the_parameters_of_the_next_step() -> None:
    w = np.array([1.0, 2.0])
    worker = weft.join(arrays={"w": w}, optimizer=weft.SGD(lr=0.5))
    worker.step({"w": np.array([1.0, 1.0])})
    assert w.tolist() == [0.5, 1.5]
    assert worker.steps == 1


@pytest.mark.parametrize("head", [ARRAYS, FUNCTION], ids=["optimizer", "function"])
def test_one_simulated_worker_equals_the_script_alone_bit_for_bit(tmp_path: Path, head: str) -> None:
    script = write(tmp_path, head, ARRAYS_TRAIN)
    alone = runpy.run_path(str(script), run_name="__main__")["w"]
    outcome = simulated(script, 1)
    assert outcome.replicas[0].views()["w"].tobytes() == alone.tobytes()
    assert alone.any()


def test_a_function_is_an_optimizer_for_strategies_that_step_on_workers(tmp_path: Path) -> None:
    by_function = simulated(write(tmp_path, FUNCTION, ARRAYS_TRAIN), 3, "allreduce")
    by_rule = simulated(write(tmp_path, ARRAYS.replace("Momentum", "SGD"), ARRAYS_TRAIN), 3, "allreduce")
    assert by_function.arrays is not None
    assert by_rule.arrays is not None
    np.testing.assert_allclose(by_function.arrays[0], by_rule.arrays[0], rtol=1e-15)


@pytest.mark.parametrize("strategy", ["ssp", "ps", "downpour"])
def test_a_function_cannot_run_on_a_server(tmp_path: Path, strategy: str) -> None:
    with pytest.raises(ConfigError) as refused:
        simulated(write(tmp_path, FUNCTION, ARRAYS_TRAIN), 3, strategy)
    assert str(refused.value) == (
        "this strategy runs the optimizer on a server, which a bare function apply= cannot do.\n"
        "  Use optimizer=weft.SGD(lr=...) or another rule instead."
    )


def test_a_function_has_no_learning_rate_to_scale(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        simulated(write(tmp_path, FUNCTION, ARRAYS_TRAIN), 3, "neighbours(wait=any)")
    assert str(refused.value) == (
        "this strategy scales the learning rate, which a bare function apply= does not have.\n"
        "  Use optimizer=weft.SGD(lr=...) or another rule instead."
    )


@pytest.mark.parametrize(
    ("num_samples", "num_workers", "batch_size"), [(12, 1, 5), (12, 3, 2), (13, 3, 2), (7, 7, 4), (29, 4, 3)]
)
@pytest.mark.parametrize("shuffle", [True, False])
def test_every_sample_is_dealt_once_in_an_epoch(
    tmp_path: Path, num_samples: int, num_workers: int, batch_size: int, shuffle: bool
) -> None:
    text = f"""
    for epoch in worker.epochs(2):
        for rows in worker.share({num_samples}, batch_size={batch_size}, shuffle={shuffle}):
            SEEN.append((epoch, worker.steps, worker.rank, rows.tolist()))
            worker.step({{"w": w}})
    """
    outcome = simulated(write(tmp_path, ARRAYS, text), num_workers)
    orders = [[row for e, _, _, rows in sorted(SEEN) if e == epoch for row in rows] for epoch in (0, 1)]
    assert all(sorted(order) == list(range(num_samples)) for order in orders)
    assert (orders[0] == orders[1]) == (not shuffle)
    assert len(set(outcome.facts.steps)) == 1, "all workers have the same number of steps"


def test_another_seed_is_another_order(tmp_path: Path) -> None:
    text = "SEEN.append(next(worker.share(9, batch_size=9)).tolist())\nworker.step({'w': w})\n"
    script = write(tmp_path, ARRAYS, text)
    orders = []
    for seed in (0, 0, 1):
        simulated(script, 1, seed=seed)
        orders += SEEN
    assert orders[0] == orders[1] != orders[2]


def test_a_reported_callable_sees_the_result_in_the_users_arrays_and_they_are_put_back(tmp_path: Path) -> None:
    text = """
    for epoch in worker.epochs(1):
        for rows in worker.share(12, batch_size=2):
            worker.step({"w": w - worker.rank})
        before = w.copy()
        worker.report(first=lambda: SEEN.append(w.copy()) or w[0])
        assert (w == before).all()
    """
    outcome = simulated(write(tmp_path, ARRAYS, text), 3, "gossip(topology=ring)")
    assert outcome.arrays is not None
    assert len(SEEN) == 1
    assert SEEN[0].tobytes() == outcome.arrays[0].tobytes()
    assert outcome.facts.final == {"first": outcome.arrays[0][0]}
    assert not np.array_equal(SEEN[0], outcome.replicas[0].views()["w"])


def test_the_result_is_saved_as_safetensors_once(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    outcome = simulated(write(tmp_path, ARRAYS, ARRAYS_TRAIN, f"worker.save({str(path)!r})\n"), 3, "gossip")
    assert outcome.arrays is not None
    assert load_file(path)["w"].tobytes() == outcome.arrays[0].tobytes()


def test_alone_the_arrays_are_saved_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    weft.join(arrays=MIXED, optimizer=weft.SGD(lr=0.1)).save(str(path))
    saved = load_file(path)
    assert {name: array.tolist() for name, array in saved.items()} == {n: a.tolist() for n, a in MIXED.items()}


@pytest.mark.parametrize(
    ("num_samples", "num_workers", "batch_size"), [(12, 1, 5), (12, 3, 2), (13, 3, 2), (5, 7, 4), (29, 4, 3)]
)
@pytest.mark.parametrize("shuffle", [True, False])
def test_portions_that_the_strategy_hands_out_are_batches_of_the_whole_order(
    tmp_path: Path, num_samples: int, num_workers: int, batch_size: int, shuffle: bool
) -> None:
    text = f"""
    for epoch in worker.epochs(2):
        for rows in worker.share({num_samples}, batch_size={batch_size}, shuffle={shuffle}):
            SEEN.append((epoch, rows.tolist()))
            worker.step({{"w": w}})
        worker.report(done=1)
    """
    outcome = simulated(write(tmp_path, ARRAYS, text), num_workers, "sandblaster(backups=False)")
    taken = [sorted(rows for e, rows in SEEN if e == epoch) for epoch in (0, 1)]
    for batches in taken:
        assert sorted(row for rows in batches for row in rows) == list(range(num_samples))
        assert sorted(map(len, batches))[1:] == [batch_size] * (len(batches) - 1)
    assert (taken[0] == taken[1]) == (not shuffle)
    assert sum(outcome.facts.steps) == len(SEEN)
    assert len(outcome.facts.reports) == 2


def test_a_portion_that_leads_to_no_step_is_not_counted_in_the_next(tmp_path: Path) -> None:
    text = """
    for epoch in worker.epochs(1):
        for rows in worker.share(6, batch_size=2, shuffle=False):
            if rows[0] != 2:
                worker.step({"w": np.full(3, float(rows[0]))})
    """
    outcome = simulated(write(tmp_path, ARRAYS, text), 1, "sandblaster")
    assert outcome.facts.samples == 4
    assert outcome.arrays is not None
    assert outcome.arrays[0] == pytest.approx([-1 / 3] * 3), "a gradient of (0 + 4) / 2, shortened to 1 / 6"


def test_handing_out_no_samples_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        simulated(write(tmp_path, ARRAYS, "list(worker.share(0, batch_size=2))\n"), 2, "sandblaster")
    assert str(refused.value) == "share() was given no samples, so there is nothing to hand out.\n  Give it some data."

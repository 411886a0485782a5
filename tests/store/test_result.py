"""The model that a run results in."""

import numpy as np
import pytest

from weft.adapters.array_replica import ArrayReplica
from weft.core.names import Bucket, Buffer, Result, Roles
from weft.core.rules import SGD
from weft.core.world import World
from weft.store.result import ResultModel


def replicas(*values: float) -> list[ArrayReplica]:
    """Two buckets (float32 first), both of the given value."""
    return [ArrayReplica({"a": np.full(2, v, np.float32), "b": np.full(1, v)}, SGD(lr=1.0), None) for v in values]


def models(which: Result, world: World, *values: float, model: str = "result", best: int = 0) -> dict[str, list[float]]:
    """The first bucket of each model, by its prefix; a bucket is as its first number says."""
    found = ResultModel(which, world, replicas(*values), lambda: best).models(model)
    assert all(len(set(array.tolist())) == 1 for arrays in found.values() for array in arrays)
    return {prefix: [float(array[0]) for array in arrays] for prefix, arrays in found.items()}


BUCKETS = (Bucket(2, 4), Bucket(1, 8))
WORKERS = World(Roles(3), BUCKETS)
SHARDED = World(Roles(2, 2), BUCKETS)


def test_equal_replicas_are_spoken_for_by_worker_0() -> None:
    assert models(Result.REPLICA, WORKERS, 1.0, 2.0, 6.0) == {"": [1, 1]}


def test_the_mean_is_over_the_workers() -> None:
    assert models(Result.MEAN, WORKERS, 1.0, 2.0, 6.0) == {"": [3, 3]}


def test_the_best_is_the_replica_of_the_worker_that_is_best_now() -> None:
    assert models(Result.BEST, WORKERS, 1.0, 2.0, 6.0, best=2) == {"": [6, 6]}
    assert models(Result.BEST, WORKERS, 1.0, 2.0, 6.0, best=1) == {"": [2, 2]}


def test_an_ensemble_is_all_workers_replicas() -> None:
    assert models(Result.ENSEMBLE, SHARDED, 1.0, 2.0, 10.0, 20.0) == {"member0.": [1, 1], "member1.": [2, 2]}


@pytest.mark.parametrize("which", [Result.MEAN, Result.SERVERS, Result.BEST, Result.ENSEMBLE])
@pytest.mark.parametrize(
    ("model", "expected"),
    [("mean", {"": [1.5, 1.5]}), ("best", {"": [2, 2]}), ("ensemble", {"member0.": [1, 1], "member1.": [2, 2]})],
)
def test_another_model_than_the_result_can_be_asked_for(
    which: Result, model: str, expected: dict[str, list[float]]
) -> None:
    assert models(which, SHARDED, 1.0, 2.0, 10.0, 20.0, model=model, best=1) == expected


def test_equal_replicas_are_their_own_mean_to_the_bit() -> None:
    """Adding 0.1 up ten times and dividing by ten is not 0.1."""
    world = World(Roles(10), BUCKETS)
    assert models(Result.REPLICA, world, *[0.1] * 10, model="mean") == {"": [float(np.float32(0.1)), 0.1]}


def test_servers_speak_for_the_buckets_they_keep() -> None:
    assert models(Result.SERVERS, SHARDED, 1.0, 2.0, 10.0, 20.0) == {"": [10, 20]}


def test_what_no_server_keeps_is_the_mean_of_the_workers() -> None:
    world = World(Roles(2, 1), (Bucket(2, 4), Bucket(1, 8, trainable=False)))
    assert models(Result.SERVERS, world, 1.0, 2.0, 10.0) == {"": [10, 1.5]}


def test_the_centre_is_what_its_keeper_says_and_what_is_not_trained_the_mean_of_the_workers() -> None:
    world = World(Roles(2), (Bucket(2, 4), Bucket(1, 8, trainable=False)))
    kept = {Buffer("centre", 0): np.array([5.0, 6.0])}
    model = ResultModel(Result.CENTRE, world, replicas(1.0, 2.0), centre=kept.__getitem__)
    assert [array.tolist() for array in model.models()[""]] == [[5, 6], [1.5]]
    model.models()[""][0][:] = 7.0
    assert kept[Buffer("centre", 0)].tolist() == [5, 6]
    assert model.consensus() == pytest.approx(1 / 3)


def test_the_result_is_a_copy() -> None:
    nodes = replicas(1.0, 1.0, 1.0)
    for which in (Result.REPLICA, Result.MEAN, Result.BEST, Result.ENSEMBLE):
        for arrays in ResultModel(which, WORKERS, nodes).models().values():
            for array in arrays:
                array[:] = 7.0
    assert nodes[0].array("params", 0).tolist() == [1, 1]


def test_consensus_is_the_root_mean_square_distance_from_the_mean_relative_to_its_norm() -> None:
    model = ResultModel(Result.MEAN, World(Roles(2), BUCKETS), replicas(1.0, 3.0))
    assert model.consensus() == pytest.approx(0.5, rel=1e-15)


def test_equal_replicas_and_a_mean_of_nothing_have_no_distance() -> None:
    assert ResultModel(Result.MEAN, WORKERS, replicas(2.0, 2.0, 2.0)).consensus() == 0.0
    assert ResultModel(Result.MEAN, WORKERS, replicas(0.0, 0.0, 0.0)).consensus() == 0.0


def test_servers_and_untrained_buckets_do_not_count_for_consensus() -> None:
    world = World(Roles(2, 1), (Bucket(2, 4, trainable=False), Bucket(1, 8)))
    nodes = replicas(1.0, 3.0, 100.0)
    nodes[0].array("params", 0)[:] = 50.0
    assert ResultModel(Result.MEAN, world, nodes).consensus() == 0.5


@pytest.mark.parametrize("which", [Result.SERVERS, Result.CENTRE])
def test_before_the_first_exchange_the_mean_stands_for_servers_and_a_centre(which: Result) -> None:
    world = SHARDED if which is Result.SERVERS else World(Roles(2), BUCKETS)
    is_alone = True
    result = ResultModel(
        which, world, replicas(1.0, 5.0, 0.0, 0.0), centre=lambda buffer: np.zeros(2), is_alone=lambda: is_alone
    )
    assert [float(array[0]) for array in result.models()[""]] == [3.0, 3.0]
    is_alone = False
    assert [float(array[0]) for array in result.models()[""]] == [0.0, 0.0]


def test_only_workers_that_take_part_count() -> None:
    nodes = replicas(100.0, 2.0, 6.0)
    result = ResultModel(Result.MEAN, WORKERS, nodes, workers=[1, 2])
    assert [float(array[0]) for array in result.models()[""]] == [4.0, 4.0]
    assert list(result.models("ensemble")) == ["member1.", "member2."]
    assert result.consensus() == pytest.approx(0.5)

"""Where a worker's script meets whoever drives it."""

import numpy as np
import pytest

from weft.adapters.alone import Alone
from weft.adapters.array_replica import ArrayReplica
from weft.config.registry import strategy as strategy_of
from weft.core.errors import ConfigError
from weft.core.names import GRADIENT, Bucket
from weft.core.rules import SGD
from weft.core.seat import check_closures, check_tuned, current, saved_alone, sit, step_alone


def test_nobody_sits_until_a_driver_prepares_a_seat() -> None:
    assert current() is None


def test_the_seat_before_is_handed_back_so_that_it_can_be_restored() -> None:
    first, second = Alone(), Alone()
    assert sit(first) is None
    assert current() is first
    assert sit(second) is first
    assert current() is second
    assert sit(None) is second
    assert current() is None


def test_a_step_alone_is_the_users_optimizer_on_all_that_is_trained() -> None:
    replica = ArrayReplica({"a": np.array([1.0, 2.0]), "b": np.array([3.0], np.float32)}, SGD(lr=0.5), None)
    replica.take({"a": np.array([2.0, 4.0]), "b": np.array([2.0])})
    step_alone(replica)
    assert {name: view.tolist() for name, view in replica.views().items()} == {"a": [0, 0], "b": [2]}


@pytest.mark.parametrize("name", ["allreduce", "ensemble"])
def test_an_optimizer_that_computes_the_gradient_in_its_step_may_use_strategies_that_share_that(name: str) -> None:
    check_closures(strategy_of(name), name)


def test_an_optimizer_that_computes_the_gradient_in_its_step_is_refused_where_that_cannot_be_shared() -> None:
    with pytest.raises(ConfigError) as refused:
        check_closures(strategy_of("gossip"), "gossip(every=2)")
    assert str(refused.value) == (
        "this optimizer computes gradients again and again in its step, which 'gossip(every=2)' cannot share.\n"
        "  Use the strategy allreduce or ensemble, or an optimizer such as SGD or Adam."
    )


def test_workers_that_tune_differently_are_refused() -> None:
    check_tuned(1, ["lr from 0.1 to 1"], ["lr from 0.1 to 1"])
    with pytest.raises(ConfigError) as refused:
        check_tuned(2, ["lr from 0.1 to 1"], [])
    assert str(refused.value) == (
        "worker 2 tunes nothing, worker 0 tunes lr from 0.1 to 1.\n  Call worker.tune(...) alike on every worker."
    )


def test_where_all_models_are_equal_one_stands_for_the_mean_the_best_and_every_member() -> None:
    replica = ArrayReplica({"a": np.array([1.0, 2.0])}, SGD(lr=0.5), None)
    mine = replica.array("params", 0)
    for model in ("result", "mine", "mean", "best"):
        assert saved_alone(replica, model, num_workers=2) == {"": [mine]}
    saved = saved_alone(replica, "ensemble", num_workers=2)
    assert list(saved) == ["member0.", "member1."]
    assert all(arrays[0] is mine for arrays in saved.values())


def test_a_step_alone_leaves_out_what_is_not_trained() -> None:
    class Watched:
        """A replica that tells what is applied to it."""

        buckets = (Bucket(2), Bucket(3, trainable=False), Bucket(1))

        def array(self, slot: str, bucket: int) -> object:
            return slot, bucket

        def apply(self, gradients: object, scale: float, hyper: object) -> None:
            told.append((gradients, scale, hyper))

    told: list[object] = []
    step_alone(Watched())  # type: ignore[arg-type]
    assert told == [({0: (GRADIENT, 0), 2: (GRADIENT, 2)}, 1.0, None)]

"""How a run will be done: the facts."""

from weft.config.registry import strategy as strategy_of
from weft.core.names import Result
from weft.cost.choice import Ground, prices_s
from weft.cost.links import Link
from weft.engines.explanation import Explanation, cut, explained, native

LINK = Link(1e-4, 1e9)


def told(text: str, num_workers: int = 4, collective: str | None = None) -> Explanation:
    ground = Ground((num_workers,), LINK, LINK)
    return explained(strategy_of(text), text, "here", "in memory", (1000, 500), ground, collective)


def test_a_strategy_tells_its_method_its_pace_and_its_result() -> None:
    allreduce, gossip = told("allreduce"), told("async_gossip")
    assert allreduce.method == "Synchronous SGD by all-reduce (Goyal et al. 2017)."
    assert (allreduce.keeps_step, gossip.keeps_step) == (True, False)
    assert (allreduce.result, gossip.result) == (Result.REPLICA, Result.MEAN)
    assert (allreduce.reduces, gossip.reduces) == (True, False)


def test_one_model_for_all_is_told() -> None:
    assert told("hogwild").shares_replica
    assert not told("allreduce").shares_replica


def test_servers_sit_with_workers_in_turn() -> None:
    assert told("ssp(servers=6)").servers == (0, 1, 2, 3, 0, 1)
    assert told("allreduce").servers == ()


def test_a_topology_tells_how_many_others_a_worker_talks_to() -> None:
    assert told("gossip(topology=star)").num_partners == (1, 3)
    assert told("gossip(topology=ring)").num_partners == (2, 2)
    assert told("allreduce").num_partners is None


def test_every_collective_has_its_price_for_all_buckets() -> None:
    explanation = told("allreduce", collective="tree")
    assert explanation.collective == "tree"
    assert explanation.prices_s == prices_s([1000, 500], Ground((4,), LINK, LINK))
    assert explanation.link == LINK


def test_a_model_is_cut_into_buckets_of_about_the_same_size() -> None:
    assert cut(10, 4) == (3, 3, 4)
    assert cut(8, 4) == (4, 4)
    assert cut(3, 4) == (3,)
    assert cut(0, 4) == (0,)


def test_who_sums_is_said() -> None:
    assert native("shm", 1) == "summed in shared memory, where the gradients lie"
    assert native("shm", 2) == "summed in the shared memory of each host, then between the first workers of all hosts"
    assert native("tcp", 1) == "summed over sockets, piece by piece, between where the gradients and the sums lie"
    assert native("torch", 2) == "summed by torch.distributed (gloo)"
    assert native("torch", 1, is_on_gpus=True) == "summed by torch.distributed (nccl), on the GPUs where the models are"

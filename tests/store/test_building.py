"""Stores are built from a strategy and a world, each with what its node needs."""

from contextlib import nullcontext

import numpy as np
import pytest

import weft
from weft.adapters.array_replica import ArrayReplica
from weft.codecs import TopK
from weft.config.compression import Compression, compressed
from weft.core.errors import ConfigError, IllegalAction
from weft.core.names import PARAMS, Bucket, Buffer
from weft.core.rules import SGD
from weft.core.strategy import Strategy
from weft.core.world import World
from weft.store.building import build_store, ghost_stores, slots_of
from weft.store.live import LiveStore
from weft.store.numpy import NumpyStore

WORKER, SERVER = 0, 2
CODED = compressed(weft.StaleSync(), Compression(TopK()), None)


def world_of(strategy: Strategy) -> World:
    return World(strategy.roles(2), (Bucket(3, itemsize=8),), strategy.graph(2))


def replica() -> ArrayReplica:
    return ArrayReplica({"w": np.zeros(3)}, SGD(lr=1.0), None)


def test_a_store_is_of_the_kind_that_is_asked_for_and_gets_its_options() -> None:
    strategy, mine = weft.AllReduce(), replica()
    store = build_store(LiveStore, strategy, world_of(strategy), WORKER, mine, codecs={}, seed=3, script=None)
    assert type(store) is LiveStore
    assert store.replica is mine


@pytest.mark.parametrize("node", [WORKER, SERVER])
def test_a_store_has_the_slots_of_its_nodes_role_and_no_others(node: int) -> None:
    world = world_of(CODED)
    slots = slots_of(CODED, world, node)
    assert slots == [slot.name for slot in CODED.slots(world.role(node), world)] != []
    store = build_store(NumpyStore, CODED, world, node, replica(), codecs=CODED.codecs(), seed=0)
    assert {store.num_bytes(Buffer(slot, 0)) for slot in slots} == {24}
    with pytest.raises(IllegalAction, match="was never declared"):
        store.num_bytes(Buffer("of nobody", 0))


@pytest.mark.parametrize(
    ("strategy", "node", "name", "is_refused"),
    [
        (weft.StaleSync(), WORKER, "ssp", True),
        (weft.StaleSync(), WORKER, None, False),
        (weft.StaleSync(), SERVER, "ssp", False),
        (weft.AllReduce(), WORKER, "allreduce", False),
    ],
    ids=["overwritten", "nameless", "a server's", "kept"],
)
def test_writes_of_a_script_are_refused_where_the_strategy_would_overwrite_them(
    strategy: Strategy, node: int, name: str | None, is_refused: bool
) -> None:
    store = build_store(NumpyStore, strategy, world_of(strategy), node, replica(), codecs={}, seed=0, name=name)
    store.give_params()
    store.replica.array(PARAMS, 0)[:] = 7.0
    store.look_for_writes()
    with pytest.raises(ConfigError, match="ssp") if is_refused else nullcontext() as found:
        store.refuse_writes()
    assert (found is not None) == is_refused


def test_ghosts_know_the_same_buffers_for_all_nodes() -> None:
    world = world_of(CODED)
    stores = ghost_stores(CODED, world)
    assert len(stores) == world.num_nodes
    for node, store in enumerate(stores):
        assert {store.num_bytes(Buffer(slot, 0)) for slot in ("params", *slots_of(CODED, world, node))} == {24}

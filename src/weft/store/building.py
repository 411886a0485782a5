"""Builds the store of a node from its strategy and its world: in a process, in virtual time, and without tensors."""

from collections.abc import Mapping
from typing import Any, TypeVar

from weft.core.names import NodeId, Role
from weft.core.rules import Rule
from weft.core.seat import Replica
from weft.core.strategy import Strategy
from weft.core.world import World
from weft.store.ghost import GhostStore
from weft.store.numpy import NumpyStore

Kind = TypeVar("Kind", bound=NumpyStore)


def slots_of(strategy: Strategy, world: World, node: NodeId) -> list[str]:
    """The names of the slots that a node has besides those that all have."""
    return [slot.name for slot in strategy.slots(world.role(node), world)]


def build_store(
    kind: type[Kind],
    strategy: Strategy,
    world: World,
    node: NodeId,
    replica: Replica,
    *,
    codecs: Mapping[str, Any],
    seed: int,
    name: str | None = None,
    rules: Mapping[str, Rule] | None = None,
    **options: Any,
) -> Kind:
    """The store of one node, of this kind of numpy's, which may take further `options`.

    `codecs` are those that are ready; `seed` is the run's. `name` is what the strategy is called where scripts are
    refused whose writes it would overwrite; None: none is. `rules` stand in for the strategy's own.
    """
    is_server = world.role(node) is Role.SERVER
    return kind(
        replica,
        slots_of(strategy, world, node),
        strategy.rules(world) if rules is None else rules,
        is_server=is_server,
        codecs=codecs,
        seed=(seed, node),
        overwritten_by=None if strategy.keeps_writes or is_server else name,
        **options,
    )


def ghost_store(strategy: Strategy, world: World, node: NodeId) -> GhostStore:
    """The store of one node, without tensors."""
    return GhostStore(world.buckets, slots_of(strategy, world, node), strategy.codecs())


def ghost_stores(strategy: Strategy, world: World) -> list[GhostStore]:
    """Those of all nodes, without tensors."""
    return [ghost_store(strategy, world, node) for node in range(world.num_nodes)]

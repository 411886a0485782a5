"""Whoever leaves, whenever, and in whatever order the others hear of it: those who stay go on and lose nothing."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.simulated.shuffled import Shuffled
from support.simulated.weather import FEW, SEEDS, places

from weft.core.actions import Compute
from weft.core.events import Received
from weft.core.names import Buffer
from weft.core.strategy import Strategy
from weft.fuzz.checks.mixing import takes
from weft.strategies import AsyncGossip, Gossip, GossipGrad, Neighbours, PushSum
from weft.testing.peers import TWO
from weft.topologies import Topology

STEPS = st.lists(st.integers(1, 7), min_size=16, max_size=16)
CRASHES = st.integers(0, 3)
EVERYTHING = {"place": places(most=8), "steps": STEPS, "num_crashes": CRASHES, "seed": SEEDS}


def ran(recipe: Strategy, num_workers: int, steps: list[int], num_crashes: int, seed: int, **options: Any) -> Shuffled:
    """A world that came to its end."""
    world = Shuffled(recipe, steps[:num_workers], seed, num_crashes, **options).run()
    assert world.waiting() == []
    return world


@pytest.mark.parametrize("order", ["overlap", "step_first"])
@FEW
@given(**EVERYTHING)
def test_gossip_goes_on_and_two_who_stay_take_alike_of_each_other(
    order: str, place: tuple[Topology, int], steps: list[int], num_crashes: int, seed: int
) -> None:
    topology, num_workers = place
    recipe = Gossip(topology, order=order)
    world = ran(recipe, num_workers, steps, num_crashes, seed)
    for worker in range(num_workers):
        assert [world.params(worker, b)[0] for b in range(len(TWO))] == pytest.approx([1.0] * len(TWO), abs=1e-9)
    if recipe.graph(num_workers).is_undirected and not world.nodes[0].peer._by_samples:
        check_pairs(world)


def check_pairs(world: Shuffled) -> None:
    """Unless one crashed, or never ended the round."""
    lives = [me for _, me, _, _ in world.entries]
    senders = {id(event): event.source for _, _, event, _ in world.entries if isinstance(event, Received)}
    weights = {take[:4]: take.weight for take in takes(world.entries, lives, senders)}
    went_on = {(me, a.step) for _, me, _, actions in world.entries for a in actions if isinstance(a, Compute)}
    for (clock, bucket, taker, giver), weight in weights.items():
        if (giver, clock + 1) in went_on and not world.nodes[taker].has_crashed:
            assert weights.get((clock, bucket, giver, taker)) == pytest.approx(weight)


def payload(lost: Any) -> Any:
    """What a message that was lost carried."""
    return lost.payload


@FEW
@given(
    num_workers=st.integers(1, 8),
    schedule=st.sampled_from(["dissemination", "hypercube"]),
    steps=STEPS,
    num_crashes=CRASHES,
    seed=SEEDS,
)
def test_gossip_grad_goes_on_with_whole_averages(
    num_workers: int, schedule: str, steps: list[int], num_crashes: int, seed: int
) -> None:
    recipe = GossipGrad(schedule if num_workers.bit_count() == 1 else "dissemination")
    world = ran(recipe, num_workers, steps, num_crashes, seed)
    for worker in range(num_workers):
        assert world.params(worker)[0] == pytest.approx(1.0, abs=1e-9)


def mass(world: Shuffled) -> float:
    """The weight of bucket 0 that workers hold or held at their end, that is under way, and that the dead had sent."""
    shares = [message.send for message in [*world.under_way(), *world.dropped] if message.send.kind == "share"]
    live = sum(node.peer.weight[0] for node in world.nodes)
    return float(live + sum(send.weight for send in shares if send.bucket == 0))


@FEW
@given(**EVERYTHING)
def test_push_sum_conserves_its_mass_at_every_moment(
    place: tuple[Topology, int], steps: list[int], num_crashes: int, seed: int
) -> None:
    topology, num_workers = place
    world = ran(PushSum(topology), num_workers, steps, num_crashes, seed, measure=mass)
    assert world.totals == pytest.approx([float(num_workers)] * len(world.totals), rel=1e-9)
    total: Any = sum(node.slots[Buffer("push_sum.mass", 0)] for node in world.nodes)
    total = total + sum(payload(le) for le in world.dropped if le.send.kind == "share" and le.send.bucket == 0)
    assert np.allclose(total, np.sum(world.starts, axis=0), rtol=0.0, atol=1e-9)


@FEW
@given(**EVERYTHING)
def test_async_gossip_conserves_the_total(
    place: tuple[Topology, int], steps: list[int], num_crashes: int, seed: int
) -> None:
    """An answer that went down with its sender was added there, and never subtracted."""
    topology, num_workers = place
    world = ran(AsyncGossip(topology), num_workers, steps, num_crashes, seed)
    total: Any = sum(world.params(worker) for worker in range(num_workers))
    total = total - sum(payload(le) for le in world.dropped if le.send.kind == "answer" and le.send.bucket == 0)
    assert np.allclose(total, np.sum(world.starts, axis=0), rtol=0.0, atol=1e-9)


@pytest.mark.parametrize("wait", ["all", "any"])
@FEW
@given(elect=st.sampled_from([None, 1, 2]), **EVERYTHING)
def test_neighbours_go_on_with_their_elections_and_hear_every_gradient_once(
    wait: str, elect: int | None, place: tuple[Topology, int], steps: list[int], num_crashes: int, seed: int
) -> None:
    topology, num_workers = place
    recipe = Neighbours(topology, wait=wait, elect=elect)
    world = ran(recipe, num_workers, steps, num_crashes, seed, epoch_steps=2)
    heard = [
        (me, event.source, event.clock, event.bucket)
        for _, me, event, _ in world.entries
        if isinstance(event, Received) and event.kind == "gradient"
    ]
    assert len(set(heard)) == len(heard)

"""Partitions hold up what crosses them, and channels break."""

import pytest
from support.peers.puppets import Puppets
from support.simulated.faulty_worlds import LATER, reducing, run, say_step

from weft.core.events import Received, Reduced
from weft.core.names import Bucket
from weft.sim.faults.in_flight import FailableNode
from weft.sim.faults.plan import Partition
from weft.sim.faults.reach import Reach
from weft.store.ghost import GhostStore
from weft.testing.peers import peer_of


def node(id: int) -> FailableNode:
    return FailableNode(id, peer_of(Puppets(), me=id), GhostStore([Bucket(1)], []), None, process=id, view=0)


def test_processes_on_the_same_side_of_a_partition_reach_each_other() -> None:
    reach = Reach()
    reach.cut((1, 2))
    assert not reach.is_cut_off(node(1), node(2))
    assert reach.is_cut_off(node(0), node(1))
    assert reach.is_cut_off(node(1), node(0))
    reach.heal((1, 2))
    assert not reach.is_cut_off(node(0), node(1))


def test_a_channel_breaks_in_one_direction() -> None:
    reach = Reach()
    reach.sever(0, 1)
    assert reach.is_cut_off(node(0), node(1))
    assert not reach.is_cut_off(node(1), node(0))
    reach.mend(0, 1)
    assert not reach.is_cut_off(node(0), node(1))


def test_what_is_held_up_goes_on_in_order_when_it_is_released() -> None:
    reach, done = Reach(), list[str]()
    reach.cut((1,))
    assert reach.is_out_of_reach(1, done.append, "news")
    assert reach.is_split([node(0), node(1)], done.append, "sum")
    assert not reach.is_out_of_reach(0, done.append, "never")
    assert not reach.is_split([node(0), node(2)], done.append, "never")
    reach.heal((1,))
    assert done == []
    reach.release()
    reach.release()
    assert done == ["news", "sum"]


def test_a_partition_holds_messages_and_news_up_until_it_heals() -> None:
    ran = run(say_step(1), *LATER, Partition((1,), 0.15, 0.3))
    clocks = [event.clock for event in ran.events(1, Received)]
    times = ran.peer(1).times(Received)
    assert clocks == list(range(10))
    assert times[1:4] == [pytest.approx(0.45)] * 3


def test_a_reduction_across_a_partition_waits_for_its_end() -> None:
    ran = run(reducing, Partition((1,), 0.15, 0.3))
    times = ran.peer(0).times(Reduced)
    assert times[0] < 0.15
    assert times[1] >= 0.45
    assert len(times) == 10

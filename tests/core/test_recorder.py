"""The trace hash of a run, and its replay."""

import os
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import get_args

import pytest
from support.peers.puppets import Puppet, Puppets

import weft
from weft.core.actions import Action, Compute, Note
from weft.core.events import (
    EpochFinished,
    Event,
    GradientReady,
    MembersChanged,
    PortionAsked,
    Received,
    Reduced,
    Returned,
    Started,
    StepFinished,
    TimerFired,
)
from weft.core.names import Buffer
from weft.core.recorder import FLUSH_AT, Recording, TraceHash, node_rng, replay
from weft.sim.compute import PerSample
from weft.testing.worlds import Ran, simulate_arrays
from weft.topologies import Torus

TESTS = Path(__file__).parents[1]

EVENTS: list[Event] = [
    Started(0),
    GradientReady(0, 0, 8.0),
    StepFinished(0, 8.0, None),
    EpochFinished(0, {}),
    Received(1, "push", 0, 0, None, 1.0, None),
    Returned(1, "push", 0, 0, None, 1.0),
    Reduced(0, Buffer("gradient", 0), 8.0),
    TimerFired("tea"),
    MembersChanged(0, (0, 1), "worker 2 was lost"),
    PortionAsked(0, 8),
]
CHANGED: list[Event] = [
    Started(1),
    GradientReady(1, 0, 8.0),
    GradientReady(0, 1, 8.0),
    StepFinished(1, 8.0, None),
    EpochFinished(1, {}),
    Received(2, "push", 0, 0, None, 1.0, None),
    Received(1, "pull", 0, 0, None, 1.0, None),
    Received(1, "push", 1, 0, None, 1.0, None),
    Received(1, "push", 0, 1, None, 1.0, None),
    Returned(2, "push", 0, 0, None, 1.0),
    Reduced(1, Buffer("gradient", 0), 8.0),
    Reduced(0, Buffer("params", 0), 8.0),
    Reduced(0, Buffer("gradient", 1), 8.0),
    TimerFired("coffee"),
    MembersChanged(1, (0, 1), "worker 2 was lost"),
    MembersChanged(0, (0,), "worker 2 was lost"),
    PortionAsked(1, 8),
    PortionAsked(0, 9),
]


def digest(*entries: tuple[int, int, Event]) -> str:
    trace = TraceHash()
    for now_ns, node, event in entries:
        trace.record(now_ns, node, event, [])
    return trace.hexdigest()


def gossip(seed: int = 0, sigma: float = 0.3) -> Ran:
    strategy = weft.Gossip(topology=Torus())
    return simulate_arrays(strategy, 8, num_steps=4, seed=seed, compute=PerSample([1e-3] * 8, sigma))


def test_a_digest_has_sixteen_hexadecimal_digits() -> None:
    assert len(digest()) == 16
    assert int(digest((0, 0, Started(0))), 16) >= 0


def test_every_kind_of_event_and_every_integer_of_it_counts() -> None:
    assert {type(event) for event in EVENTS} == set(get_args(Event))
    digests = [digest((0, 0, event)) for event in EVENTS + CHANGED]
    assert len(set(digests)) == len(digests)


def test_time_node_and_order_count() -> None:
    a, b = (5, 0, Started(0)), (5, 1, Started(0))
    assert len({digest(a), digest(b), digest((6, 0, Started(0))), digest(a, b), digest(b, a)}) == 5


def test_numbers_that_are_not_whole_do_not_count_so_that_machines_agree() -> None:
    assert digest((0, 0, StepFinished(0, 8.0, 0.1))) == digest((0, 0, StepFinished(0, 8.0, 0.2)))


@pytest.mark.parametrize("num_events", [FLUSH_AT - 1, FLUSH_AT, FLUSH_AT + 1])
def test_looking_at_the_digest_on_the_way_does_not_change_it(num_events: int) -> None:
    watched, plain = TraceHash(), TraceHash()
    for step in range(num_events):
        for trace in (watched, plain):
            trace.record(step, 0, GradientReady(step, 0, 8.0), [])
        if step % 1000 == 0:
            watched.hexdigest()
    assert watched.hexdigest() == watched.hexdigest() == plain.hexdigest()


def test_the_same_seed_repeats_the_trace_and_another_does_not() -> None:
    assert gossip(0).recording.hexdigest() == gossip(0).recording.hexdigest() != gossip(1).recording.hexdigest()


def test_a_recording_has_the_digest_of_a_plain_trace() -> None:
    recording = gossip().recording
    trace = TraceHash()
    for now_ns, node, event, actions in recording.entries:
        trace.record(now_ns, node, event, actions)
    assert trace.hexdigest() == recording.hexdigest()


PROGRAM = """
import weft
from random import Random
from weft.sim.network import RandomDelays
from weft.testing.worlds import simulate_arrays
for strategy in (weft.Gossip(), weft.Neighbours(), weft.StaleSync(), weft.AsyncGossip()):
    ran = simulate_arrays(strategy, 6, num_steps=4, epoch_steps=2, network=RandomDelays(Random(0)))
    print(ran.recording.hexdigest())
"""


def test_the_trace_does_not_depend_on_the_seed_of_pythons_hashes() -> None:
    def run(hash_seed: str) -> "subprocess.Popen[str]":
        path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": path}
        return subprocess.Popen([sys.executable, "-c", PROGRAM], env=environment, stdout=subprocess.PIPE, text=True)

    outputs = [process.communicate(timeout=60)[0].split() for process in [run("1"), run("2")]]
    assert outputs[0] == outputs[1]
    assert len(set(outputs[0])) == 4


def test_a_nodes_random_numbers_are_its_own_and_repeat() -> None:
    drawn = {(seed, node): node_rng(seed, node).random() for seed in range(3) for node in range(3)}
    assert len(set(drawn.values())) == 9
    assert node_rng(1, 2).random() == drawn[1, 2] == Random("peer/1/2").random()


@pytest.mark.parametrize("strategy", [weft.StaleSync(staleness=3), weft.AsyncGossip()], ids=repr)
def test_a_replay_into_fresh_peers_gives_the_same_actions(strategy: weft.StaleSync) -> None:
    ran = simulate_arrays(strategy, 4, num_steps=5, samples=[1, 2, 3, 4], seed=7)
    assert len(ran.recording.entries) == ran.facts.num_events
    assert replay(ran.recording, strategy, ran.world, seed=7) == []


def test_a_replay_with_other_random_numbers_differs() -> None:
    ran = simulate_arrays(weft.AsyncGossip(), 4, num_steps=5, seed=7)
    assert replay(ran.recording, weft.AsyncGossip(), ran.world, seed=8)


def test_a_replay_says_where_an_altered_peer_answers_differently() -> None:
    def altered(peer: Puppet, event: Event) -> list[Action] | None:
        return [Note("altered", 1.0), Compute(2)] if event == StepFinished(1, 1.0, None) and peer.me == 1 else None

    ran = simulate_arrays(Puppets(), 2, num_steps=3)
    changed_at = [e[1:3] for e in ran.recording.entries].index((1, StepFinished(1, 1.0, None)))
    assert replay(ran.recording, Puppets(altered), ran.world, seed=0) == [
        f"entry {changed_at}: worker 1 answered StepFinished(step=1, samples=1.0, loss=None) with "
        "[Note(name='altered', value=1.0), Compute(step=2, portion=None)], not [Compute(step=2, portion=None)]"
    ]


def test_a_recording_keeps_time_node_event_and_actions() -> None:
    recording = Recording()
    recording.record(5, 1, Started(0), [Compute(0)])
    assert recording.entries == [(5, 1, Started(0), [Compute(0)])]

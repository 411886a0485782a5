"""The thirteen rules of the vocabulary of docs/architecture.md, each by its number."""

import ast
import json
import pickle
from collections.abc import Generator, Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from support.peers.puppets import Answer, Puppet, Puppets

import weft
from weft.adapters.array_replica import ArrayReplica
from weft.config.registry import COLLECTIVES, STRATEGIES, lowered
from weft.core.actions import MEAN, Action, Apply, Combine, Compute, Reduce, Send, SetTimer, copy, rescale
from weft.core.events import Event, GradientReady, Received, Reduced, Started, StepFinished, TimerFired
from weft.core.names import Buffer
from weft.core.peer import Peer
from weft.core.recorder import node_rng, replay
from weft.core.strategy import Strategy
from weft.sim.compute import PerSample
from weft.sim.network import RandomDelays
from weft.sim.program import BackwardDone, Request, StepDone
from weft.testing.worlds import Arrays, Ran, simulate_arrays

PURE_ROOMS = ("core", "topologies", "strategies", "collectives", "cost")
HARMLESS = {
    *("array", "collections", "dataclasses", "difflib", "enum", "functools", "hashlib", "itertools"),
    *("math", "operator", "random", "re", "textwrap", "typing", "zlib"),
}
PARAMS, GRADIENT, INBOX, MINE = (Buffer(slot, 0) for slot in ("params", "gradient", "inbox", "mine"))


def imports(room: str) -> Iterator[tuple[str, str, str]]:
    """(file, module, name) of everything that the files of a room import; a module as a whole has no name."""
    for path in sorted((Path(weft.__file__).parent / room).glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                yield from ((path.name, alias.name, "") for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield from ((path.name, node.module or "", alias.name) for alias in node.names)


def calls(room: str) -> set[str]:
    """The plain names of all functions that the files of a room call."""
    trees = [ast.parse(path.read_text()) for path in (Path(weft.__file__).parent / room).glob("*.py")]
    found = [node.func for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return {function.id for function in found if isinstance(function, ast.Name)}


def trained(strategy: Strategy, num_steps: int = 8) -> Ran:
    """Four unequal workers over two buckets, with reports."""
    starts: list[Arrays] = [{"a": np.zeros(5), "b": np.ones(3, np.float32)}] * 4
    return simulate_arrays(
        strategy,
        4,
        lambda worker, step, w: {name: value - worker for name, value in w.items()},
        num_steps=num_steps,
        samples=[1, 2, 0, 3],
        starts=starts,
        epoch_steps=2,
        report=lambda worker, epoch, w: {"loss": worker - epoch},
        network=RandomDelays(Random(1)),
    )


EVERY_STRATEGY = pytest.mark.parametrize(
    "strategy",
    [*(kind() for kind in STRATEGIES.values()), *(lowered(weft.AllReduce(), name) for name in COLLECTIVES)],
    ids=[*STRATEGIES, *COLLECTIVES],
)


def run(answer: Answer, starts: tuple[float, ...] = (1.0, 2.0), **options: Any) -> Ran:
    """Puppets with one number each; their gradient is their rank plus one."""
    options.setdefault("gradient", lambda worker, step, w: np.full(1, worker + 1.0))
    strategy = Puppets(answer, slot_names=("mine",))
    return simulate_arrays(strategy, len(starts), starts=[np.array([x]) for x in starts], **options)


# 1. Control plane only.


@pytest.mark.parametrize("room", ["core", "strategies", "collectives", "cost"])
def test_rule_1_rooms_that_hold_protocols_import_no_tensors(room: str) -> None:
    modules = {module.split(".")[0] for _, module, _ in imports(room)}
    assert modules
    assert not modules & {"numpy", "torch", "jax"}


@EVERY_STRATEGY
def test_rule_1_peers_hold_plain_data_only_at_every_moment_of_a_run(strategy: Strategy) -> None:
    ran = trained(strategy)
    peers: dict[int, Peer] = {}
    for now_ns, node, event, _ in ran.recording.entries:
        peer = peers.setdefault(node, strategy.peer(node, ran.world, node_rng(0, node)))
        peer.handle(event, now_ns / 1e9)
        snapshot = peer.snapshot()
        assert json.loads(json.dumps(snapshot)) == snapshot
    assert all(b"numpy" not in pickle.dumps(peer) for peer in peers.values())


# 2. Facts in, commands out.


@pytest.mark.parametrize("room", PURE_ROOMS)
def test_rule_2_rooms_that_hold_protocols_use_nothing_with_effects_nor_random_numbers_of_the_process(room: str) -> None:
    known = HARMLESS | {"weft"} | ({"numpy"} if room == "topologies" else set())
    assert [found for found in imports(room) if found[1].split(".")[0] not in known] == []
    assert {name for _, module, name in imports(room) if module == "random"} <= {"Random"}
    assert not calls(room) & {"print", "open", "input", "exec", "eval", "id"}


@EVERY_STRATEGY
def test_rule_2_the_same_facts_times_and_random_numbers_give_the_same_commands(strategy: Strategy) -> None:
    ran = trained(strategy)
    assert replay(ran.recording, strategy, ran.world, seed=0) == []


# 3. An event promises values, not instants.


def test_rule_3_what_is_emitted_at_reduced_sees_the_reduced_value() -> None:
    def answer(peer: Puppet, event: Event) -> list[Action] | None:
        if isinstance(event, GradientReady):
            return [Reduce((0, 1), "value", 0, GRADIENT, MEAN, 1.0)]
        return [copy(PARAMS, GRADIENT)] if isinstance(event, Reduced) else None

    assert run(answer).params == [[[1.5]], [[1.5]]]


# 4. Value semantics.


def test_rule_4_a_value_sent_and_then_overwritten_arrives_as_it_was_sent() -> None:
    def answer(peer: Puppet, event: Event) -> list[Action] | None:
        if isinstance(event, StepFinished) and peer.me == 0:
            return [Send(1, "value", 0, 0, PARAMS), rescale(PARAMS, 100.0), Send(1, "value", 1, 0, PARAMS), Compute(1)]
        return [Combine(PARAMS, 10.0, INBOX)] if isinstance(event, Received) else None

    assert run(answer).params == [[[100.0]], [[2.0 * 100 + 1.0 * 10 + 100.0]]]


def test_rule_4_a_gradient_that_the_next_compute_overwrites_arrives_as_it_was_sent() -> None:
    def answer(peer: Puppet, event: Event) -> list[Action] | None:
        if isinstance(event, StepFinished) and peer.me == 0:
            return [Send(1, "value", event.step, 0, GRADIENT), Compute(event.step + 1)]
        return [Combine(PARAMS, 10.0, INBOX)] if isinstance(event, Received) else None

    ran = run(answer, (0.0, 0.0), gradient=lambda worker, step, w: np.full(1, step + 1.0), num_steps=3)
    assert ran.params[1] == [[123.0]]


# 5. A received body lives until the actions answering its event are done.


@pytest.mark.parametrize("action", [copy(PARAMS, INBOX), Send(0, "value", 0, 0, INBOX), Apply(INBOX, PARAMS)])
def test_rule_5_a_body_named_after_its_event_was_answered_is_illegal(action: Action) -> None:
    def answer(peer: Puppet, event: Event) -> list[Action] | None:
        if isinstance(event, StepFinished) and peer.me == 0:
            return [Send(1, "value", 0, 0, PARAMS), Compute(1)]
        if isinstance(event, Received):
            return [copy(MINE, INBOX), SetTimer("late", peer.now)] if peer.me == 1 else []
        return [action] if isinstance(event, TimerFired) else None

    with pytest.raises(weft.IllegalAction, match=r"^inbox was named, but the event being answered has no body.\n"):
        run(answer)


def test_rule_5_a_body_may_be_passed_on_but_not_written_to() -> None:
    def answer(peer: Puppet, event: Event) -> list[Action] | None:
        if isinstance(event, StepFinished) and peer.me == 0:
            return [Send(1, "value", 0, 0, PARAMS), rescale(PARAMS, 0.0), Compute(1)]
        if isinstance(event, Received):
            return [Send(0, "value", 1, 0, INBOX)] if peer.me == 1 else [copy(PARAMS, INBOX), rescale(INBOX, 2.0)]
        return None

    with pytest.raises(weft.IllegalAction, match=r"was written to, but a received body belongs to its sender.\n"):
        run(answer)


# 6. Per node, actions run in emitted order.


@pytest.mark.parametrize(("old_first", "answered"), [(True, 2.0), (False, 1.5)])
def test_rule_6_answering_with_the_old_value_and_then_mixing_is_two_actions(old_first: bool, answered: float) -> None:
    def answer(peer: Puppet, event: Event) -> list[Action] | None:
        if isinstance(event, StepFinished) and peer.me == 0:
            return [Send(1, "value", 0, 0, PARAMS), Compute(1)]
        if isinstance(event, Received) and peer.me == 1:
            actions: list[Action] = [Send(0, "value", 1, 0, PARAMS), Combine(PARAMS, 0.5, INBOX, 0.5)]
            return actions if old_first else actions[::-1]
        return [copy(PARAMS, INBOX)] if isinstance(event, Received) else None

    assert run(answer).params == [[[answered]], [[1.5]]]


def test_rule_6_an_update_emitted_twice_is_done_twice() -> None:
    def answer(peer: Puppet, event: Event) -> list[Action] | None:
        if isinstance(event, StepFinished):
            return [Apply(GRADIENT, PARAMS), Apply(GRADIENT, PARAMS), Compute(1)]
        return None

    assert run(answer, (0.0,), rule=weft.Momentum(lr=1.0, momentum=0.5)).params == [[[-1.0 - 1.5]]]


# 7. Closed vocabulary.


def test_rule_7_an_unknown_event_is_refused_by_every_peer() -> None:
    ran = run(lambda peer, event: None)
    with pytest.raises(weft.IllegalAction, match=r"^42 is not an event; the vocabulary of core/events.py is closed.$"):
        ran.peer(0).handle(42, 0.0)


def test_rule_7_an_unknown_action_is_refused_by_the_driver() -> None:
    message = r"^'dance' is not an action; the vocabulary of core/actions.py is closed.\n  the last that worker 0 saw"
    with pytest.raises(weft.IllegalAction, match=message):
        run(lambda peer, event: ["dance"])  # type: ignore[list-item]


# 8. Orthogonal axes.


@pytest.mark.parametrize("room", PURE_ROOMS)
def test_rule_8_protocols_know_no_codec_transport_framework_or_engine(room: str) -> None:
    known = {module.split(".")[1] for _, module, _ in imports(room) if module.startswith("weft.")}
    assert known <= {"core", room} | ({"topologies"} if room == "strategies" else set())


@EVERY_STRATEGY
def test_rule_8_every_message_and_reduction_is_of_a_kind_that_says_what_it_carries(strategy: Strategy) -> None:
    spoken = {
        action.kind
        for _, _, _, actions in trained(strategy, num_steps=100).recording.entries
        for action in actions
        if isinstance(action, Send | Reduce)
    }
    assert bool(spoken) == bool(strategy.kinds()), "only who declares nothing says nothing"
    assert spoken <= set(strategy.kinds())


def test_rule_8_a_message_of_an_undeclared_kind_is_illegal() -> None:
    with pytest.raises(weft.IllegalAction, match=r"kind='gossip'.* declared kind \(push, value, welcome, word\)"):
        run(lambda peer, event: [Send(0, "gossip", 0, 0)])


# 9. Always weighted.


@pytest.mark.parametrize(
    ("weights", "mean"), [((1.0, 3.0), 1.75), ((0.0, 3.0), 2.0), ((5.0, 0.0), 1.0), ((0.5, 0.5), 1.5)]
)
def test_rule_9_a_mean_divides_by_the_weights_that_are_present(weights: tuple[float, float], mean: float) -> None:
    ran = simulate_arrays(
        weft.AllReduce(), 2, lambda worker, step, w: np.full(1, worker + 1.0), samples=weights, rule=weft.SGD(lr=1.0)
    )
    assert ran.params == [[[-mean]], [[-mean]]]


def test_rule_9_when_nobody_has_a_sample_the_buffer_is_unchanged_and_the_weight_is_zero() -> None:
    def answer(peer: Puppet, event: Event) -> list[Action] | None:
        reduce = Reduce((0, 1), "value", 0, PARAMS, MEAN, 0.0)
        return [reduce] if isinstance(event, GradientReady) else None

    ran = run(answer)
    assert ran.params == [[[1.0]], [[2.0]]]
    assert ran.peer(1).seen(Reduced) == [Reduced(0, PARAMS, 0.0)]


# 10. Channels are FIFO per (source, target).


@pytest.mark.parametrize("seed", [None, 0, 1, 2])
def test_rule_10_messages_from_one_node_to_another_arrive_in_the_order_sent(seed: int | None) -> None:
    def answer(peer: Puppet, event: Event) -> list[Action] | None:
        if isinstance(event, Started):
            sends = [Send(to, "value", clock, 0, PARAMS if clock % 3 else None) for clock in range(30) for to in (2, 3)]
            return [*sends, Compute(0)]
        return None

    network = None if seed is None else RandomDelays(Random(seed))
    ran = run(answer, (1.0,) * 4, network=network)
    for target in (2, 3):
        events = ran.peer(target).seen(Received)
        assert len(events) == 4 * 30
        assert all([e.clock for e in events if e.source == source] == list(range(30)) for source in range(4))


# 11. Backward and step.


@pytest.mark.parametrize(
    ("strategy", "after_backward"), [(weft.AllReduce(), {1.5}), (weft.ParameterServer(), {1.0, 2.0})]
)
def test_rule_11_the_user_sees_the_gradient_between_backward_and_step_and_edits_to_it_count(
    strategy: Strategy, after_backward: set[float]
) -> None:
    seen: set[float] = set()

    def clipping(rank: int, replica: ArrayReplica) -> Generator[Request, None, None]:
        replica.take({"w": np.full(1, rank + 1.0)})
        yield BackwardDone(1.0)
        seen.add(float(replica.array("gradient", 0)[0]))
        replica.array("gradient", 0)[:] *= 0.5
        yield StepDone(1.0, None)

    ran = simulate_arrays(strategy, 2, script=clipping, rule=weft.SGD(lr=1.0))
    assert seen == after_backward
    assert ran.result == [[-0.75]]


@pytest.mark.parametrize("moment", [Started, GradientReady])
def test_rule_11_applying_the_gradient_before_the_step_finished_is_illegal(moment: type) -> None:
    def answer(peer: Puppet, event: Event) -> list[Action] | None:
        return [Apply(GRADIENT, PARAMS), Compute(0)] if isinstance(event, moment) else None

    rule = r"the user may still edit the gradient \(rule 11 of docs/architecture.md\).\n"
    message = rf"^Apply\(.*\) came before StepFinished; {rule}"
    with pytest.raises(weft.IllegalAction, match=message):
        run(answer)


# 12. A Reduce overtaken by MembersChanged never happened: inputs stay whole until Reduced.


@pytest.mark.parametrize("collective", [None, *COLLECTIVES])
def test_rule_12_the_local_contribution_stands_until_the_result_is_there(collective: str | None) -> None:
    replicas: dict[int, ArrayReplica] = {}
    before: set[tuple[int, float]] = set()
    after: set[tuple[int, float]] = set()

    def script(rank: int, replica: ArrayReplica) -> Generator[Request, None, None]:
        replicas[rank] = replica
        yield BackwardDone(1.0)

    def answer(peer: Puppet, event: Event) -> list[Action] | None:
        if isinstance(event, GradientReady):
            return [Reduce((0, 1, 2, 3), "value", 0, PARAMS, MEAN, 1.0), SetTimer("look", peer.now)]
        if isinstance(event, TimerFired):
            is_over = bool(peer.seen(Reduced))
            (after if is_over else before).add((peer.me, float(replicas[peer.me].array("params", 0)[0])))
            return [] if is_over else [SetTimer("look", peer.now + 1e-4)]
        return None

    strategy: Strategy = Puppets(answer)
    strategy = strategy if collective is None else lowered(strategy, collective)
    slow = PerSample([0.01, 0.02, 0.03, 0.04])
    simulate_arrays(strategy, 4, starts=[np.array([x]) for x in (1.0, 2.0, 3.0, 6.0)], script=script, compute=slow)
    assert {(0, 1.0), (1, 2.0), (2, 3.0)} <= before <= {(0, 1.0), (1, 2.0), (2, 3.0), (3, 6.0)}
    assert after == {(worker, 3.0) for worker in range(4)}


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_rule_12_a_lowered_reduce_works_in_a_slot_of_its_own(collective: str) -> None:
    ran = trained(lowered(weft.AllReduce(), collective))
    written = [
        (event, action.into.slot)
        for _, _, event, actions in ran.recording.entries
        for action in actions
        if isinstance(action, Combine)
    ]
    results = [event for event, slot in written if slot == "gradient"]
    assert {slot.split(".")[0] for _, slot in written} == {collective, "gradient"}
    assert len(results) == 4 * 2 * 8, "one write for each worker, bucket and step: the result"


# 13. Compute reads `params` as of its emission.


def test_rule_13_what_is_written_after_compute_is_seen_by_the_next_compute_only() -> None:
    seen: list[float] = []

    def gradient(worker: int, step: int, w: np.ndarray) -> np.ndarray:
        seen.append(float(w[0]))
        return w.copy()

    def answer(peer: Puppet, event: Event) -> list[Action] | None:
        if isinstance(event, Started):
            return [SetTimer("meanwhile", 5e-3), Compute(0)]
        if isinstance(event, TimerFired):
            return [rescale(PARAMS, 10.0)]
        if isinstance(event, StepFinished):
            return [Combine(MINE, 1000.0, GRADIENT), copy(PARAMS, MINE), Compute(event.step + 1)]
        return None

    run(answer, (1.0,), gradient=gradient, num_steps=3)
    assert seen == [1.0, 1.0, 1001.0]

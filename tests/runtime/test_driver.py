"""The driver keeps the rules of the vocabulary: values, order, and what a running script may see."""

import time
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
from support.network.loopback import Processes
from support.peers.puppets import Puppet, Puppets

from weft.core.actions import Action, Apply, Combine, Compute, Note, Reduce, Send, SetTimer, Stop, add, copy
from weft.core.errors import IllegalAction, IllegalCall
from weft.core.events import Event, GradientReady, Received, Started, StepFinished, TimerFired
from weft.core.names import Bucket, Buffer
from weft.core.recorder import Recording, replay
from weft.core.script_state import (
    ENDED,
    EVALUATING,
    HEARD,
    IN_REPORT,
    IN_STEP,
    REPORT,
    REPORTING,
    RESUME,
    RUNNING,
    STEP,
    refusal,
)
from weft.runtime.driver import MAIL_EVERY_S, Wanted

BUCKETS = (Bucket(4), Bucket(6, 8))
P0, G0, IN0 = Buffer("params", 0), Buffer("gradient", 0), Buffer("inbox", 0)


def processes(
    answer: Callable[[Puppet, Event], list[Action] | None], num_workers: int = 2, **options: Any
) -> Processes:
    return Processes(Puppets(answer, **options), num_workers, BUCKETS)


def params(world: Processes, node: int) -> np.ndarray:
    return world.stores[node].replica.array("params", 0)


def test_a_message_carries_the_value_of_its_moment_and_actions_run_in_order() -> None:
    def answer(peer: Puppet, event: Event) -> list[Action] | None:
        if isinstance(event, Started) and peer.me == 0:
            return [Send(1, "value", 0, 0, P0), Combine(P0, 2.0), Send(1, "value", 1, 0, P0), Compute(0)]
        if isinstance(event, Received):
            return [add(P0, IN0)] if event.clock else [copy(P0, IN0)]
        return None

    world = processes(answer)
    params(world, 0)[:] = 1.0
    world.start()
    params(world, 0)[:] = 100.0
    world.settle()
    assert np.array_equal(params(world, 1), np.full(4, 3.0))


def test_what_comes_while_the_script_runs_is_seen_by_its_next_iteration_only() -> None:
    def answer(peer: Puppet, event: Event) -> list[Action] | None:
        if isinstance(event, Received):
            return [copy(P0, IN0), Send(event.source, "word", 0, 0)]
        return None

    world = processes(answer)
    params(world, 1)[:] = 7.0
    world.start()
    world.stores[0].script.call(RESUME)
    world.drivers[1]._perform(world.drivers[1].worker, [Send(0, "value", 0, 0, P0)], 0)
    world.drivers[0].progress()
    assert np.array_equal(params(world, 0), np.zeros(4)), "the script reads what it began with"
    assert np.array_equal(world.stores[0].lend(P0), np.full(4, 7.0)), "protocols go on with the new value"
    with world.drivers[0].script_waits(STEP):
        assert np.array_equal(params(world, 0), np.full(4, 7.0))
    assert np.array_equal(params(world, 0), np.full(4, 7.0))


def test_an_update_by_the_users_optimizer_waits_until_the_script_does_and_keeps_its_place() -> None:
    def answer(peer: Puppet, event: Event) -> list[Action] | None:
        if isinstance(event, Received):
            return [Apply(IN0, P0), Combine(P0, 10.0)] if event.kind == "push" else [add(P0, IN0)]
        return None

    world = processes(answer)
    world.start()
    sender, (mine, theirs) = world.drivers[1], world.drivers
    assert sender is theirs
    params(world, 1)[:] = 1.0
    mine.worker.script.call(RESUME)
    sender._perform(sender.worker, [Send(0, "push", 0, 0, P0), Send(0, "value", 1, 0, P0)], 0)
    mine.progress()
    assert np.array_equal(world.stores[0].lend(P0), np.zeros(4))
    assert len(mine.worker.put_off) == 2
    with mine.script_waits(STEP):
        assert np.array_equal(params(world, 0), np.full(4, -9.0)), "(0 - 1) * 10, then + 1"
    assert not mine.worker.put_off


def test_what_was_put_off_is_done_when_the_script_ends_and_nothing_is_put_off_any_more() -> None:
    push: list[Action] = [Apply(IN0, P0)]
    world = processes(lambda peer, event: push if isinstance(event, Received) else None)
    world.start()
    mine, sender = world.drivers
    params(world, 1)[:] = 1.0
    mine.worker.script.call(RESUME)
    for expected in (-1.0, -2.0):
        sender._perform(sender.worker, [Send(0, "push", 0, 0, P0)], 0)
        mine.progress()
        if mine.worker.script.at is RUNNING:
            mine.end_script()
        assert np.array_equal(params(world, 0), np.full(4, expected))
    assert mine.worker.script.at is ENDED


def test_a_script_waits_in_its_call_and_goes_on_where_the_call_leads() -> None:
    (driver,) = processes(lambda peer, event: None, 1).drivers
    driver.worker.script.call(RESUME)
    with driver.script_waits(REPORT, HEARD, refuses_writes=False) as node:
        assert (node, node.script.at) == (driver.worker, IN_REPORT)
    assert node.script.at is REPORTING


def test_a_call_that_fails_lets_the_script_go_on_where_it_was() -> None:
    (driver,) = processes(lambda peer, event: None, 1).drivers
    driver.worker.script.call(RESUME)
    with pytest.raises(ZeroDivisionError), driver.script_waits(STEP):
        raise ZeroDivisionError
    assert driver.worker.script.at is RUNNING


def test_a_call_where_the_script_may_not_call_is_refused_and_leaves_it_there() -> None:
    (driver,) = processes(lambda peer, event: None, 1).drivers
    driver.worker.script.at = EVALUATING
    with pytest.raises(IllegalCall) as refused, driver.script_waits(REPORT):
        raise AssertionError("it waits")
    assert str(refused.value) == str(refusal(EVALUATING, REPORT))
    assert driver.worker.script.at is EVALUATING


def test_a_portion_goes_to_the_share_that_asked_for_one() -> None:
    (driver,) = processes(lambda peer, event: None, 1).drivers
    wanted = driver.worker.wanted = Wanted()
    driver._perform(driver.worker, [Compute(0, 3)], 0)
    assert (wanted.portion, driver.worker.wanted, driver.worker.computes) == (3, None, 0)


def test_messages_between_nodes_of_one_process_take_no_wire_and_carry_values_too() -> None:
    def answer(peer: Puppet, event: Event) -> list[Action] | None:
        if isinstance(event, Started) and peer.me == 0:
            return [Send(2, "value", 0, 0, P0), Combine(P0, 0.0), Compute(0)]
        if isinstance(event, Received) and peer.me == 2:
            return [copy(P0, IN0)]
        return None

    world = processes(answer, num_servers=1)
    params(world, 0)[:] = 5.0
    world.start()
    world.settle()
    assert np.array_equal(params(world, 2), np.full(4, 5.0))
    assert [mailbox.transport.bytes_sent for mailbox in world.posts] == [0, 0]


def test_a_timer_fires_once_when_due_and_setting_it_again_moves_it() -> None:
    fired = []

    def answer(peer: Puppet, event: Event) -> list[Action] | None:
        if isinstance(event, Started):
            return [SetTimer("late", 1e9), SetTimer("soon", 1e9), SetTimer("soon", 0.0), Compute(0)]
        if isinstance(event, TimerFired):
            fired.append((peer.me, event.name))
            return []
        return None

    world = processes(answer, 1)
    world.start()
    world.settle()
    assert fired == [(0, "soon")]
    due_s = world.drivers[0].next_due_s
    assert due_s is not None
    assert due_s > 1e8


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ([Compute(0), Note("late", 1.0)], "must be the last action of its answer"),
        ([Compute(0, 3)], "names a portion, but no share of worker 0 asked for one"),
        ([Send(1, "secret", 0, 0)], "is not of a declared kind"),
        ([Send(9, "word", 0, 0)], r"goes to a node that is not of the world \(0 to 1\)"),
        ([Apply(G0, P0)], "came before StepFinished"),
        ([Reduce((0, 1), "value", 0, P0, "mean", 1.0)], "cannot be performed natively here"),
        ([Combine(Buffer("moon", 0), 1.0)], "slot 'moon' was never declared"),
    ],
)
def test_illegal_actions_are_refused_with_the_story_of_their_node(actions: list[Action], message: str) -> None:
    world = processes(lambda peer, event: actions if isinstance(event, Started) and peer.me == 0 else None)
    with pytest.raises(IllegalAction, match=message) as refused:
        world.start()
    assert "worker 0" in refused.value.story


def test_an_update_that_workers_share_runs_as_a_part_of_theirs() -> None:
    told: list[list[float]] = []

    class Shared:
        def update(self, apply: Callable[[], None]) -> None:
            told.append(params(world, 0).tolist())
            apply()
            told.append(params(world, 0).tolist())

    world = processes(lambda peer, event: [Apply(G0, P0)] if isinstance(event, StepFinished) else None, 1)
    world.start()
    driver = world.drivers[0]
    driver.shared_params = Shared()  # type: ignore[assignment]
    driver.worker.script.at = IN_STEP
    world.stores[0].replica.array("gradient", 0)[:] = 2.0
    driver.deliver(driver.worker, StepFinished(0, 1.0, None))
    assert told == [[0.0] * 4, [-2.0] * 4]


class Words:
    """A native reduction that waits for words of shared memory until the test sets them."""

    def __init__(self) -> None:
        self.are_set = False

    def progress(self, deliver: Callable[[Any], None]) -> bool:
        return self.are_set

    def may_move(self) -> bool:
        return self.are_set


def test_who_hurries_while_a_reduction_waits_for_words_looks_for_messages_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver, words, polls, now_s = processes(lambda peer, event: None).drivers[0], Words(), list[int](), [100.0]
    driver.reduce = cast("Any", words)
    monkeypatch.setattr(time, "perf_counter", lambda: now_s[0])
    monkeypatch.setattr(driver._mailbox, "poll", lambda: bool(polls.append(1)))
    assert not driver.hurry()
    assert not driver.hurry()
    assert len(polls) == 1, "of two looks at once, the first is for messages, too"
    assert not driver.may_move()
    driver.progress()
    assert len(polls) == 2, "before a sleep, messages are looked for however lately that was"
    words.are_set = True
    assert driver.may_move()
    assert driver.hurry()
    assert len(polls) == 2
    now_s[0] += 2 * MAIL_EVERY_S
    words.are_set = False
    assert driver.may_move(), "messages are due"
    assert not driver.hurry()
    assert len(polls) == 3
    driver.reduce = None
    assert driver.may_move(), "it waits for messages alone"
    driver.hurry()
    assert len(polls) == 4


def test_notes_are_counted_and_stop_is_remembered() -> None:
    def answer(peer: Puppet, event: Event) -> list[Action] | None:
        return [Note("staleness", 1.0), Note("staleness", 3.0), Stop("enough")] if isinstance(event, Started) else None

    world = processes(answer, 1)
    world.start()
    assert world.drivers[0].notes == {"staleness": [2, 4.0, 3.0]}
    assert world.drivers[0].ages == {1: 1, 3: 1}
    assert world.drivers[0].stopped_because == "enough"


def test_a_recorded_run_can_be_replayed_into_fresh_peers() -> None:
    recording = Recording()
    strategy = Puppets()
    world = Processes(strategy, 2, BUCKETS, recording)
    world.start()
    driver = world.drivers[0]
    driver.deliver(driver.worker, GradientReady(0, 0, 4.0))
    driver.deliver(driver.worker, StepFinished(0, 4.0, 0.5))
    assert driver.worker.computes == 1
    assert len(recording.entries) == 4
    assert replay(recording, strategy, world.world, 0) == []


def test_a_driver_is_idle_when_no_message_waits_between_its_nodes_and_nothing_is_put_off() -> None:
    push: list[Action] = [Apply(IN0, P0)]
    world = processes(lambda peer, event: push if isinstance(event, Received) else None, 2, num_servers=1)
    world.start()
    mine, sender = world.drivers
    assert mine.is_idle
    mine._perform(mine.worker, [Send(2, "word", 0, 0)], 0)
    assert not mine.is_idle, "its server has not received it yet"
    mine.nodes[2].peer._answer = lambda peer, event: []
    mine.progress()
    assert mine.is_idle
    mine.worker.script.call(RESUME)
    sender._perform(sender.worker, [Send(0, "push", 0, 0, P0)], 0)
    mine.progress()
    assert not mine.is_idle, "the update waits for the script"
    with mine.script_waits(STEP):
        assert mine.is_idle


def test_what_a_newcomer_is_given_of_parameters_that_all_share_is_not_copied() -> None:
    buckets = (Bucket(4), Bucket(4, trainable=False))
    copies = [
        copy(Buffer(slot, bucket), Buffer("inbox", bucket)) for slot in ("params", "gradient") for bucket in (0, 1)
    ]

    def answer(peer: Puppet, event: Event) -> list[Action] | None:
        if isinstance(event, Received):
            return [action for action in copies if action.into.bucket == event.bucket]
        return None

    world = Processes(Puppets(answer), 2, buckets)
    world.start()
    newcomer, sponsor = world.drivers
    for bucket in (0, 1):
        world.stores[1].replica.array("params", bucket)[:] = 3.0
    newcomer.shared_params = object()  # type: ignore[assignment]
    sponsor._perform(sponsor.worker, [Send(0, "value", 0, bucket, Buffer("params", bucket)) for bucket in (0, 1)], 0)
    world.settle()
    got = {
        (slot, b): float(world.stores[0].replica.array(slot, b)[0]) for slot in ("params", "gradient") for b in (0, 1)
    }
    assert got == {("params", 0): 0.0, ("params", 1): 3.0, ("gradient", 0): 3.0, ("gradient", 1): 3.0}
    newcomer.shared_params = None
    sponsor._perform(sponsor.worker, [Send(0, "value", 1, 0, P0)], 0)
    world.settle()
    assert params(world, 0).tolist() == [3.0] * 4, "a worker with parameters of its own copies them"

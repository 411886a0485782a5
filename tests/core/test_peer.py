"""One node's share of a strategy: told facts, answering with commands."""

import json
from dataclasses import dataclass, replace
from random import Random
from typing import Any, get_args

import pytest

from weft.core.actions import MEAN, Compute, Note, Reduce, Send, copy
from weft.core.errors import IllegalAction, UnexpectedMessage
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
from weft.core.names import PARAMS, WELCOME, Bucket, Buffer, Roles
from weft.core.peer import HANDLERS, Actions, Peer
from weft.core.world import World

WORLD = World(Roles(2, 1), (Bucket(4), Bucket(2)))
G0, G1 = WORLD.gradient
INBOX = Buffer("inbox", 0)

ONE_OF_EACH: list[Event] = [
    Started(0),
    GradientReady(0, 0, 8.0),
    StepFinished(0, 8.0, None),
    PortionAsked(0, 4),
    EpochFinished(0, {}),
    Received(1, "push", 0, 0, None, 1.0, None),
    Returned(1, "push", 0, 0, None, 1.0),
    Reduced(0, G0, 8.0),
    TimerFired("tea"),
    MembersChanged(1, (0,), "worker 1 was lost"),
]


class Quiet(Peer):
    """Overrides nothing."""


class Echo(Peer):
    """Notes the name of the handler that was called."""


for _name in HANDLERS.values():
    setattr(Echo, _name, lambda self, event, name=_name: [Note(name, self.now)])
Echo.__init_subclass__()


class Loud(Echo):
    """Has a table made after Echo's handlers were set."""


class Reducing(Peer):
    """Reduces every gradient as it comes; averages the parameters after a step, which holds nobody."""

    def on_gradient_ready(self, event: GradientReady) -> Actions:
        return [Reduce((0, 1), "gradient", event.step, self.world.gradient[event.bucket], MEAN, event.samples)]

    def on_step_finished(self, event: StepFinished) -> Actions:
        return [Reduce((0, 1), "average", event.step, self.world.params[0], MEAN, event.samples)]


def made(kind: type[Peer], me: int = 0) -> Peer:
    return kind(me, WORLD, Random(0))


@pytest.mark.parametrize("event", ONE_OF_EACH, ids=lambda event: type(event).__name__)
def test_every_event_goes_to_the_handler_of_its_name(event: Event) -> None:
    words = [word.lower() for word in _words(type(event).__name__)]
    assert made(Loud).handle(event, 2.5) == [Note("on_" + "_".join(words), 2.5)]


def _words(name: str) -> list[str]:
    starts = [i for i, letter in enumerate(name) if letter.isupper()]
    return [name[start:stop] for start, stop in zip(starts, [*starts[1:], len(name)], strict=True)]


def test_there_is_a_handler_for_each_event_of_the_vocabulary() -> None:
    assert set(HANDLERS) == set(get_args(Event)) == {type(event) for event in ONE_OF_EACH}


def test_a_peer_computes_when_it_starts_and_ignores_what_it_does_not_care_about() -> None:
    peer = made(Quiet)
    answers = {type(event): peer.handle(event, 0.0) for event in ONE_OF_EACH if not _must_be_handled(event)}
    assert answers.pop(Started) == [Compute(0)]
    assert set(map(tuple, answers.values())) == {()}


def _must_be_handled(event: Event) -> bool:
    return isinstance(event, StepFinished | PortionAsked | Received | Returned)


def test_a_peer_that_deals_no_portions_cannot_be_asked_for_one() -> None:
    with pytest.raises(IllegalAction, match=r"^Quiet was told of PortionAsked\(.*\), but deals no portions\.\n"):
        made(Quiet).handle(PortionAsked(0, 4), 0.0)


def test_what_a_broken_channel_returned_is_sent_again_and_what_a_change_of_members_overtook_is_not() -> None:
    peer, again = made(Quiet), Send(1, "push", 3, 0, INBOX, 2.0, {"a": 1})
    assert peer.handle(Returned(1, "push", 3, 0, INBOX, 2.0, {"a": 1}), 0.0) == [again]
    peer.handle(MembersChanged(1, (0, 1), "moved"), 0.0)
    assert peer.handle(Returned(1, "push", 3, 0, INBOX, 2.0, {"a": 1}, view=0), 0.0) == []
    peer.handle(MembersChanged(2, (0,), "lost worker 1"), 0.0)
    assert peer.handle(Returned(1, "push", 3, 0, INBOX, 2.0, {"a": 1}, view=2), 0.0) == []


def test_a_peer_knows_the_members_of_its_view_before_it_answers_their_change() -> None:
    peer = made(Quiet)
    assert (peer.view, peer.workers) == (0, WORLD.workers)
    peer.handle(MembersChanged(4, (1,), "lost worker 0"), 0.0)
    assert (peer.view, peer.members, peer.workers) == (4, (1,), (1,))


class ReducingAgain(Reducing):
    """Asks again for the reduction of bucket 0 only, and for one that held nobody."""

    def on_members_changed(self, event: MembersChanged) -> Actions:
        return [
            Reduce(self.workers, "gradient", 0, G0, MEAN, 1.0),
            Reduce(self.workers, "average", 0, self.world.params[0], MEAN, 1.0),
        ]


def test_the_user_goes_on_waiting_for_the_reductions_that_are_asked_for_again() -> None:
    asking, quiet = made(ReducingAgain), made(Reducing)
    for peer in (asking, quiet):
        peer.handle(GradientReady(0, 0, 8.0), 0.0)
        peer.handle(MembersChanged(1, (0,), "lost worker 1"), 0.0)
    assert (asking.holds_user, quiet.holds_user) == (True, False)
    asking.handle(Reduced(0, G0, 1.0), 0.0)
    assert not asking.holds_user


def test_a_peer_without_an_iteration_refuses_to_hear_that_its_step_finished() -> None:
    message = r"^Quiet was told of StepFinished\(step=0, samples=8.0, loss=None\), but has no iteration of its own.\n"
    with pytest.raises(IllegalAction, match=message):
        made(Quiet).handle(StepFinished(0, 8.0, None), 0.0)


def test_a_message_that_the_protocol_does_not_know_names_both_ends_and_tells_the_story() -> None:
    peer = made(Quiet)
    peer.handle(Started(0), 0.0)
    with pytest.raises(UnexpectedMessage) as caught:
        peer.handle(Received(2, "push", 7, 1, INBOX, 1.0, None), 1.5)
    assert caught.value.message == (
        "worker 0 received 'push' (clock 7, bucket 1) from server 0, which Quiet does not expect now."
    )
    assert str(caught.value).splitlines()[1:5] == [
        "  the last that worker 0 saw and did:",
        "    0.000000 s  Started(view=0)",
        "        -> Compute(step=0, portion=None)",
        f"    1.500000 s  {Received(2, 'push', 7, 1, INBOX, 1.0, None)}",
    ]


def test_a_story_that_an_error_already_tells_is_kept() -> None:
    class Wrapped(Peer):
        def on_started(self, event: Started) -> Actions:
            raise IllegalAction("no.", "  the story of the inner peer")

    with pytest.raises(IllegalAction, match=r"^no.\n  the story of the inner peer$"):
        made(Wrapped).handle(Started(0), 0.0)


def test_what_is_not_an_event_is_refused() -> None:
    message = r"^'tea' is not an event; the vocabulary of core/events.py is closed.$"
    with pytest.raises(IllegalAction, match=message):
        made(Quiet).handle("tea", 0.0)  # type: ignore[arg-type]


def test_a_mistake_inside_a_handler_is_not_taken_for_an_unknown_event() -> None:
    class Mistaken(Peer):
        def on_started(self, event: Started) -> Actions:
            return dict[str, Any]()["no such key"]

    with pytest.raises(KeyError, match="no such key"):
        made(Mistaken).handle(Started(0), 0.0)


def test_a_worker_is_held_in_backward_until_every_reduce_of_its_gradients_is_reduced() -> None:
    peer = made(Reducing)
    held = []
    for event in (GradientReady(3, 0, 8.0), GradientReady(3, 1, 8.0), Reduced(3, G1, 16.0), Reduced(3, G0, 16.0)):
        peer.handle(event, 0.0)
        held.append(peer.holds_user)
    assert held == [True, True, True, False]


def test_a_reduce_of_another_step_does_not_let_the_user_go() -> None:
    peer = made(Reducing)
    peer.handle(GradientReady(3, 0, 8.0), 0.0)
    peer.handle(Reduced(2, G0, 16.0), 0.0)
    assert peer.holds_user


def test_a_reduce_that_answers_the_end_of_a_step_holds_nobody() -> None:
    peer = made(Reducing)
    peer.handle(StepFinished(0, 8.0, None), 0.0)
    assert not peer.holds_user


def test_a_peer_says_which_reduction_it_waits_for_the_earliest_first() -> None:
    peer = made(Reducing)
    assert peer.waiting_for() == "the user's iteration"
    peer.handle(GradientReady(3, 1, 8.0), 0.0)
    peer.handle(GradientReady(3, 0, 8.0), 0.0)
    assert peer.waiting_for() == "the reduction of gradient[0] at step 3"
    peer.handle(Reduced(3, G0, 16.0), 0.0)
    assert peer.waiting_for() == "the reduction of gradient[1] at step 3"


def test_a_snapshot_is_plain_sorted_and_leaves_out_what_was_given() -> None:
    @dataclass
    class Inner:
        count: int
        _secret: int = 1

    class Keeping(Peer):
        def __init__(self, me: int, world: World, rng: Random) -> None:
            super().__init__(me, world, rng)
            self.nodes = {3, 1, 2}
            self.by_clock = {7: (1, Buffer("params", 0)), 8: frozenset({2.5})}
            self.inner = [Inner(4)]
            self._hidden = object()

    snapshot = made(Keeping).snapshot()
    assert snapshot == {
        "step": 0,
        "nodes": [1, 2, 3],
        "by_clock": {"7": [1, ["params", 0, None]], "8": [2.5]},
        "inner": [{"count": 4}],
    }
    assert json.loads(json.dumps(snapshot)) == snapshot


LATER = replace(WORLD, view=2)
P0, P1 = WORLD.params
JOINED = MembersChanged(2, (0, 1, 2), "joined worker 1")


def test_the_lowest_other_worker_sends_a_newcomer_all_buckets_and_where_the_run_is() -> None:
    peer = made(Reducing)
    peer.step = 7
    peer.handle(MembersChanged(1, (0, 2), "lost worker 1"), 0.0)
    assert peer.handle(JOINED, 0.0) == [
        Send(1, WELCOME, 7, 0, P0, data={"slot": PARAMS}),
        Send(1, WELCOME, 7, 1, P1, data={"slot": PARAMS}),
        Send(1, WELCOME, 7, 0, data={"step": 7}),
    ]


def test_nobody_else_sends_a_newcomer_anything() -> None:
    server = made(Quiet, 2)
    server.handle(MembersChanged(1, (0, 2), "lost worker 1"), 0.0)
    assert server.handle(JOINED, 0.0) == []


def test_a_newcomer_begins_where_the_run_is_when_it_has_taken_over_everything() -> None:
    peer = Quiet(1, LATER, Random(0))
    assert peer.handle(Started(2), 0.0) == []
    assert peer.handle(JOINED, 0.0) == []
    inbox = [Buffer("inbox", 0), Buffer("inbox", 1)]
    first, second = (Received(0, WELCOME, 7, b, body, 1.0, {"slot": PARAMS}) for b, body in enumerate(inbox))
    assert peer.handle(first, 0.0) == [copy(P0, inbox[0])]
    assert peer.handle(Received(0, WELCOME, 7, 0, None, 1.0, {"step": 7}), 0.0) == []
    assert peer.handle(second, 0.0) == [copy(P1, inbox[1]), Compute(7)]
    assert (peer.step, peer.workers) == (7, (0, 1))


def test_a_newcomer_that_was_welcomed_hears_events_as_others_do() -> None:
    class Bare(Quiet):
        _inherits = ()

    peer = Bare(1, LATER, Random(0))
    peer.handle(JOINED, 0.0)
    assert peer.handle(Received(0, WELCOME, 7, 0, None, 1.0, {"step": 7}), 0.0) == [Compute(7)]
    with pytest.raises(UnexpectedMessage):
        peer.handle(Received(0, WELCOME, 7, 0, None, 1.0, {"step": 7}), 0.0)
    assert peer.handle(MembersChanged(3, (1, 2), "lost worker 0"), 0.0) == []


def test_a_newcomer_refuses_what_is_no_welcome_before_it_has_had_its_own() -> None:
    peer = Quiet(1, LATER, Random(0))
    peer.handle(JOINED, 0.0)
    with pytest.raises(UnexpectedMessage, match="worker 1 received 'push'"):
        peer.handle(Received(0, "push", 0, 0, None, 1.0, None), 0.0)


@pytest.mark.parametrize(
    ("inherits", "gives"), [((PARAMS,), True), ((PARAMS, "outer"), True), (("outer",), False), ((), False)]
)
def test_a_newcomer_takes_over_a_replica_where_parameters_are_inherited(inherits: tuple[str, ...], gives: bool) -> None:
    class Inheriting(Quiet):
        _inherits = inherits

    assert made(Inheriting).gives_replica == gives


def test_by_default_a_newcomer_takes_over_its_sponsors_replica() -> None:
    assert made(Quiet).gives_replica

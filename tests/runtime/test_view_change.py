"""A change of view: what was sent before is received before, what was sent meanwhile comes back (decision 0017)."""

from collections.abc import Callable

import pytest
from support.network.changing import Changing, changed, joined, word
from support.peers.puppets import Puppet

from weft.core.actions import Action, Apply, Combine, Reduce, Send, copy
from weft.core.events import Event, MembersChanged, Received, Reduced, Returned, Started
from weft.core.names import Bucket, Buffer
from weft.core.script_state import RESUME, STEP
from weft.runtime.view_messages import Freeze, Frozen, ViewTold

BUCKETS = (Bucket(4), Bucket(6, 8))
P0, IN0 = Buffer("params", 0), Buffer("inbox", 0)
Answer = Callable[[Puppet, Event], list[Action] | None]


def test_what_was_sent_before_the_freeze_is_received_before_the_view() -> None:
    run = Changing(3)
    run.send(0, Send(1, "word", 7, 0), Send(1, "word", 8, 0))
    run.freeze_without(2)
    run.progress(0, 1)
    assert run.seen(1) == [], "a frozen process keeps what comes"
    run.hear(0, 1)
    run.progress(0, 1)
    assert run.seen(1) == [word(0, 7), word(0, 8), changed(1, [0, 1], 2)]
    assert run.seen(0) == [changed(1, [0, 1], 2)]
    assert (run.peer(1).view, run.peer(1).members) == (1, (0, 1))


def test_the_view_waits_for_all_that_was_sent_before_the_freeze() -> None:
    run = Changing(3)
    run.send(0, Send(1, "word", 7, 0))
    under_way = run.world.posts[1].transport.waiting.popleft()
    run.freeze_without(2)
    run.hear(0, 1)
    run.progress(0, 1)
    assert run.seen(1) == []
    assert run.drivers[1].view_change.is_on
    run.world.posts[1].transport.waiting.append(under_way)
    run.progress(1)
    assert run.seen(1) == [word(0, 7), changed(1, [0, 1], 2)]
    assert not run.drivers[1].view_change.is_on


def answers_with_values(peer: Puppet, event: Event) -> list[Action] | None:
    if isinstance(event, Received):
        return [
            Send(0, "value", 1, 0, P0, 2.0, {"a": 1}),
            Combine(P0, 10.0),
            Send(0, "value", 2, 0, P0),
            Send(2, "word", 3, 0),
        ]
    if isinstance(event, Returned) and event.body is not None:
        return [copy(Buffer("params", 0), IN0)] if event.clock == 1 else []
    return None


def test_what_a_peer_answers_while_frozen_comes_back_after_the_view_in_order_with_its_body() -> None:
    run = Changing(3, answers_with_values)
    run.params(1)[:] = 3.0
    run.send(0, Send(1, "word", 7, 0))
    run.go_on_without(2)
    assert run.seen(1) == [
        word(0, 7),
        changed(1, [0, 1], 2),
        Returned(0, "value", 1, 0, IN0, 2.0, {"a": 1}, 0),
        Returned(0, "value", 2, 0, IN0, 1.0, None, 0),
        Returned(2, "word", 3, 0, None, 1.0, None, 0),
    ]
    assert run.params(1).tolist() == [3.0] * 4, "the value of the moment at which it was sent"
    assert run.seen(0) == [changed(1, [0, 1], 2)], "nothing of it was received"


def test_what_comes_back_in_a_later_change_is_of_the_view_in_which_it_was_sent() -> None:
    run = Changing(4)
    run.go_on_without(3)
    run.freeze_without(2)
    run.send(1, Send(0, "word", 5, 0))
    run.hear(0, 1)
    run.progress(0, 1)
    assert run.seen(1)[1:] == [changed(2, [0, 1], 2), Returned(0, "word", 5, 0, None, 1.0, None, 1)]


def test_messages_between_nodes_of_one_process_are_received_even_while_it_is_frozen() -> None:
    run = Changing(3, num_servers=1)
    run.freeze_without(2)
    run.send(0, Send(3, "word", 5, 0))
    run.hear(0, 1)
    run.progress(0, 1)
    assert run.seen(3) == [word(0, 5), changed(1, [0, 1, 3], 2)]
    assert run.seen(0) == [changed(1, [0, 1, 3], 2)]


def test_what_a_message_from_before_the_freeze_leads_to_in_the_same_process_comes_before_the_view() -> None:
    def answer(peer: Puppet, event: Event) -> list[Action] | None:
        return [Send(3, "word", 6, 0)] if isinstance(event, Received) and peer.me == 0 else None

    run = Changing(3, answer, num_servers=1)
    run.send(1, Send(0, "word", 5, 0))
    run.go_on_without(2)
    assert run.seen(3) == [word(0, 6), changed(1, [0, 1, 3], 2)]


def test_what_a_member_sends_in_the_new_view_waits_for_those_who_have_not_been_told_it() -> None:
    run = Changing(3)
    run.freeze_without(2)
    run.hear(0)
    run.progress(0)
    run.send(0, Send(1, "word", 9, 0))
    run.progress(1)
    assert run.seen(1) == []
    run.hear(1)
    run.progress(1)
    assert run.seen(1) == [changed(1, [0, 1], 2), word(0, 9)]


def test_an_early_frame_is_not_taken_for_one_that_was_sent_before_the_cut() -> None:
    run = Changing(4)
    run.send(2, Send(1, "word", 1, 0))
    under_way = run.world.posts[1].transport.waiting.popleft()
    run.freeze_without(3)
    run.hear(0, 1, 2)
    run.progress(0)
    run.send(0, Send(1, "word", 9, 0))
    run.progress(1)
    assert run.seen(1) == []
    run.world.posts[1].transport.waiting.append(under_way)
    run.progress(1)
    assert run.seen(1) == [word(2, 1), changed(1, [0, 1, 2], 3), word(0, 9)]


def test_frames_of_the_lost_are_dropped_whether_they_came_before_the_freeze_or_after_it() -> None:
    run = Changing(3)
    run.send(2, Send(1, "word", 1, 0))
    run.freeze_without(2)
    run.send(2, Send(0, "word", 2, 0))
    run.hear(0, 1)
    run.progress(0, 1)
    run.send(2, Send(0, "word", 3, 0))
    run.progress(0, 1)
    assert run.seen(0) == run.seen(1) == [changed(1, [0, 1], 2)]


def test_frames_that_were_kept_are_dropped_when_their_sender_is_lost_too() -> None:
    run = Changing(4)
    run.send(2, Send(1, "word", 1, 0))
    run.views.lose(3, "worker 3 died")
    run.hear(0, 1)
    run.progress(1)
    run.go_on_without(2)
    assert run.seen(1) == [changed(2, [0, 1], 2)]


def test_a_second_freeze_replaces_the_first_while_frozen() -> None:
    run = Changing(4)
    run.views.lose(3, "worker 3 died")
    run.hear(0, 1)
    assert run.drivers[0].view_change.is_on
    run.views.lose(2, "worker 2 died")
    assert (2, Freeze(1, [3])) in run.said, "which worker 2 never heard"
    run.hear(0, 1)
    run.hear(0, 1)
    run.progress(0, 1)
    assert run.seen(0) == run.seen(1) == [changed(2, [0, 1], 2)]


def test_after_the_cut_the_first_view_is_told_without_what_the_newly_lost_had_sent() -> None:
    run = Changing(4)
    run.send(2, Send(1, "word", 1, 0))
    run.send(0, Send(1, "word", 2, 0))
    run.world.posts[1].transport.waiting.popleft()
    run.freeze_without(3)
    run.hear(0, 1)
    run.progress(0, 1)
    assert run.seen(0) == [changed(1, [0, 1, 2], 3)], "it may use the view already"
    assert run.seen(1) == [word(0, 2)], "a frame of worker 2 is to come"
    run.views.lose(2, "worker 2 died")
    run.hear(0, 1)
    assert run.frozen == [], "worker 1 freezes for the second view when it has told the first"
    run.progress(0, 1)
    assert run.seen(1) == [word(0, 2), changed(1, [0, 1, 2], 3)]
    assert [(rank, frozen.view) for rank, frozen in run.frozen] == [(1, 2)]
    run.hear(0, 1)
    run.hear(0, 1)
    run.progress(0, 1)
    assert run.seen(1)[2:] == run.seen(0)[1:] == [changed(2, [0, 1], 2)]


def test_what_a_peer_sends_upon_the_first_view_comes_before_the_second() -> None:
    def answer(peer: Puppet, event: Event) -> list[Action] | None:
        return [Send(0, "word", 5, 0)] if isinstance(event, MembersChanged) and peer.me == peer.view == 1 else None

    run = Changing(4, answer)
    run.send(2, Send(1, "word", 1, 0))
    run.world.posts[1].transport.waiting.popleft()
    run.freeze_without(3)
    run.hear(0, 1)
    run.progress(0, 1)
    run.views.lose(2, "worker 2 died")
    run.hear(0, 1)
    run.progress(1)
    assert run.frozen[0][1].sent[0] == 1
    run.hear(0, 1)
    run.hear(0, 1)
    run.progress(0, 1)
    assert run.seen(0) == [changed(1, [0, 1, 2], 3), word(1, 5), changed(2, [0, 1], 2)]


def test_the_view_waits_until_the_script_has_taken_what_was_put_off() -> None:
    def answer(peer: Puppet, event: Event) -> list[Action] | None:
        return [Apply(IN0, P0)] if isinstance(event, Received) else None

    run = Changing(3, answer)
    run.drivers[1].worker.script.call(RESUME)
    run.params(0)[:] = 1.0
    run.send(0, Send(1, "push", 0, 0, P0))
    run.go_on_without(2)
    assert run.drivers[1].view_change.is_on
    with run.drivers[1].script_waits(STEP):
        run.progress(1)
        assert run.params(1).tolist() == [-1.0] * 4
        assert run.seen(1)[1:] == [changed(1, [0, 1], 2)]


class OneReduction:
    """A native reduction that ends when the test says so."""

    def __init__(self) -> None:
        self.joined: list[Reduce] = []
        self.ended: list[Reduced] = []
        self.told: list[tuple[list[int], int]] = []

    def join(self, action: Reduce) -> None:
        self.joined.append(action)

    def progress(self, deliver: Callable[[Reduced], None] | None = None) -> bool:
        return False

    may_move = progress

    def settle(self, deliver: Callable[[Reduced], None]) -> bool:
        ended, self.ended = self.ended, []
        for event in ended:
            deliver(event)
        return bool(ended)

    def change_members(self, members: list[int], view: int) -> None:
        self.told.append((members, view))


def test_a_reduction_that_has_ended_for_all_is_told_before_the_view_and_none_begins_meanwhile() -> None:
    reduce, again = (Reduce(group, "value", 4, P0, "mean", 1.0) for group in ((0, 1, 2), (0, 1)))

    def answer(peer: Puppet, event: Event) -> list[Action] | None:
        if isinstance(event, Reduced):
            return [reduce]
        return [again] if isinstance(event, MembersChanged) and peer.me == 0 else None

    run, native = Changing(3, answer), OneReduction()
    run.drivers[0].reduce = native  # type: ignore[assignment]
    native.ended = [Reduced(3, P0, 3.0)]
    run.go_on_without(2)
    assert run.seen(0) == [Reduced(3, P0, 3.0), changed(1, [0, 1], 2)]
    assert native.joined == [again]
    assert native.told == [([0, 1], 1)]


def test_a_worker_that_has_left_is_told_nothing_more_and_can_be_fetched_from() -> None:
    run = Changing(3, num_servers=1)
    run.views.leave(0)
    run.hear(0, 1, 2)
    run.hear(0, 1, 2)
    run.progress(0, 1, 2)
    assert run.seen(0) == []
    assert [type(event).__name__ for event in run.seen(1)] == ["MembersChanged"]
    assert run.seen(1)[0].members == (1, 2, 3), "its server stays where it is"
    run.send(1, Send(0, "word", 5, 0))
    run.progress(0, 1, 2)
    assert run.seen(0) == []
    run.params(0)[:] = 7.0
    run.drivers[1]._mailbox.fetch(1, [(0, 0)], lambda done: run.progress(0, 1, 2))
    assert run.drivers[1]._mailbox.fetched(0, 0).tolist() == [7.0] * 4


def test_a_newcomer_sends_nothing_and_keeps_what_comes_until_it_is_told_its_first_view() -> None:
    run = Changing(3)
    run.go_on_without(2)
    run.freeze_with(2)
    assert [event for _, event in run.peer(2)._seen] == [Started(2)]
    run.hear(0, 1)
    run.progress(0, 1)
    assert run.seen(0)[1:] == run.seen(1)[1:] == [joined(2, [0, 1, 2], 2)]
    run.send(0, Send(2, "word", 7, 0))
    run.progress(2)
    assert run.seen(2) == []
    run.hear(2)
    assert run.seen(2) == [joined(2, [0, 1, 2], 2)]
    assert not run.drivers[2].view_change.is_on
    run.send(2, Send(1, "word", 8, 0))
    run.progress(1, 2)
    assert run.seen(2)[1:] == [word(0, 7)]
    assert run.seen(1)[2:] == [word(2, 8)]


def test_a_newcomer_finds_servers_where_they_have_been_moved() -> None:
    run = Changing(3, num_servers=2)
    assert run.world.posts[1].places == [0, 1, 2, 0, 1]
    run.go_on_without(0)
    run.freeze_with(0)
    run.hear(0, 1, 2)
    run.progress(0, 1, 2)
    assert [post.places for post in run.world.posts] == [[0, 1, 2, 2, 1]] * 3
    assert list(run.drivers[0].nodes) == [0], "its predecessor's server stays where it is now"
    assert run.seen(0) == [joined(2, [0, 1, 2, 3, 4], 0)]
    run.send(0, Send(3, "word", 7, 0))
    run.progress(0, 1, 2)
    assert run.seen(3)[-1] == word(0, 7)


def test_who_freezes_for_newcomers_counts_anew_what_it_exchanges_with_them_and_keeps_what_others_sent() -> None:
    run = Changing(3)
    run.send(1, Send(2, "word", 1, 0), Send(0, "word", 2, 0))
    run.send(2, Send(1, "word", 3, 0))
    run.progress(0, 1, 2)
    run.go_on_without(2)
    run.send(2, Send(1, "word", 4, 0))
    run.send(0, Send(1, "word", 5, 0))
    seen, order = run.seen(1), Freeze(2, [], [2])
    run.drivers[1].view_change.freeze(order)
    assert run.frozen == [(1, Frozen(2, {0: 1}, [0, 1, 2]))]
    assert run.seen(1) == seen, "it is frozen"
    told = ViewTold(2, [0, 1, 2], [0, 1, 2], {0: 1}, "worker 2 joined", [2], [0, 1, 2])
    run.drivers[1].view_change.cut(told)
    run.progress(1)
    assert run.seen(1)[len(seen) :] == [word(0, 5), joined(2, [0, 1, 2], 2)]


def test_a_newcomer_can_be_lost_and_replaced_again() -> None:
    run = Changing(3)
    run.go_on_without(2)
    for view in (2, 4):
        run.freeze_with(2)
        run.hear(0, 1, 2)
        run.progress(0, 1, 2)
        run.send(2, Send(1, "word", view, 0))
        run.send(1, Send(2, "word", view, 0))
        run.progress(0, 1, 2)
        assert run.seen(2) == [joined(view, [0, 1, 2], 2), word(1, view)]
        assert run.seen(1)[-1] == word(2, view)
        run.send(2, Send(1, "word", view + 100, 0))
        run.go_on_without(2)
        assert run.seen(1)[-1] == changed(view + 1, [0, 1], 2)


def test_a_newcomer_fetches_nothing_from_those_who_are_lost() -> None:
    run = Changing(4)
    run.go_on_without(2)
    run.go_on_without(3)
    run.freeze_with(2)
    run.hear(0, 1, 2)
    run.progress(0, 1, 2)
    mailbox = run.drivers[2]._mailbox
    assert mailbox.living([0, 1, 2, 3]) == [0, 1, 2]
    waited: list[bool] = []
    mailbox.fetch(2, [(3, 0)], lambda done: waited.append(done()))
    assert waited == [True]


def test_newcomers_that_use_sockets_are_connected_to_before_a_process_says_that_it_is_frozen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run, story = Changing(3), list[object]()
    run.go_on_without(2)

    def reconnect(ports: dict[int, int], view: int) -> list[int]:
        story.append(("reconnect", ports, view))
        return [2]

    driver = run.drivers[0]
    monkeypatch.setattr(run.world.posts[0].transport, "reconnect", reconnect)
    driver.view_change.on_unreached = lambda newcomers: story.append(("unreached", newcomers))
    driver.view_change.on_frozen = lambda order, sent: story.append("frozen")
    driver.view_change.freeze(Freeze(2, [], [2], {2: 4711}))
    assert story == [("reconnect", {2: 4711}, 2), ("unreached", [2]), "frozen"]


def test_a_newcomer_connects_to_the_others_of_its_view_before_its_peers_are_told_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run, met = Changing(3), list[object]()
    run.go_on_without(2)
    run.freeze_with(2)
    monkeypatch.setattr(
        run.world.posts[2].transport, "reconnect", lambda *told: met.append((*told, len(run.seen(2)))) or []
    )
    run.drivers[2].view_change.enter(ViewTold(2, [0, 1, 2], [0, 1, 2], {}, "joined", [2], [0, 1, 2], {1: 1, 2: 2}))
    assert met == [({1: 1, 2: 2}, 2, 0)]

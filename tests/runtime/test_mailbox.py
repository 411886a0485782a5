"""The post: actions become frames and events again, hyper-parameters travel, replicas can be fetched."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pytest
from support.network.changing import Changing, changed, word
from support.network.loopback import Processes
from support.peers.puppets import Puppet, Puppets

from weft.codecs import Codec, TopK
from weft.core.actions import Action, Encode, Send, copy
from weft.core.errors import CodecError, UnexpectedMessage
from weft.core.events import Event, MembersChanged, Received, Started
from weft.core.names import PARAMS, Bucket, Buffer, Part, Roles
from weft.core.world import World
from weft.runtime.mailbox import kinds_of, rank_of
from weft.runtime.reduce.between_hosts import Key
from weft.runtime.reduce.exchange import CamePart

BUCKETS = (Bucket(10), Bucket(3, 8))


def heard(*sent: Send) -> list[Received]:
    """What worker 1 is told when worker 0 sends these."""
    events: list[Event] = []

    def answer(peer: object, event: Event) -> None:
        if isinstance(event, Received):
            events.append(event)

    world = Processes(Puppets(answer), 2, BUCKETS)
    for action in sent:
        store = world.stores[0]
        world.posts[0].send(0, action, None if action.body is None else store.lend(action.body), {"lr": 0.5})
    world.settle()
    return events  # type: ignore[return-value]


def test_everything_that_a_message_says_arrives() -> None:
    (event,) = heard(Send(1, "value", 7, 1, Buffer("params", 1), 2.5, {"badness": 0.25}))
    assert event == Received(0, "value", 7, 1, Buffer("inbox", 1), 2.5, {"badness": 0.25})


def test_a_part_keeps_its_name_and_a_message_without_a_body_has_none() -> None:
    part, word = heard(
        Send(1, "value", -1, 0, Buffer("params", 0, Part(1, 3))), Send(1, "word", 2**40, 0, None, 0.0, None)
    )
    assert part.body == Buffer("inbox", 0, Part(1, 3))
    assert (part.clock, word.clock, word.body, word.weight) == (-1, 2**40, None, 0.0)


def test_buckets_of_other_nodes_can_be_fetched_while_their_drivers_answer() -> None:
    world = Processes(Puppets(num_servers=1), 3, BUCKETS)
    for node, store in world.stores.items():
        store.replica.array("params", 0)[:] = node
    wanted = [(node, 0) for node in range(4)]

    def wait(done: object) -> None:
        world.settle()
        assert done()  # type: ignore[operator]

    world.posts[1].fetch(1, wanted, wait)
    got = [world.posts[1].fetched(node, 0) for node in range(4)]
    assert all(np.array_equal(array, np.full(10, node)) for node, array in enumerate(got))


def test_servers_sit_on_worker_processes_in_turn() -> None:
    world = World(Roles(2, 3), BUCKETS)
    assert [rank_of(world, node) for node in range(5)] == [0, 1, 0, 1, 0]


def test_all_processes_number_kinds_alike_whatever_the_order_they_are_declared_in() -> None:
    assert kinds_of({"b": 1, "a": 2}) == kinds_of({"a": 2, "b": 1})
    assert len(set(kinds_of({"b": 1, "a": 2}).values())) == 7


@dataclass(frozen=True)
class Coding(Puppets):
    """Puppets whose pushes are coded, and who keep what comes."""

    def codecs(self) -> Mapping[str, Codec]:
        return {"push": TopK(0.2)}


def pushed() -> Processes:
    """Worker 0 has sent a coded push, which worker 1 has not seen yet."""
    mine, gradient = Buffer("mine", 0), Buffer("gradient", 0)
    keep: list[Action] = [copy(mine, Buffer("inbox", 0))]
    strategy = Coding(lambda peer, event: keep if isinstance(event, Received) else None, slot_names=("mine",))
    world = Processes(strategy, 2, BUCKETS)
    world.stores[0].replica.array("gradient", 0)[:] = np.arange(10)
    world.stores[0].encode(Encode("push", 3, mine, gradient))
    world.posts[0].send(0, Send(1, "push", 3, 0, mine, 2.0, {"a": 1}), world.stores[0].operand(mine), None)
    return world


def test_what_is_coded_travels_as_it_is_and_says_by_which_codec() -> None:
    world = pushed()
    ((_, _, _, body),) = world.posts[1].transport.waiting
    assert len(body) == world.stores[0].num_bytes(Buffer("mine", 0)) < 40
    world.settle()
    assert world.stores[1].lend(Buffer("mine", 0)).tolist() == [0] * 8 + [8, 9]


LIES: dict[str, tuple[Callable[[bytes, bytes], tuple[bytes, bytes]], str]] = {
    "places": (
        lambda data, body: (data, b"\xff" * len(body)),
        "worker 0 sent what cannot be decoded, at step 3: ",
    ),
    "length": (
        lambda data, body: (data, body[:-1]),
        "worker 0 sent what cannot be decoded, at step 3: a payload has 15 bytes",
    ),
    "codec": (
        lambda data, body: (msgspec.msgpack.encode((None, None, "gift")), body),
        "worker 0 sent a body in the code of 'gift', which has no codec here.",
    ),
    "no name": (
        lambda data, body: (msgspec.msgpack.encode((None, None, [["push"]])), body),
        "worker 0 sent a body in the code of [['push']], which has no codec here.",
    ),
    "nothing": (
        lambda data, body: (msgspec.msgpack.encode((None, None)), body),
        "worker 0 sent a body in the code of None, which has no codec here.",
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_who_lies_about_what_is_coded_is_named_and_nothing_is_applied(lie: str) -> None:
    world = pushed()
    change, message = LIES[lie]
    waiting = world.posts[1].transport.waiting
    sender, header, data, body = waiting.popleft()
    waiting.append((sender, header, *change(data, body)))
    with pytest.raises(CodecError) as refused:
        world.settle()
    assert str(refused.value).startswith(message)
    assert not world.stores[1].lend(Buffer("mine", 0)).any()


class FakeSums:
    """Takes parts of sums, and wants whole buckets in memory of its own."""

    def __init__(self) -> None:
        self.came: list[tuple[Key, CamePart]] = []
        self.asked: list[Any] = []
        self.rooms: list[Any] = []

    def room(self, key: Key, name: Any) -> Any:
        self.asked.append((key, name))
        if name[2] is not None:
            return None
        self.rooms.append(np.zeros(10, np.float32))
        return self.rooms[-1]

    def hear(self, key: Key, came: CamePart) -> None:
        self.came.append((key, came._replace(values=came.values.tolist())))


def test_sums_of_hosts_go_to_who_adds_them_up_and_no_peer_sees_them() -> None:
    world = Processes(Puppets(), 2, BUCKETS)
    world.posts[1].hear_sums(sums := FakeSums())  # type: ignore[arg-type]
    values = np.arange(10, dtype=np.float32)
    world.posts[0].send_sum(1, (1, 0), 7, Part(1, 2), b"about", values[5:], is_lent=False)
    world.posts[0].send_sum(1, (0, 0), 8, None, b"", values, is_lent=True)
    assert world.posts[0].transport.lent == [None, (0, 0)]
    world.settle()
    assert sums.came == [
        ((1, 0), CamePart(0, 7, Part(1, 2), b"about", [5.0, 6.0, 7.0, 8.0, 9.0])),  # type: ignore[arg-type]
        ((0, 0), CamePart(0, 8, None, b"", values.tolist())),  # type: ignore[arg-type]
    ]
    assert sums.asked == [((1, 0), (0, 7, Part(1, 2))), ((0, 0), (0, 8, None))]
    assert sums.rooms[0].tolist() == values.tolist(), "it was received there"


def test_a_sum_for_somebody_who_adds_none_up_is_unexpected() -> None:
    world = Processes(Puppets(), 2, BUCKETS)
    world.posts[0].send_sum(1, (0, 0), 1, None, b"", np.zeros(10, np.float32), is_lent=False)
    with pytest.raises(UnexpectedMessage) as raised:
        world.settle()
    assert str(raised.value) == "worker 0 sent a part of a sum to worker 1, which expects none."


def test_what_no_peer_has_sent_waits_while_closed_and_counts_when_it_is_sent() -> None:
    world = Processes(Puppets(), 3, BUCKETS)
    notes: list[bytes] = []
    world.posts[1].on_note = lambda source, note: notes.append(bytes(note))
    mailbox = world.posts[0]
    mailbox.lose([2])
    mailbox.close()
    mailbox.tell(0, 1, b"for a member")
    mailbox.tell(0, 2, b"for one that is lost")
    world.settle()
    assert (notes, mailbox.sent) == ([], {})
    mailbox.open_again({0: world.stores[0]}, 1)
    world.settle()
    assert (notes, mailbox.sent) == ([b"for a member"], {1: 1})
    assert not world.posts[2].transport.waiting


def test_frames_that_are_kept_are_copies_for_their_memory_is_used_again() -> None:
    world = Processes(Puppets(), 2, BUCKETS)
    notes: list[bytes] = []
    mailbox, memory = world.posts[1], bytearray(b"before")
    mailbox.on_note = lambda source, note: notes.append(bytes(note))
    world.posts[0].tell(0, 1, bytes(memory))
    sender, header, _, body = mailbox.transport.waiting.pop()
    mailbox.transport.waiting.append((sender, header, memory, body))
    mailbox.close()
    mailbox.poll()
    memory[:] = b"behind"
    assert mailbox.take_up_to({0: 1})
    assert notes == [b"before"]


def test_of_kept_frames_only_those_before_the_cut_are_handed_over_and_the_rest_in_order_when_it_is_open() -> None:
    world = Processes(Puppets(), 3, BUCKETS)
    notes: list[tuple[int, bytes]] = []
    mailbox = world.posts[2]
    mailbox.on_note = lambda source, note: notes.append((source, bytes(note)))
    mailbox.close()
    for clock in range(3):
        for source in (0, 1):
            world.posts[source].tell(source, 2, b"%d" % clock)
    mailbox.poll()
    assert not mailbox.take_up_to({0: 1, 1: 4})
    assert notes == [(0, b"0"), (1, b"0"), (1, b"1"), (1, b"2")]
    world.posts[1].tell(1, 2, b"3")
    mailbox.poll()
    assert mailbox.take_up_to({0: 1, 1: 4})
    mailbox.open_again({2: world.stores[2]}, 1)
    assert mailbox.poll()
    assert notes[4:] == [(1, b"3"), (0, b"1"), (0, b"2")]


def test_the_servers_of_lost_processes_go_to_the_members_with_the_fewest_one_by_one() -> None:
    world = Processes(Puppets(num_servers=5), 4, BUCKETS)
    for mailbox in world.posts[:3]:
        assert mailbox.places[4:] == [0, 1, 2, 3, 0]
        assert mailbox.move_servers([1, 2]) == [4, 7, 8]
        assert mailbox.places[4:] == [1, 1, 2, 2, 1]
        assert mailbox.move_servers([1, 2]) == []


def test_a_server_of_a_lost_process_is_started_anew_where_the_fewest_are() -> None:
    def answer(peer: Puppet, event: Event) -> list[Action] | None:
        return [Send(0, "word", 6, 0)] if isinstance(event, MembersChanged) and peer.me == 4 else None

    run = Changing(3, answer, num_servers=2)
    run.params(4)[:] = 5.0
    before = run.peer(4)
    run.go_on_without(1)
    assert 4 in run.drivers[2].nodes
    assert run.peer(4) is not before
    assert run.peer(4).world.view == 1
    assert [event for _, event in run.peer(4)._seen] == [Started(1), changed(1, [0, 2, 3, 4], 1)]
    assert run.seen(0) == [changed(1, [0, 2, 3, 4], 1), word(4, 6)]
    assert run.params(4).tolist() == [0.0] * 4, "its tensors are empty"
    run.send(0, Send(4, "word", 8, 0))
    run.send(4, Send(3, "word", 9, 0))
    run.progress(0, 2)
    assert run.seen(4)[-1] == word(0, 8)
    assert run.seen(3)[-1] == word(4, 9)


def test_a_moved_server_can_be_fetched_from_and_may_be_moved_again() -> None:
    run = Changing(4, num_servers=1)
    for lost, home in ((0, 1), (1, 2)):
        run.go_on_without(lost)
        run.params(4)[:] = home
        assert 4 in run.drivers[home].nodes

        def wait(done: Callable[[], bool]) -> None:
            run.progress(*run.views.members)
            assert done()

        run.world.posts[3].fetch(3, [(4, 0)], wait)
        assert run.world.posts[3].fetched(4, 0).tolist() == [home] * 4


@pytest.mark.parametrize("when", ["before", "meanwhile", "after"])
def test_a_fetch_does_not_wait_for_the_lost(when: str) -> None:
    run = Changing(3)
    run.params(1)[:] = 7.0
    if when == "after":
        run.go_on_without(2)
    if when == "meanwhile":
        run.freeze_without(2)

    def wait(done: Callable[[], bool]) -> None:
        run.progress(0, 1)
        if when == "before":
            assert not done()
            run.freeze_without(2)
        run.hear(0, 1)
        run.progress(0, 1)
        assert done()

    run.world.posts[0].fetch(0, [(0, 0), (1, 0), (2, 0)], wait)
    assert run.world.posts[0].fetched(1, 0).tolist() == [7.0] * 4


@pytest.mark.parametrize("when", ["before", "meanwhile"])
@pytest.mark.parametrize("me", [0, 2])
def test_a_fetch_from_a_server_that_is_moved_is_answered_where_it_is_now(when: str, me: int) -> None:
    run = Changing(3, num_servers=2)
    if when == "meanwhile":
        run.freeze_without(1)

    def wait(done: Callable[[], bool]) -> None:
        if when == "before":
            run.progress(0, 2)
            assert not done()
            run.freeze_without(1)
        run.hear(0, 2)
        run.progress(0, 2)
        assert done()

    run.params(3)[:] = 3.0
    run.world.posts[me].fetch(me, [(3, 0), (4, 0)], wait)
    assert run.world.posts[me].fetched(3, 0).tolist() == [3.0] * 4
    assert run.world.posts[me].fetched(4, 0).tolist() == [0.0] * 4


def noting(world: Processes, rank: int) -> list[tuple[int, bytes]]:
    """The notes that come to a process, with their sources."""
    notes: list[tuple[int, bytes]] = []
    world.posts[rank].on_note = lambda source, note: notes.append((source, bytes(note)))
    return notes


def test_what_a_dead_process_has_left_in_the_transport_is_not_taken_for_its_successors() -> None:
    world = Processes(Puppets(), 3, BUCKETS)
    mailbox, notes = world.posts[2], noting(world, 2)
    world.posts[1].tell(1, 2, b"received")
    mailbox.poll()
    mailbox.tell(2, 1, b"sent")
    mailbox.tell(2, 0, b"sent")
    assert (mailbox.sent, mailbox.received) == ({0: 1, 1: 1}, {1: 1})
    mailbox.lose([1])
    world.posts[1].tell(1, 2, b"left behind")
    world.posts[0].tell(0, 2, b"of another")
    mailbox.close()
    mailbox.renew([1])
    assert (mailbox.sent, mailbox.received) == ({0: 1}, {}), "a new process counts from 0"
    world.posts[1].tell(1, 2, b"of the newcomer")
    assert not mailbox.take_up_to({0: 1, 1: 1}), "the newcomer's frame is to come"
    mailbox.poll()
    assert mailbox.take_up_to({0: 1, 1: 1})
    assert notes == [(1, b"received"), (0, b"of another"), (1, b"of the newcomer")]
    assert mailbox.living([0, 1]) == [0, 1]


def test_without_newcomers_nothing_is_read_and_the_lost_stay_lost() -> None:
    world = Processes(Puppets(), 3, BUCKETS)
    mailbox, notes = world.posts[2], noting(world, 2)
    mailbox.lose([1])
    mailbox.close()
    world.posts[0].tell(0, 2, b"waits")
    mailbox.renew([])
    assert mailbox.num_kept == 0
    mailbox.poll()
    assert mailbox.take_up_to({0: 1})
    assert notes == [(0, b"waits")]
    assert mailbox.living([0, 1]) == [0]


def test_only_the_successors_of_newcomers_places_are_heard_again() -> None:
    world = Processes(Puppets(), 3, BUCKETS)
    mailbox, notes = world.posts[2], noting(world, 2)
    mailbox.lose([0, 1])
    mailbox.renew([0])
    for source in (0, 1):
        world.posts[source].tell(source, 2, b"here")
    mailbox.poll()
    assert notes == [(0, b"here")]


def test_what_waits_for_a_lost_process_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    mailbox = Processes(Puppets(), 3, BUCKETS).posts[2]
    forgotten: list[list[int]] = []
    monkeypatch.setattr(mailbox.transport, "forget", lambda lost: forgotten.append(list(lost)))
    mailbox.lose([1, 0])
    assert forgotten == [[1, 0]]


def test_what_a_message_was_lent_is_taken_back_from_the_transport_when_its_store_changes_it() -> None:
    world = Processes(Puppets(), 2, BUCKETS)
    store, transport, body = world.stores[0], world.posts[0].transport, Buffer(PARAMS, 0)
    store.stop_user()
    operand = store.operand(body)
    world.posts[0].send(0, Send(1, "word", 3, 0, body), operand, None, is_lent=store.may_lend(body, operand))
    assert transport.lent == [(0, PARAMS, 0)]
    store.write(body, np.ones(10, np.float32))
    assert transport.taken_back == [(0, PARAMS, 0)]

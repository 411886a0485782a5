"""Steps by a quorum: facts to commands."""

from typing import Any

import pytest
from support.peers.newcomers import NEWCOMER, came_again, gives, without

from weft.core.actions import Action, Apply, Combine, Note, Send, SetTimer
from weft.core.errors import ConfigError
from weft.core.events import MembersChanged, Received, Started, TimerFired
from weft.core.names import Buffer, Result, Role, Roles, Slot
from weft.core.world import World
from weft.strategies import Quorum
from weft.testing.peers import IN0, ONE, P0, P1, TWO, is_plain, peer_of, received, tell

SUM0, CARRIED0 = Buffer("closing.sum", 0), Buffer("quorum.carried", 0)
SERVER = 4


def server_of(**options: Any) -> Any:
    """The only server of four workers, of which three are a quorum."""
    return peer_of(Quorum(**options), SERVER, num_workers=4)


def push(worker: int, clock: int, samples: float = 1.0, bucket: int = 0) -> Received:
    return received(worker, "push", clock, bucket, samples)


def pushed_by(worker: int) -> Buffer:
    return Buffer(f"quorum.from.{worker}", 0)


def kept(worker: int) -> Action:
    return Combine(pushed_by(worker), 0.0, IN0)


def answers(clock: int, *workers: int) -> list[Action]:
    return [Send(worker, "params", clock, 0, P0) for worker in workers]


def test_a_step_closes_when_a_quorum_is_in_with_the_mean_of_those_present() -> None:
    server = server_of()
    assert tell(server, push(2, 0, 4.0)) == [kept(2)]
    assert tell(server, push(0, 0, 2.0)) == [kept(0)]
    assert tell(server, push(3, 0, 2.0)) == [
        kept(3),
        *[Note("staleness", 0)] * 3,
        Combine(SUM0, 0.0, pushed_by(0), 0.25),
        Combine(SUM0, 1.0, pushed_by(2), 0.5),
        Combine(SUM0, 1.0, pushed_by(3), 0.25),
        Apply(SUM0, P0),
        *answers(1, 2, 0, 3),
    ]


def test_a_late_gradient_is_dropped_and_its_worker_computes_the_open_step() -> None:
    server = server_of()
    tell(server, push(0, 0), push(1, 0), push(2, 0))
    assert tell(server, push(3, 0)) == [kept(3), Note("dropped", 1), *answers(1, 3)]
    tell(server, push(3, 1), push(1, 1))
    assert tell(server, push(2, 1))[-3:] == answers(2, 3, 1, 2)


def test_a_late_gradient_that_is_carried_joins_the_open_step_without_counting_for_its_quorum() -> None:
    server = server_of(late="carry")
    tell(server, push(0, 0), push(1, 0), push(2, 0))
    assert tell(server, push(3, 0, 3.0)) == [kept(3), Combine(CARRIED0, 0.0, pushed_by(3), 3.0), *answers(1, 3)]
    tell(server, push(0, 1), push(1, 1))
    assert tell(server, push(3, 1))[1:] == [
        *[Note("staleness", 0)] * 3,
        Note("staleness", 1),
        Combine(SUM0, 0.0, pushed_by(0), 1 / 6),
        Combine(SUM0, 1.0, pushed_by(1), 1 / 6),
        Combine(SUM0, 1.0, pushed_by(3), 1 / 6),
        Combine(SUM0, 1.0, CARRIED0, 1 / 6),
        Apply(SUM0, P0),
        *answers(2, 0, 1, 3),
    ]
    assert tell(server, push(2, 1))[1] == Combine(CARRIED0, 0.0, pushed_by(2), 1.0)


def test_gradients_that_are_carried_together_are_summed_by_their_samples() -> None:
    server = server_of(late="carry", backups=2)
    tell(server, push(0, 0), push(1, 0), push(2, 0, 2.0))
    assert tell(server, push(3, 0, 3.0))[1] == Combine(CARRIED0, 1.0, pushed_by(3), 3.0)
    tell(server, push(0, 1))
    assert Combine(SUM0, 1.0, CARRIED0, 1 / 7) in tell(server, push(1, 1))


def test_nothing_is_applied_when_nobody_had_samples() -> None:
    server = server_of(backups=3)
    assert tell(server, push(0, 0, 0.0)) == [kept(0), Note("staleness", 0), *answers(1, 0)]


def test_a_late_gradient_that_a_change_of_members_overtook_is_dropped() -> None:
    server = server_of(late="carry")
    tell(server, push(0, 0), push(1, 0), push(2, 0), push(3, 0))
    tell(server, MembersChanged(1, (0, 3, SERVER), "lost workers 1, 2"))
    assert tell(server, push(3, 0)) == answers(1, 3)
    tell(server, push(3, 1))
    closing = tell(server, push(0, 1))
    assert Combine(SUM0, 1.0, pushed_by(3), 1 / 2) in closing
    assert closing[-3:] == [Apply(SUM0, P0), *answers(2, 3, 0)]


def test_the_quorum_is_of_those_who_are_left() -> None:
    server = server_of(backups=1)
    tell(server, MembersChanged(1, (0, 1, SERVER), "lost workers 2, 3"))
    assert tell(server, push(1, 0))[-1:] == answers(1, 1)


def test_servers_apply_exactly_whom_the_first_names() -> None:
    first, other = (peer_of(Quorum(servers=2), me, num_workers=4, buckets=TWO) for me in (4, 5))
    tell(first, push(0, 0), push(1, 0), push(2, 0))
    told = [tell(other, push(worker, 0, bucket=1))[-1] for worker in (3, 2, 1, 0)]
    assert told == [Send(4, "whole", 0, 0, data={"workers": bits}) for bits in ("8", "c", "e", "f")]
    assert tell(first, received(5, "whole", 0, data={"workers": "e"})) == []
    named = {"members": "7", "carried": "0"}
    assert tell(first, received(5, "whole", 0, data={"workers": "f"}))[0] == Send(5, "close", 0, 0, data=named)
    closing = tell(other, received(4, "close", 0, data=named))
    assert {a.add.slot for a in closing if isinstance(a, Combine)} == {f"quorum.from.{w}" for w in (0, 1, 2)}
    assert [(a.to, a.kind, a.clock) for a in closing if isinstance(a, Send)] == [
        *[(worker, "params", 1) for worker in (2, 1, 0)],
        (4, "whole", 1),
    ]


def test_a_late_worker_gets_the_same_version_from_all_servers() -> None:
    first, other = (peer_of(Quorum(servers=2), me, num_workers=4, buckets=TWO) for me in (4, 5))
    tell(first, push(0, 0), push(1, 0), push(2, 0), received(5, "whole", 0, data={"workers": "f"}))
    assert tell(first, push(3, 0)) == [kept(3), SetTimer("patience", 0.0)]
    assert tell(first, received(5, "whole", 0, data={"workers": "f"})) == []
    assert tell(first, received(5, "whole", 1, data={"workers": "8"})) == [
        Send(5, "release", 1, 0, data={"workers": "8"}),
        Note("dropped", 1),
        *answers(1, 3),
    ]
    tell(other, *(push(worker, 0, bucket=1) for worker in range(4)))
    tell(other, received(4, "close", 0, data={"members": "7", "carried": "0"}))
    assert tell(other, received(4, "release", 1, data={"workers": "8"})) == [Send(3, "params", 1, 1, P1)]


def test_what_a_missed_close_carried_is_made_up_for() -> None:
    other = peer_of(Quorum(servers=2, late="carry", backups=2), 5, num_workers=4, buckets=TWO)
    tell(other, *(push(worker, 0, bucket=1) for worker in range(4)))
    tell(other, received(4, "close", 0, data={"members": "3", "carried": "0"}))
    tell(other, received(4, "release", 1, data={"workers": "4"}))
    tell(other, push(0, 1, bucket=1), push(1, 1, bucket=1), push(2, 1, bucket=1))
    tell(other, MembersChanged(1, (0, 1, 2, 3, 4, 5), "somebody else"))
    made_up = tell(other, received(4, "closed", 2, data={"members": "3", "carried": "c"}))
    assert made_up[0] == Combine(Buffer("quorum.carried", 1), 1.0, Buffer("quorum.from.3", 1), 1.0)
    assert {a.add.slot for a in made_up[1:] if isinstance(a, Combine)} == {
        "quorum.from.0",
        "quorum.from.1",
        "quorum.carried",
    }
    assert other.clock == 2


def test_who_lets_others_wait_for_too_long_is_not_counted_until_it_pushes_again() -> None:
    server = server_of(patience=3.0)
    for now, worker in ((1.0, 0), (1.5, 1), (2.0, 2)):
        server.handle(push(worker, 0), now)
    assert server.handle(push(0, 1), 5.0)[-1] == SetTimer("patience", 5.0 + 3.0 * 2.0)
    assert server.handle(push(1, 1), 6.0) == [kept(1)]
    assert list(server.handle(TimerFired("patience"), 11.0))[-3:] == [
        Apply(SUM0, P0, scale=2 / 3),
        *answers(2, 0, 1),
    ]
    assert server.absent == {2, 3}
    server.handle(push(1, 2), 12.0)
    assert list(server.handle(push(0, 2), 12.5))[-2:] == answers(3, 1, 0)
    assert list(server.handle(push(2, 1), 13.0)) == [kept(2), Note("dropped", 1), *answers(3, 2)]
    assert server.absent == {3}


def test_patience_ends_for_the_step_for_which_it_was_set() -> None:
    server = server_of()
    tell(server, push(0, 0), push(1, 0), push(2, 0), push(0, 1), push(1, 1), push(2, 1))
    assert tell(server, TimerFired("patience")) == []
    assert server.absent == set()


def test_patience_begins_again_when_nothing_is_whole_everywhere() -> None:
    first = peer_of(Quorum(servers=2), 4, num_workers=4, buckets=TWO)
    for worker in range(3):
        tell(first, push(worker, 0))
    tell(first, received(5, "whole", 0, data={"workers": "7"}), push(0, 1))
    assert tell(first, TimerFired("patience")) == []
    assert tell(first, received(5, "whole", 1, data={"workers": "1"})) == [SetTimer("patience", 0.0)]
    assert first.absent == set()


def test_a_step_is_as_long_as_the_servers_own_clock_says() -> None:
    server = server_of(backups=3, patience=2.0)
    server.handle(Started(0), -10.0)
    server.handle(push(0, 0), -9.5)
    assert server.lengths_s == [0.5]


@pytest.mark.parametrize(
    ("recipe", "needed"),
    [
        (Quorum(), [1, 2, 3, 3, 4, 6]),
        (Quorum(fraction=1.0), [1, 2, 3, 4, 5, 8]),
        (Quorum(fraction=0.001), [1, 1, 1, 1, 1, 1]),
        (Quorum(backups=0), [1, 2, 3, 4, 5, 8]),
        (Quorum(backups=2), [1, 1, 1, 2, 3, 6]),
    ],
)
def test_how_many_close_a_step(recipe: Quorum, needed: list[int]) -> None:
    assert [recipe.num_needed(num_workers) for num_workers in (1, 2, 3, 4, 5, 8)] == needed


def test_rounding_does_not_add_a_worker() -> None:
    assert Quorum(fraction=0.55).num_needed(20) == 11


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"fraction": 0.5, "backups": 1},
            "fraction is 0.5 and backups is 1, but either says how many are waited for.\n"
            "  Use 'quorum(fraction=0.5)' or 'quorum(backups=1)'.",
        ),
        (
            {"fraction": 0.0},
            "fraction is 0.0, but it is a share of the workers: above 0, at most 1.\n  Use 'quorum(fraction=0.75)'.",
        ),
        (
            {"fraction": 1.01},
            "fraction is 1.01, but it is a share of the workers: above 0, at most 1.\n  Use 'quorum(fraction=0.75)'.",
        ),
        (
            {"backups": -1},
            "backups is -1, but it counts workers that are not waited for.\n"
            "  Use 'quorum(backups=1)', or 'ps' to wait for all.",
        ),
        ({"late": "wait"}, "late is 'wait', but it is 'drop' or 'carry'.\n  Use 'quorum(late=drop)'."),
        ({"patience": 0.0}, "patience is 0.0, but a step takes time.\n  Use 'quorum(patience=10)', or more."),
        ({"servers": 0}, "servers is 0, but the parameters must live on at least 1.\n  Use 'quorum(servers=1)'."),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Quorum(**options)
    assert str(caught.value) == message


def test_somebody_must_be_waited_for() -> None:
    assert Quorum(backups=3, servers=2).roles(4) == Roles(4, 2)
    with pytest.raises(ConfigError) as caught:
        Quorum(backups=4).roles(4)
    assert str(caught.value) == (
        "backups is 4, but there are 4 workers, and at least 1 is waited for.\n"
        "  Use 'quorum(backups=3)' or fewer, or 'quorum(fraction=0.75)'."
    )


def test_a_server_keeps_the_push_of_each_worker_apart() -> None:
    world = World(Roles(2, 1), ONE)
    assert Quorum().slots(Role.SERVER, world) == (
        Slot("closing.sum"),
        Slot("quorum.from.0"),
        Slot("quorum.from.1"),
    )
    assert set(Quorum(late="carry").slots(Role.SERVER, world)) - set(Quorum().slots(Role.SERVER, world)) == {
        Slot("quorum.carried")
    }
    assert Quorum().slots(Role.WORKER, world) == ()
    assert Quorum().result is Result.SERVERS
    assert not Quorum().keeps_step


def test_snapshots_are_plain() -> None:
    server = server_of()
    tell(server, push(0, 0), push(1, 0), push(2, 0), push(0, 1))
    assert server.snapshot()["lengths_s"] == [0.0]
    assert is_plain(server)


def test_a_newcomer_counts_for_the_quorum_of_the_open_step() -> None:
    server = server_of()
    server.absent = {NEWCOMER}
    tell(server, without(5), *(push(worker, 0) for worker in (0, 2, 3)))
    assert tell(server, came_again(5)) == [gives(1)]
    assert (server.num_needed(), server.absent) == (3, set())
    tell(server, push(NEWCOMER, 1), push(0, 1))
    assert tell(server, push(3, 1))[-3:] == answers(2, NEWCOMER, 0, 3)

"""The coordinator of Sandblaster: facts to commands."""

from random import Random
from typing import Any

import pytest
from support.peers.newcomers import NEWCOMER, came_again, gives

from weft.core.actions import Action, Apply, Combine, Note, Send
from weft.core.errors import ConfigError
from weft.core.events import MembersChanged, Received, Returned, Started
from weft.core.names import INBOX, Bucket, Buffer, Roles
from weft.core.world import World
from weft.strategies import Sandblaster
from weft.strategies.parts.coordinator import Dealing
from weft.testing.peers import IN0, IN1, ONE, P0, P1, TWO, bodiless, is_plain, peer_of, received, refusal, tell

COORDINATOR = 3
S0, S1 = Buffer("sandblaster.sum", 0), Buffer("sandblaster.sum", 1)


def coordinator(buckets: tuple[Bucket, ...] = ONE, **options: Any) -> Any:
    return peer_of(Sandblaster(**options), COORDINATOR, buckets=buckets)


def ask(worker: int, num_portions: int = 2, clock: int = 0) -> Received:
    return received(worker, "ask", clock, data={"portions": num_portions})


def result(worker: int, portion: int | None, weight: float = 1.0, bucket: int = 0, clock: int = 0) -> Received:
    data = None if portion is None else {"portion": portion}
    return Received(worker, "result", clock, bucket, Buffer(INBOX, bucket), weight, data)


def skipped(worker: int, portion: int) -> Received:
    return received(worker, "skipped", data={"portion": portion})


def handed(worker: int, portion: int, clock: int = 0) -> Send:
    return Send(worker, "portion", clock, 0, data={"portion": portion})


def parameters(clock: int, workers: tuple[int, ...] = (0, 1, 2)) -> list[Action]:
    return [Send(worker, "params", clock, 0, P0) for worker in workers]


def lost(*workers: int, view: int = 1, reason: str = "lost worker") -> MembersChanged:
    return MembersChanged(view, tuple(node for node in range(4) if node not in workers), reason)


def test_a_coordinator_begins_with_nothing_to_do() -> None:
    assert tell(coordinator(), Started(0)) == []
    assert coordinator().waiting_for() == "workers to ask for portions"


def test_portions_are_handed_out_in_order_to_whoever_asks() -> None:
    peer = coordinator()
    assert tell(peer, ask(2)) == [handed(2, 0)]
    assert tell(peer, ask(0)) == [handed(0, 1)]
    assert peer.waiting_for() == "2 of 2 portions of pass 0"


def test_gradients_are_summed_by_their_samples_and_divided_by_all_of_them_when_the_whole_batch_is_in() -> None:
    peer = coordinator()
    tell(peer, ask(0), ask(1))
    assert tell(peer, result(1, 1, weight=6.0)) == [Combine(S0, 0.0, IN0, 6.0)]
    assert peer.waiting_for() == "1 of 2 portions of pass 0"
    assert tell(peer, result(0, 0, weight=2.0)) == [
        Combine(S0, 1.0, IN0, 2.0),
        Combine(S0, 1 / 8),
        Apply(S0, P0, "lbfgs"),
        *parameters(1),
    ]
    assert peer.waiting_for() == "workers to ask for portions"


def test_all_buckets_are_updated_together_and_go_to_all_workers() -> None:
    peer = coordinator(TWO)
    tell(peer, ask(0, 1))
    assert tell(peer, result(0, 0, 4.0)) == [Combine(S0, 0.0, IN0, 4.0)]
    assert tell(peer, result(0, 0, 4.0, bucket=1)) == [
        Combine(S1, 0.0, IN1, 4.0),
        Combine(S0, 1 / 4),
        Combine(S1, 1 / 4),
        Apply(S0, P0, "lbfgs"),
        Apply(S1, P1, "lbfgs"),
        *parameters(1),
        *[Send(worker, "params", 1, 1, P1) for worker in range(3)],
    ]


def test_the_next_pass_begins_with_an_empty_sum() -> None:
    peer = coordinator()
    tell(peer, ask(0, 1), result(0, 0))
    assert tell(peer, ask(0, 1, clock=1)) == [handed(0, 0, clock=1)]
    assert tell(peer, result(0, 0, clock=1))[0] == Combine(S0, 0.0, IN0, 1.0)


def test_when_none_is_left_a_copy_of_the_portion_that_has_been_out_longest_is_handed_out() -> None:
    peer = coordinator()
    tell(peer, ask(2), ask(0), ask(1))
    assert peer.dealing.out == {0: [2, 1], 1: [0]}
    tell(peer, result(1, 0))
    assert tell(peer, ask(1)) == [Note("backups", 1.0), handed(1, 1)]


def test_a_portion_is_given_twice_at_most() -> None:
    peer = coordinator()
    tell(peer, ask(0, 1), ask(1, 1))
    assert tell(peer, ask(2, 1)) == []
    assert peer.idle == [2]


def test_without_backups_who_asks_when_none_is_left_waits_for_the_end_of_the_pass() -> None:
    peer = coordinator(backups=False)
    tell(peer, ask(0, 1))
    assert tell(peer, ask(1, 1)) == []
    assert tell(peer, result(0, 0))[-3:] == parameters(1)
    assert peer.idle == []


def test_the_first_result_of_a_portion_counts_and_the_second_is_dropped() -> None:
    peer = coordinator()
    tell(peer, ask(0), ask(1), ask(2))
    assert peer.dealing.out == {0: [0, 2], 1: [1]}
    assert tell(peer, result(2, 0)) == [Combine(S0, 0.0, IN0, 1.0)]
    assert tell(peer, result(0, 0)) == [Note("dropped", 1.0)]
    assert peer.shards[0].samples == 1.0


def test_copies_that_come_bucket_by_bucket_count_once_in_every_bucket() -> None:
    peer = coordinator(TWO)
    tell(peer, ask(0), ask(1), ask(2), result(0, 0))
    assert tell(peer, result(2, 0)) == [Note("dropped", 1.0)]
    assert tell(peer, result(2, 0, bucket=1)) == [Combine(S1, 0.0, IN1, 1.0)]
    assert tell(peer, result(0, 0, bucket=1)) == [], "noted with its first bucket"
    assert peer.dealing.out == {1: [1]}


def test_a_result_that_comes_after_the_end_of_its_pass_is_dropped() -> None:
    peer = coordinator(TWO)
    tell(peer, ask(0, 1), ask(1, 1), result(0, 0), result(0, 0, bucket=1))
    assert tell(peer, result(1, 0)) == [Note("dropped", 1.0)]
    assert tell(peer, result(1, 0, bucket=1)) == []
    assert tell(peer, ask(1, 1)) == [], "its answer, the parameters, is on the way"


def test_a_result_of_somebody_who_was_not_given_the_portion_is_dropped() -> None:
    peer = coordinator()
    tell(peer, ask(0))
    assert tell(peer, result(1, 0)) == [Note("dropped", 1.0)]


def test_a_portion_that_led_to_no_step_counts_for_nothing() -> None:
    peer = coordinator()
    tell(peer, ask(0), ask(1), skipped(0, 0))
    assert tell(peer, result(1, 1, weight=3.0))[:2] == [Combine(S0, 0.0, IN0, 3.0), Combine(S0, 1 / 3)]
    assert tell(coordinator(), skipped(0, 0)) == []


def test_a_pass_of_no_samples_changes_nothing_but_begins_the_next() -> None:
    peer = coordinator()
    tell(peer, ask(0), ask(1), skipped(0, 0))
    assert tell(peer, result(1, 1, weight=0.0)) == [Combine(S0, 0.0, IN0, 0.0), *parameters(1)]
    tell(peer, ask(0, 1, clock=1))
    assert tell(peer, received(0, "skipped", 1, data={"portion": 0})) == parameters(2)


def test_batches_of_the_workers_own_are_a_pass_when_all_have_brought_one() -> None:
    peer = coordinator()
    assert tell(peer, result(1, None, 2.0)) == [Combine(S0, 0.0, IN0, 2.0)]
    assert peer.waiting_for() == "the batch of worker 0, 2 in pass 0"
    assert tell(peer, result(0, None, 1.0)) == [Combine(S0, 1.0, IN0, 1.0)]
    assert tell(peer, result(1, None, 2.0)) == [Note("dropped", 1.0)]
    assert tell(peer, result(2, None, 1.0))[1:] == [Combine(S0, 1 / 4), Apply(S0, P0, "lbfgs"), *parameters(1)]


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        (ask(0, 2), ask(1, 3), "3 portions, but others have 2 portions"),
        (ask(0, 2), result(1, None), "a batch of its own, but others have 2 portions"),
        (result(0, None), ask(1, 3), "3 portions, but others have a batch of its own"),
    ],
)
def test_workers_that_share_differently_are_told_so(first: Received, second: Received, said: str) -> None:
    peer = coordinator()
    tell(peer, first)
    with pytest.raises(ConfigError) as refused:
        tell(peer, second)
    expected = f"worker 1 came to pass 0 with {said}.\n  Let all workers share the same data, equally often."
    assert str(refused.value) == expected


def test_a_lost_workers_portion_is_handed_out_again() -> None:
    peer = coordinator(backups=False)
    tell(peer, ask(0), ask(1), ask(2))
    assert tell(peer, lost(1)) == [handed(2, 1)]
    assert tell(peer, lost(1, 2, view=2)) == []
    assert peer.dealing.left == [1]
    assert tell(peer, result(0, 0)) == [Combine(S0, 0.0, IN0, 1.0)]
    assert tell(peer, ask(0)) == [handed(0, 1)]
    assert tell(peer, result(0, 1))[-1:] == parameters(1, (0,))


def test_a_portion_of_which_a_lost_worker_has_sent_some_buckets_counts_once_in_each() -> None:
    peer = coordinator(TWO, backups=False)
    tell(peer, ask(0, 1), ask(1, 1), result(0, 0, 5.0))
    assert tell(peer, lost(0)) == [handed(1, 0)]
    assert tell(peer, result(1, 0, 5.0)) == [Note("dropped", 1.0)]
    assert tell(peer, result(1, 0, 5.0, bucket=1))[:3] == [
        Combine(S1, 0.0, IN1, 5.0),
        Combine(S0, 1 / 5),
        Combine(S1, 1 / 5),
    ]


def test_a_portion_that_another_computes_as_well_stays_with_it() -> None:
    peer = coordinator()
    tell(peer, ask(0, 1), ask(1, 1), ask(2, 1))
    assert tell(peer, lost(0)) == [Note("backups", 1.0), handed(2, 0)]
    assert peer.dealing.out == {0: [1, 2]}


def test_a_lost_workers_own_batch_is_not_waited_for() -> None:
    peer = coordinator()
    tell(peer, result(0, None), result(1, None))
    assert tell(peer, lost(2)) == [Combine(S0, 1 / 2), Apply(S0, P0, "lbfgs"), *parameters(1, (0, 1))]


def test_a_pass_to_which_a_lost_worker_brought_some_of_its_batch_begins_again() -> None:
    peer = coordinator(TWO)
    tell(peer, result(2, None), result(0, None), result(0, None, bucket=1))
    both = [Send(worker, "params", 0, b, Buffer("params", b)) for b in range(2) for worker in (0, 1)]
    assert tell(peer, lost(2)) == both
    assert tell(peer, result(0, None)) == [Combine(S0, 0.0, IN0, 1.0)]


def test_a_change_of_members_in_a_pass_that_nobody_has_come_to_changes_nothing() -> None:
    assert tell(coordinator(), lost(2, reason="finished worker 2")) == []
    alone = coordinator()
    tell(alone, result(0, None))
    assert tell(alone, lost(0, 1, 2)) == [], "nobody is left"


def test_who_asks_again_because_the_pass_began_again_is_not_given_a_second_portion() -> None:
    peer = coordinator(backups=False)
    tell(peer, ask(0, 1), ask(1, 1))
    assert tell(peer, ask(0, 1)) == []
    assert tell(peer, ask(1, 1)) == []
    assert (peer.dealing.out, peer.idle) == ({0: [0]}, [1])


def test_what_did_not_arrive_is_sent_again_to_those_who_are_left() -> None:
    peer = coordinator()
    tell(peer, ask(0), ask(1), lost(1))
    back = [Returned(w, "portion", 0, 0, None, 1.0, {"portion": w}, view=0) for w in range(2)]
    assert tell(peer, back[0]) == [handed(0, 0)]
    assert tell(peer, back[1]) == []


def moved(num_workers: int = 3) -> Any:
    """A coordinator that was moved: a fresh one, told of a later view and of its members."""
    peer: Any = Sandblaster().peer(num_workers, World(Roles(num_workers, 1), ONE, view=2), Random(0))
    assert tell(peer, Started(2)) == [Note("curvature_lost", 1.0)]
    members = MembersChanged(2, tuple(range(num_workers + 1)), "lost worker 9; moved server 0")
    assert tell(peer, members) == [Send(worker, "moved", 0, 0) for worker in range(num_workers)]
    return peer


def test_a_coordinator_that_was_moved_fetches_the_newest_parameters_and_begins_the_pass_again() -> None:
    peer = moved()
    assert peer.waiting_for() == "the parameters that the workers have"
    assert tell(peer, bodiless(0, "have", 4), bodiless(2, "have", 5)) == []
    assert tell(peer, bodiless(1, "have", 5)) == [Send(1, "fetch", 5, 0)]
    assert tell(peer, received(1, "kept", 5)) == [Combine(P0, 0.0, IN0), *parameters(5)]
    assert tell(peer, ask(0, 2, clock=5)) == [handed(0, 0, clock=5)]


def test_what_comes_to_a_coordinator_without_parameters_is_answered_by_the_beginning_of_the_pass() -> None:
    peer = moved()
    tell(peer, bodiless(0, "have", 5))
    assert tell(peer, ask(0, 2, clock=5)) == []
    assert tell(peer, result(0, 1, clock=5)) == []
    assert tell(peer, received(0, "kept", 5)) == [], "nobody was asked"


def test_if_the_worker_with_the_newest_parameters_is_lost_the_next_best_is_asked() -> None:
    peer = moved()
    tell(peer, bodiless(0, "have", 3), bodiless(1, "have", 4), bodiless(2, "have", 5))
    assert tell(peer, lost(0, view=3)) == [], "worker 2 is still there"
    assert tell(peer, lost(0, 2, view=4)) == [Send(1, "fetch", 4, 0)]
    assert tell(peer, received(1, "kept", 4))[1:] == parameters(4, (1,))


def test_a_worker_that_was_lost_before_it_said_what_it_has_is_not_waited_for() -> None:
    peer = moved()
    tell(peer, bodiless(0, "have", 3), bodiless(1, "have", 4))
    assert tell(peer, lost(2, view=3)) == [Send(1, "fetch", 4, 0)]


def test_what_workers_repeat_because_they_had_told_another_coordinator_before_is_ignored() -> None:
    peer = coordinator()
    assert tell(peer, bodiless(0, "have", 3)) == []
    assert tell(peer, received(0, "kept", 3)) == []


def test_what_it_does_not_know_is_refused() -> None:
    said = "server 0 received '{}' (clock {}, bucket {}) from worker 0, which Coordinator does not expect now."
    peer = coordinator()
    tell(peer, ask(0))
    assert refusal(peer, received(0, "push")) == said.format("push", 0, 0)
    assert refusal(peer, ask(0, 2, clock=1)) == said.format("ask", 1, 0)
    assert refusal(peer, result(0, 0, bucket=7)) == said.format("result", 0, 7)
    assert refusal(peer, Received(0, "result", 0, 0, None, 1.0, {"portion": 0})) == said.format("result", 0, 0)
    asked = moved(1)
    tell(asked, bodiless(0, "have", 3))
    assert refusal(asked, bodiless(0, "kept", 3)) == said.format("kept", 3, 0)


def test_its_snapshot_is_plain() -> None:
    peer = coordinator()
    tell(peer, ask(0), result(0, 0, 2.0), ask(2))
    assert peer.snapshot() == {
        "step": 0,
        "clock": 0,
        "versions": None,
        "has_asked": False,
        "source": None,
        "missing": [],
        "num_portions": 2,
        "dealing": {"left": [], "out": {"1": [2]}},
        "idle": [],
        "shards": {"0": {"counted": [0], "samples": 2.0, "is_empty": False}},
    }
    assert is_plain(peer)
    assert is_plain(moved())


def test_dealing_counts_a_portion_as_done_when_its_end_is_told() -> None:
    dealing = Dealing(2)
    assert [dealing.give(0), dealing.give(1), dealing.give(2)] == [0, 1, None]
    assert dealing.has_any(0)
    dealing.end(0)
    assert not dealing.has_any(0)
    assert not dealing.is_done
    dealing.end(1)
    assert dealing.is_done
    assert dealing.copy(2) is None


def test_a_newcomer_is_given_the_parameters_of_the_pass_and_takes_part_in_it() -> None:
    peer = coordinator(TWO)
    tell(peer, lost(NEWCOMER), ask(0, 3), ask(2, 3))
    assert tell(peer, came_again(4)) == [gives(0, 0), gives(0, 1)]
    assert tell(peer, ask(NEWCOMER, 3)) == [handed(NEWCOMER, 2)]

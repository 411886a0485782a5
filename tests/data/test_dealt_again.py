"""Samples of lost workers are dealt again: every sample counts once, and all workers compute the same rounds."""

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from support.scripts.share_scripts import all_committed, scripts

from weft.data.dealt_again import DealtAgain, Result, ShareRound, ShareRounds
from weft.data.share_records import Reached, Redealing


def parts(*worker_parts: tuple[Sequence[int], int]) -> list[tuple[list[int], int]]:
    return [(list(places), num_counted) for places, num_counted in worker_parts]


BEFORE, TAKEN, REDUCED = "before the round", "when all have taken their part", "when the round is reduced"


@settings(max_examples=300, deadline=None)
@given(
    chance=st.randoms(use_true_random=False),
    num_workers=st.integers(2, 6),
    extra=st.integers(0, 40),
    batch_size=st.integers(1, 4),
    size=st.none() | st.integers(1, 12),
    losses=st.lists(st.tuples(st.integers(0, 5), st.sampled_from([BEFORE, TAKEN, REDUCED])), max_size=5),
)
def test_workers_that_keep_step_use_every_sample_once_whenever_some_are_lost(
    chance: Random,
    num_workers: int,
    extra: int,
    batch_size: int,
    size: int | None,
    losses: list[tuple[int, str]],
) -> None:
    """Each loss comes so many rounds after the one before; several may come in a round."""
    num_samples = num_workers + extra
    team, live = scripts(num_workers), set(range(num_workers))
    for script in team.values():
        script.begin(num_samples, batch_size, size)
    due = losses[: num_workers - 1]
    rounds_until = due[0][0] if due else None

    def lose_some(moment: str) -> None:
        nonlocal rounds_until
        while due and rounds_until == 0 and due[0][1] == moment:
            rank = chance.choice(sorted(live))
            live.remove(rank)
            if moment == REDUCED:
                team[rank].count()
            members = {other: team[other].dealt.reached() for other in live}
            for other in live:
                is_reduced = moment == REDUCED and bool(team[other].taken)
                team[other].dealt.lose({rank: team[other].dealt.reached(is_reduced=is_reduced)}, members)
            del due[0]
            rounds_until = due[0][0] if due else None

    def num_rounds_left() -> int:
        (number,) = {len(team[rank].left) for rank in live}
        return number

    while True:
        lose_some(BEFORE)
        if not num_rounds_left():
            break
        for rank in live:
            team[rank].take()
        lose_some(TAKEN)
        for rank in live:
            if chance.random() < 0.5:  # the others are told the loss before their scripts go on
                team[rank].commit()
        lose_some(REDUCED)
        for rank in live:
            team[rank].commit()
        rounds_until = max(rounds_until - 1, 0) if rounds_until else rounds_until
    assert all_committed(list(team.values())) == Counter((0, place) for place in range(num_samples))
    assert {team[rank].dealt.num_unused for rank in live} == {0}


@settings(max_examples=300, deadline=None)
@given(
    chance=st.randoms(use_true_random=False),
    num_workers=st.integers(2, 5),
    extra=st.integers(0, 20),
    batch_size=st.integers(1, 3),
    num_shares=st.integers(1, 4),
    loss_chance=st.sampled_from([0.02, 0.1, 0.3]),
)
def test_workers_at_their_own_pace_use_a_sample_once_or_count_it_as_unused(
    chance: Random, num_workers: int, extra: int, batch_size: int, num_shares: int, loss_chance: float
) -> None:
    num_samples = num_workers + extra
    team, running = scripts(num_workers), {}
    live = set(team)
    for rank, script in team.items():
        script.begin(num_samples, batch_size)
        running[rank] = 1
    while running:
        rank = chance.choice(sorted(running))
        script = team[rank]
        if len(live) > 1 and chance.random() < loss_chance:
            live.discard(rank)
            del running[rank]
            members = {other: team[other].dealt.reached() for other in live}
            for other in live:
                team[other].dealt.lose({rank: script.published}, members)
        elif script.taken:
            script.commit()
        elif script.left:
            script.take()
        else:
            script.dealt.end(script.rounds)
            if running[rank] == num_shares:
                del running[rank]
            else:
                running[rank] += 1
                script.begin(num_samples, batch_size)
    committed = all_committed(list(team.values()))
    assert max(committed.values()) == 1
    (num_unused,) = {team[rank].dealt.num_unused for rank in live}
    begun = max(script.dealt.reached().begun for script in team.values())
    assert sum(committed.values()) + num_unused == begun * num_samples


def share_rounds(
    spans: Sequence[tuple[int, int]], num_workers: int, size: int | None, batch_size: int
) -> dict[int, ShareRounds]:
    """The rounds of a share, as each worker computes them."""
    workers = range(num_workers)
    rounds = [ShareRound(range(start, stop), workers) for start, stop in spans]
    return {worker: ShareRounds(0, worker, rounds, size, batch_size) for worker in workers}


def test_a_lost_workers_part_of_a_round_is_cut_into_a_round_for_those_who_are_left() -> None:
    rounds = share_rounds([(0, 6), (6, 12)], 3, None, 2)
    for worker in (0, 2):
        rounds[worker].take()
        assert rounds[worker].deal(Redealing({1: 1}, [0, 2])) == 0
    assert parts(*rounds[0].parts()) == parts(([6, 7], 2), ([8, 9], 2))
    assert parts(*rounds[2].parts()) == parts(([10, 11], 2), ([8, 8], 0))


@pytest.mark.parametrize("batch_size", [1, 2, 3])
@pytest.mark.parametrize("num_takers", range(1, 5))
@pytest.mark.parametrize("num_left", range(1, 10))
def test_of_what_is_dealt_again_nobody_gets_a_batch_of_one_and_every_sample_counts_once(
    num_left: int, num_takers: int, batch_size: int
) -> None:
    takers, lost = list(range(num_takers)), num_takers
    divided = []
    for worker in takers:
        rounds = ShareRounds(0, worker, [ShareRound(range(num_left), [lost])], None, batch_size)
        assert rounds.deal(Redealing({lost: 0}, takers)) == 0
        divided.append(rounds.parts())
    assert len({len(each) for each in divided}) == 1, "all make the same number of steps"
    dealt = [part for each in divided for part in each]
    assert all(len(part.places) >= 2 for part in dealt)
    assert Counter(place for part in dealt for place in part.places[: part.num_counted]) == Counter(range(num_left))


def test_with_fewer_than_two_samples_for_each_some_stand_in_and_a_single_one_is_given_twice() -> None:
    one, three = ShareRound([7], [0, 2, 3]), ShareRound([7, 8, 9], [0, 2, 3])
    assert [one.part(worker) for worker in (0, 2, 3)] == [([7, 7], 1), ([7, 7], 0), ([7, 7], 0)]
    assert [three.part(worker) for worker in (0, 2, 3)] == [([7, 8, 9], 3), ([7, 7], 0), ([7, 7], 0)]


def test_what_a_worker_stands_in_with_is_not_dealt_again_and_what_is_given_twice_is_dealt_once() -> None:
    rounds = share_rounds([(0, 3)], 3, None, 1)
    for worker in (0, 1):
        rounds[worker].take()
        rounds[worker].deal(Redealing({2: 0}, [0, 1]))
    assert parts(*rounds[0].parts()) == parts(([2, 2], 1))
    assert parts(*rounds[1].parts()) == parts(([2, 2], 0))
    rounds[0].deal(Redealing({1: 1}, [0]))
    assert parts(*rounds[0].parts()) == parts(([2, 2], 1)), "worker 1 only stood in"
    rounds[1].deal(Redealing({0: 1}, [1]))
    assert parts(*rounds[1].parts()) == parts(([2, 2], 0), ([2, 2], 1))


def test_a_fixed_global_batch_is_the_size_of_new_rounds_too() -> None:
    rounds = share_rounds([(0, 12), (12, 24), (24, 36), (36, 48)], 3, 12, 1)
    for worker in (1, 2):
        rounds[worker].deal(Redealing({0: 0}, [1, 2]))
        assert [len(part.places) for part in rounds[worker].parts()] == [4, 4, 4, 4, 6, 2]


def test_a_worker_that_takes_the_next_part_passes_over_rounds_that_are_not_its_own() -> None:
    rounds = share_rounds([(0, 3)], 3, None, 1)[0]
    rounds.deal(Redealing({2: 0}, [1]))
    rounds.deal(Redealing({1: 0}, [0]))
    assert parts(*rounds.parts()) == parts(([0], 1), ([1, 2], 2))
    rounds.take()
    assert rounds.num_taken == 1
    rounds.take()
    assert rounds.num_taken == 3, "the round of worker 1 alone comes between"
    assert rounds.parts() == []


def test_shares_that_somebody_has_begun_keep_their_division_and_later_ones_have_that_of_the_members() -> None:
    team = scripts(3)
    for script in team.values():
        script.begin(12, 2)
    ahead, behind = team[0], team[1]
    ahead.dealt.end(ahead.rounds)
    ahead.begin(12, 2)
    members = {rank: team[rank].dealt.reached() for rank in (0, 1)}
    for rank in (0, 1):
        team[rank].dealt.lose({2: Reached(1, {0: 2})}, members)
    assert len(behind.left) == 2, "of share 0 worker 2 had committed all"
    behind.dealt.end(behind.rounds)
    behind.begin(12, 2)
    assert parts(*ahead.left) == parts(([0, 1], 2), ([6, 7], 2), ([4, 5], 2))
    assert parts(*behind.left) == parts(([2, 3], 2), ([8, 9], 2), ([10, 11], 2))
    for script in (ahead, behind):
        script.dealt.end(script.rounds)
        script.begin(12, 2)
    assert parts(*ahead.left) == parts(([0, 1], 2), ([4, 5], 2), ([8, 9], 2))
    assert parts(*behind.left) == parts(([2, 3], 2), ([6, 7], 2), ([10, 11], 2))


def test_shares_that_one_had_begun_whose_script_has_ended_keep_their_division() -> None:
    team = scripts(3)
    members = {rank: team[rank].dealt.reached() for rank in (0, 1)}
    for rank in (0, 1):
        team[rank].dealt.lose({}, members, num_begun=1)  # worker 2 has used its part of the only share
        team[rank].begin(12, 2)
    assert parts(*team[0].left) == parts(([0, 1], 2), ([6, 7], 2))
    assert parts(*team[1].left) == parts(([2, 3], 2), ([8, 9], 2))


def test_a_share_that_is_begun_while_the_members_change_is_divided_among_the_new_ones() -> None:
    def when_dealt(look: Callable[[], Result]) -> Result:
        dealt.lose({2: Reached(0, {})}, {0: dealt.reached(), 1: Reached(0, {})})
        return look()

    dealt = DealtAgain(0, 3, when_dealt, lambda reached: None)
    assert parts(*dealt.begin(4, 2, False, None).parts()) == parts(([0, 1], 2))


def test_a_share_ends_when_nothing_is_left_to_a_worker_after_all_is_dealt() -> None:
    losses = [{2: Reached(1, {0: 0})}]

    def when_dealt(look: Callable[[], Result]) -> Result:
        if dealt.reached().begun and losses:
            dealt.lose(losses.pop(), {0: dealt.reached(), 1: Reached(1, {0: 1})})
        return look()

    dealt = DealtAgain(0, 3, when_dealt, lambda reached: None)
    rounds = dealt.begin(6, 2, False, None)
    rounds.take()
    assert parts(*dealt.more(rounds)) == parts(([4, 5], 2)), "what worker 2 had taken came while this one looked"
    assert dealt.reached() == Reached(1, {0: 0})
    rounds.take()
    assert dealt.more(rounds) == []
    assert dealt.reached() == Reached(1, {}), "it is ended"


def test_what_only_the_lost_worker_had_begun_stays_committed() -> None:
    team = scripts(2)
    for script in team.values():
        script.begin(4, 1)
    members = {0: team[0].dealt.reached()}
    team[0].dealt.lose({1: Reached(2, {1: 1})}, members)
    team[0].dealt.end(team[0].rounds)
    team[0].begin(4, 1)
    assert parts(*team[0].left) == parts(([0], 1), ([2], 1), ([3, 3], 1)), "worker 1 had committed sample 1"


def test_samples_of_a_share_that_all_others_have_ended_are_counted_as_unused() -> None:
    team = scripts(3)
    for script in team.values():
        script.begin(12, 2)
    for rank in (0, 1):
        team[rank].dealt.end(team[rank].rounds)
    members = {rank: team[rank].dealt.reached() for rank in (0, 1)}
    for rank in (0, 1):
        team[rank].dealt.lose({2: Reached(1, {0: 1})}, members)
    assert [team[rank].dealt.num_unused for rank in (0, 1)] == [2, 2]


def test_those_lost_together_are_dealt_in_the_same_order_whoever_was_told_which_first() -> None:
    divided = []
    for order in ([2, 3], [3, 2]):
        team = scripts(4)
        team[0].begin(8, 2)
        team[0].dealt.lose({rank: Reached(1, {0: 0}) for rank in order}, {rank: Reached(1, {0: 0}) for rank in (1, 0)})
        divided.append(parts(*team[0].left))
    assert divided == [parts(([0, 1], 2), ([4, 5], 2), ([6, 7], 2))] * 2


def test_an_evaluation_inside_a_training_share_is_dealt_again_beside_it() -> None:
    team = scripts(2)
    nested = {}
    for rank, script in team.items():
        script.begin(8, 2)
        script.take()
        script.commit()
        nested[rank] = script.dealt.begin(4, 1, False, None)
        nested[rank].take()
    dealt = team[0].dealt
    assert dealt.reached() == Reached(2, {0: 1, 1: 0})
    assert dealt.reached(is_reduced=True) == Reached(2, {0: 1, 1: 1})
    dealt.lose({1: dealt.reached()}, {0: dealt.reached()})
    assert parts(*nested[0].parts()) == parts(([2], 1), ([1, 3], 2))
    assert parts(*team[0].left) == parts(([4, 5], 2), ([6, 7], 2))
    dealt.end(nested[0])
    assert dealt.reached() == Reached(2, {0: 1})
    dealt.end(team[0].rounds)
    assert dealt.reached() == Reached(2, {})


def test_where_a_worker_is_is_published_whenever_it_changes() -> None:
    (script,) = scripts(1).values()
    script.begin(4, 2)
    assert script.published == Reached(1, {0: 0})
    script.take()
    assert script.published == Reached(1, {0: 0}), "taken, but not committed"
    script.commit()
    assert script.published == Reached(1, {0: 1})
    script.dealt.end(script.rounds)
    assert script.published == Reached(1, {})


@pytest.mark.parametrize(("share", "committed"), [(0, None), (1, 5), (2, None), (3, 0)])
def test_of_ended_shares_all_is_committed_and_of_later_ones_nothing(share: int, committed: int | None) -> None:
    reached = Reached(3, {1: 5})
    assert reached.committed(share) == committed
    assert reached.may_take(share) == (committed is not None)


@pytest.mark.parametrize(
    ("one", "other", "farther"),
    [
        (Reached(1, {0: 3}), Reached(1, {0: 5}), Reached(1, {0: 5})),
        (Reached(1, {0: 3}), Reached(1, {}), Reached(1, {})),
        (Reached(1, {0: 3}), Reached(2, {1: 0}), Reached(2, {1: 0})),
        (Reached(1, {0: 3}), Reached(2, {0: 2, 1: 4}), Reached(2, {0: 3, 1: 4})),
        (Reached(0, {}), Reached(1, {0: 0}), Reached(1, {0: 0})),
    ],
    ids=["in the same share", "one saw its end", "in the next share", "in one inside another", "one saw no beginning"],
)
def test_of_two_views_of_a_worker_the_farther_has_all_that_either_knows_to_be_committed(
    one: Reached, other: Reached, farther: Reached
) -> None:
    assert one.farther(other) == other.farther(one) == farther
    assert farther.farther(one) == farther.farther(other) == farther


def test_who_is_told_to_end_within_a_share_keeps_where_it_was_whatever_it_begins_afterwards() -> None:
    (script,) = scripts(1).values()
    script.begin(4, 1)
    script.take()
    script.commit()
    assert script.dealt.to_keep == Reached(1, {0: 1})
    script.dealt.cut()
    script.dealt.end(script.rounds)
    script.begin(4, 1)
    script.dealt.cut()
    script.dealt.end(script.rounds)
    assert script.dealt.to_keep == Reached(1, {0: 1})
    assert script.dealt.reached() == Reached(2, {})


def test_handed_rounds_begin_behind_those_that_are_taken_already() -> None:
    (script,) = scripts(1).values()
    script.begin(4, 1)
    made = ShareRounds.of(0, 0, replace(script.rounds.hand_over(), num_taken=3))
    assert (made.num_taken, made.num_committed, parts(*made.parts())) == (3, 3, parts(([3], 1)))


def test_what_is_handed_over_stays_as_it_was_when_the_script_goes_on() -> None:
    (script,) = scripts(1).values()
    script.dealt.begin_epoch(0, 0)
    script.dealt.lose({1: Reached(1, {0: 1})}, {0: script.dealt.reached()})
    handed = script.dealt.hand_over()
    script.begin(4, 1)
    assert handed.to_come == {0: [Redealing({1: 1}, [0])]}


def test_shares_that_all_have_ended_are_not_handed_over_for_ever() -> None:
    script = scripts(3)[0].dealt
    for epoch in range(6):
        script.begin_epoch(0, epoch)
        script.end(script.begin(6, 1, False, None))
    script.begin(6, 1, False, None)  # the sixth share is this epoch's first: a newcomer begins with it
    script.lose({2: Reached(7, {6: 0})}, {0: script.reached(), 1: Reached(4, {3: 1})})
    assert sorted(script.hand_over().rounds) == [3, 4, 5, 6], "worker 1 is still in share 3"
    script.welcome([2], {0: script.reached(), 1: Reached(7, {6: 0}), 2: Reached(5, {})}, 7)
    assert sorted(script.hand_over().rounds) == [5, 6]

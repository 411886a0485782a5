"""A worker whose run goes on when members change: what it says of itself and of others, and when its script goes on."""

from collections.abc import Callable
from types import SimpleNamespace

import pytest
from support.processes.teams import PLACES, RECEIVED, SENT, Team

from weft.core.script_state import IN_BACKWARD, IN_SHARE, IN_STEP, PREPARING, RUNNING
from weft.data.share_records import HandedShares, Reached
from weft.runtime.checkpoint_messages import CheckpointDue, TakePart
from weft.runtime.seats.survivor import OWN_WRITES, ToSurvivor
from weft.runtime.view_messages import (
    DealAgain,
    Freeze,
    Frozen,
    GoOn,
    HandedOver,
    LaidOut,
    LinkBroken,
    LookAsked,
    LookTold,
    LostBefore,
    RestAsked,
    RestAt,
    Resting,
    RestTold,
    StepCommitted,
    Unreached,
    ViewTaken,
    ViewTold,
)


def told(view: int, *members: int) -> ViewTold:
    return ViewTold(view, list(members), list(members), {}, "a worker died")


def joined(view: int, members: list[int], newcomers: list[int]) -> ViewTold:
    return ViewTold(view, members, members, {}, "a worker joined", newcomers, PLACES)


def handed(view: int, first: int = 4) -> HandedOver:
    """What a sponsor hands over whose script is in the second epoch of its first loop."""
    return HandedOver(view, HandedShares(0, 1, first, [0, 1], [], {}, {}, 0, 0), 3, 1, 2, b"state")


def test_the_others_can_go_on_without_a_worker_once_it_says_that_it_is_laid_out_and_where_it_listens() -> None:
    team = Team()
    assert team.begin(port=4711).said == [LaidOut(4711)]
    assert (team.hear(LostBefore([2])), team.survivor.lost_before) == ([], [2])
    team.view_change.on_unreached([1])
    assert team.said == [Unreached([1])]
    team.said.clear()
    team.survivor.link_broke(2)
    assert team.said == [LinkBroken(2)]


def test_when_frozen_it_says_what_it_has_sent() -> None:
    team = Team().begin()
    assert team.hear(Freeze(1, [2])) == [Frozen(1, SENT)]
    assert team.hear(Freeze(2, [2, 1])) == [Frozen(2, SENT)]


@pytest.mark.parametrize(
    ("at", "holds_user", "num_rounds"),
    [(RUNNING, False, 1), (IN_BACKWARD, False, 2), (IN_BACKWARD, True, 1), (IN_STEP, False, 1), (IN_SHARE, False, 1)],
)
def test_where_replicas_are_equal_a_lost_worker_was_as_far_as_this_one_with_what_is_reduced(
    at: str, holds_user: bool, num_rounds: int
) -> None:
    team = Team(holds_user=holds_user).begin()
    mine = team.take_one_of_two()
    team.script.at = at
    assert mine == Reached(1, {0: 1})
    answer = team.hear(Freeze(1, [2]), told(1, 0, 1))[1]
    assert answer == ViewTaken(1, mine, {2: Reached(1, {0: num_rounds})})


def test_the_first_step_since_a_view_is_told_of_and_no_other() -> None:
    team = Team().begin()
    team.hear(Freeze(1, [2]), told(1, 0, 1))
    team.said.clear()
    for step in (6, 7):
        team.survivor.step_is_made(step, lambda done: None)
    assert team.said == [StepCommitted(1)]


def test_where_replicas_differ_a_lost_worker_was_as_far_as_it_has_published() -> None:
    team = Team(keeps_equal=False, at=IN_BACKWARD).begin()
    mine = team.take_one_of_two()
    answer = team.hear(Freeze(2, [1, 2]), told(2, 0))[1]
    assert answer == ViewTaken(2, mine, {1: Reached(4, {3: 1}), 2: Reached(4, {3: 2})})


def test_a_view_tells_of_those_only_that_were_members_before() -> None:
    team = Team(keeps_equal=False).begin()
    nothing = Reached(0, {})
    assert team.hear(told(1, 0, 1)) == [ViewTaken(1, nothing, {2: team.others[2]})]
    assert team.hear(told(2, 0)) == [ViewTaken(2, nothing, {1: team.others[1]})]


def test_it_is_dealing_from_the_first_freeze_until_the_last_view_is_dealt() -> None:
    survivor = Team().begin().survivor
    here = Reached(0, {})
    dealing: list[bool] = []
    for message in (
        Freeze(1, [2]),
        told(1, 0, 1),
        Freeze(2, [2, 1]),
        DealAgain(1, {2: here}, {0: here, 1: here}, 0),
        told(2, 0),
        DealAgain(2, {1: here}, {0: here}, 0),
    ):
        assert survivor.is_dealing == bool(dealing)
        survivor.hear(message)
        dealing.append(survivor.is_dealing)
    assert dealing == [True, True, True, True, True, False]


def test_a_share_that_is_begun_while_members_change_is_divided_when_all_is_dealt() -> None:
    team = Team().begin()
    here = Reached(0, {})
    team.hear(Freeze(1, [1]))
    team.to_come = [told(1, 0, 2), DealAgain(1, {1: here}, {0: here, 2: here}, 0)]
    rounds = team.survivor.shares.begin(4, 2, False, None)
    assert (team.num_waits, team.to_come) == (1, [])
    assert [list(part.places) for part in rounds.parts()] == [[0, 1]]


def test_a_share_does_not_end_while_members_change_but_goes_on_with_what_the_lost_ones_left() -> None:
    team = Team().begin()
    shares = team.survivor.shares
    rounds = shares.begin(6, 2, False, None)
    rounds.take()
    shares.commit()
    team.hear(Freeze(1, [1]), told(1, 0, 2))
    members = {0: shares.reached(), 2: Reached(1, {0: 1})}
    team.to_come = [DealAgain(1, {1: Reached(1, {0: 0})}, members, 1)]
    assert [list(part.places) for part in shares.more(rounds)] == [[2, 3]]
    assert team.num_waits == 1
    rounds.take()
    assert shares.more(rounds) == []
    assert team.num_waits == 1, "nothing is being dealt any more"


def test_before_training_no_share_waits_for_a_view() -> None:
    team = Team(at=PREPARING)
    assert team.survivor.shares.begin(6, 2, False, None).parts()
    assert (team.num_waits, team.script.at) == (0, PREPARING)


def test_where_it_is_in_its_shares_is_published_once_it_trains() -> None:
    team = Team(at=PREPARING)
    shares = team.survivor.shares
    rounds = shares.begin(6, 2, False, None)
    assert team.published == [], "it has no shared memory yet"
    team.begin()
    team.script.at = RUNNING
    rounds.take()
    shares.commit()
    shares.end(rounds)
    assert team.published == [Reached(1, {0: 1}), Reached(1, {})]


@pytest.mark.parametrize(("num_given", "num_rounds"), [(0, 1), (1, 1), (2, 2)])
def test_what_is_reduced_while_backward_still_runs_is_committed_once_all_buckets_are(
    num_given: int, num_rounds: int
) -> None:
    team = Team(at=RUNNING).begin()
    team.take_one_of_two()
    team.num_given = num_given
    said = team.hear(Freeze(1, [2]), ViewTold(1, [0, 1], [0, 1], {}, "a worker died"))
    taken = next(message for message in said if isinstance(message, ViewTaken))
    assert taken.lost[2].rounds == {0: num_rounds}


def test_who_freezes_for_newcomers_says_where_all_nodes_are() -> None:
    team = Team().begin()
    assert team.hear(Freeze(2, [], [2])) == [Frozen(2, SENT, PLACES)]


def test_the_sponsor_of_newcomers_says_how_far_it_is_and_then_hands_over_where_its_script_is() -> None:
    team = Team().begin()
    team.survivor.shares.begin_epoch(1, 6)
    mine = team.take_one_of_two()
    said = team.hear(Freeze(2, [], [2]), joined(2, [0, 1, 2], [2]))[1:]
    assert said == [ViewTaken(2, mine, {}), HandedOver(2, team.survivor.shares.hand_over(), 3, 1, 2, b"state")]
    assert team.survivor.shares.hand_over().epoch == 6
    assert team.view_change.entered == [], "it was there before"


@pytest.mark.parametrize(
    ("rank", "members", "newcomers", "hands_over"),
    [(0, [0, 1, 2], [1, 2], True), (1, [0, 1, 2], [2], False), (1, [0, 1, 2], [0], True), (2, [0, 1, 2], [0], False)],
)
def test_newcomers_are_sponsored_by_the_lowest_member_that_is_none(
    rank: int, members: list[int], newcomers: list[int], hands_over: bool
) -> None:
    team = Team(rank=rank).begin()
    team.survivor.shares.begin_epoch(0, 0)
    said = team.hear(joined(2, members, newcomers))
    assert [type(message) for message in said] == [ViewTaken, HandedOver][: 1 + hands_over]


def test_a_view_without_newcomers_hands_nothing_over() -> None:
    team = Team().begin()
    team.survivor.shares.begin_epoch(0, 0)
    assert [type(message) for message in team.hear(told(1, 0, 1))] == [ViewTaken]


def test_a_newcomer_enters_its_first_view_and_says_that_it_has_taken_it_when_all_is_handed_over() -> None:
    team = Team(first_view=2, rank=2).begin()
    assert team.hear(joined(2, [0, 1, 2], [2])) == []
    assert team.view_change.entered == [2]
    assert team.hear(handed(2, first=4)) == [ViewTaken(2, Reached(4, {}), {})]
    assert team.survivor.handed == handed(2, first=4)
    assert team.published == [Reached(4, {})]


def test_a_newcomer_takes_part_in_later_views_as_any_other() -> None:
    team = Team(first_view=2, rank=2, keeps_equal=False).begin()
    team.hear(joined(2, [0, 1, 2], [2]), handed(2))
    said = team.hear(Freeze(3, [1]), told(3, 0, 2))
    assert said == [Frozen(3, SENT), ViewTaken(3, Reached(4, {}), {1: team.others[1]})]
    assert team.view_change.entered == [2]


def test_a_newcomer_has_come_in_when_it_is_handed_over_dealt_and_its_peer_computes() -> None:
    team = Team(first_view=2, rank=2).begin()
    survivor, here = team.survivor, Reached(4, {})
    come_in = [survivor.has_come_in]
    dealt = DealAgain(2, {}, {0: here, 1: here, 2: here}, 4, [2])
    for message in (joined(2, [0, 1, 2], [2]), handed(2), dealt):
        survivor.hear(message)
        come_in.append(survivor.has_come_in)
    team.runtime.worker.computes = 12
    assert [*come_in, survivor.has_come_in] == [False, False, False, False, True]


@pytest.mark.parametrize("missing", ["handed over", "dealt"])
def test_a_newcomer_whose_peer_computes_early_still_waits_for_what_is(missing: str) -> None:
    team = Team(first_view=2, rank=2).begin()
    here = Reached(4, {})
    team.runtime.worker.computes = 12
    rest: dict[str, ToSurvivor] = {
        "handed over": handed(2),
        "dealt": DealAgain(2, {}, {0: here, 1: here, 2: here}, 4, [2]),
    }
    left = rest.pop(missing)
    team.hear(joined(2, [0, 1, 2], [2]), *rest.values())
    assert not team.survivor.has_come_in
    team.hear(left)
    assert team.survivor.has_come_in


def test_a_newcomers_script_stops_before_its_first_step_until_all_go_on() -> None:
    team = Team(first_view=2, rank=2).begin()
    team.survivor.script_place = SimpleNamespace(refusal=lambda with_state: "")
    over: list[bool] = []

    def wait(done: Callable[[], bool]) -> None:
        over.append(done())
        team.survivor.hear(GoOn())
        over.append(done())

    team.said.clear()
    team.survivor.rest.stop(12, wait)
    assert (team.said, over) == ([Resting(0, 12)], [False, True])


def test_when_newcomers_come_all_that_nobody_has_committed_is_dealt_anew_among_all() -> None:
    team = Team().begin()
    shares = team.survivor.shares
    rounds = shares.begin(12, 2, False, None)
    rounds.take()
    shares.commit()
    team.hear(
        Freeze(1, [2]),
        told(1, 0, 1),
        DealAgain(1, {2: Reached(1, {0: 1})}, {0: shares.reached(), 1: shares.reached()}, 1),
    )
    assert [list(part.places) for part in rounds.parts()] == [[6, 7], [10, 11]]
    shares.begin_epoch(0, 0)
    team.hear(Freeze(2, [], [2]), joined(2, [0, 1, 2], [2]))
    here = shares.reached()
    team.hear(DealAgain(2, {}, {0: here, 1: here, 2: Reached(0, {})}, 1, [2]))
    assert not team.survivor.is_dealing
    assert [list(part.places) for part in rounds.parts()] == [[6, 7]], "of the six that were left, two are its own"
    assert rounds.num_anew == 1


@pytest.mark.parametrize("is_idle", [True, False])
def test_who_is_asked_to_look_tells_what_it_has_sent_and_received_and_whether_it_is_idle(is_idle: bool) -> None:
    team = Team(is_idle=is_idle).begin()
    assert team.hear(LookAsked(7)) == [LookTold(7, SENT, RECEIVED, is_idle)]


@pytest.mark.parametrize(
    ("keeps_step", "deals_portions", "period"), [(True, False, 4), (True, True, 0), (False, False, 0), (False, True, 0)]
)
def test_who_is_asked_to_rest_tells_its_step_and_whether_all_stop_before_the_same(
    keeps_step: bool, deals_portions: bool, period: int
) -> None:
    team = Team(keeps_step=keeps_step, deals_portions=deals_portions).begin()
    assert team.hear(RestAsked(3)) == [RestTold(3, 5, period)]


def test_who_rests_says_why_its_script_can_take_no_newcomer_in_and_goes_on_when_it_is_told_to() -> None:
    team = Team().begin()
    team.survivor.script_place = SimpleNamespace(refusal=lambda with_state: "it has no epochs")
    team.to_come = [RestAt(6), GoOn()]
    team.hear(RestAsked(3))
    team.survivor.rest.stop(6, team.wait_in_share)
    assert team.said == [RestTold(3, 5, 4), Resting(3, 6, "it has no epochs")]
    assert team.to_come == []


@pytest.mark.parametrize("has_been_written", [False, True])
def test_what_a_script_writes_to_shared_parameters_itself_keeps_newcomers_out(has_been_written: bool) -> None:
    team = Team().begin()
    team.runtime.driver.shared_params = SimpleNamespace(has_been_written=has_been_written)
    team.survivor.script_place = SimpleNamespace(refusal=lambda with_state: "")
    team.to_come = [RestAt(6), GoOn()]
    team.hear(RestAsked(3))
    team.survivor.rest.stop(6, team.wait_in_share)
    assert team.said[-1] == Resting(3, 6, OWN_WRITES if has_been_written else "")


def with_checkpoints(team: Team, *, is_due: bool = True, refusal: str = "") -> Team:
    """A script that has a checkpoint due, or not."""
    team.survivor.script_place = SimpleNamespace(
        is_checkpoint_due=is_due,
        part=SimpleNamespace(refusal=refusal, pass_over=lambda: team.passed_over.append(team.step)),
        refusal=lambda with_state: "no newcomers",
    )
    return team


@pytest.mark.parametrize(("keeps_step", "is_in_step"), [(True, True), (False, False)])
def test_where_a_checkpoint_is_due_the_script_stops_between_two_batches_and_says_so(
    keeps_step: bool, is_in_step: bool
) -> None:
    team = with_checkpoints(Team(keeps_step=keeps_step).begin())
    team.to_come = [RestAsked(3, True), RestAt(5), TakePart(5, 1, 1), GoOn()]
    taken: list[TakePart] = []
    team.survivor.rest.take = taken.append
    team.survivor.rest_here()
    period = 4 if keeps_step else 0
    assert team.said[1:] == [CheckpointDue(is_in_step), RestTold(3, 5, period, True), Resting(3, 5)]
    assert (taken, team.to_come) == ([TakePart(5, 1, 1)], [])


@pytest.mark.parametrize(("is_due", "step"), [(False, 5), (True, 0)])
def test_the_script_goes_on_where_no_checkpoint_is_due_or_no_step_is_made(is_due: bool, step: int) -> None:
    team = with_checkpoints(Team().begin(), is_due=is_due)
    team.step = step
    team.survivor.rest_here()
    assert (team.said[1:], team.num_waits) == ([], 0)


@pytest.mark.parametrize(("is_for_checkpoint", "why"), [(True, "no checkpoint"), (False, "no newcomers")])
def test_it_is_said_why_what_the_rest_is_for_is_not_possible(is_for_checkpoint: bool, why: str) -> None:
    team = with_checkpoints(Team().begin(), is_due=False, refusal="no checkpoint")
    team.to_come = [RestAt(5), GoOn()]
    team.hear(RestAsked(3, is_for_checkpoint))
    team.survivor.rest_here()
    assert team.said == [RestTold(3, 5, 4), Resting(3, 5, why)]
    assert bool(team.passed_over) == is_for_checkpoint, "the next one is due later"

"""Lost workers are replaced: when newcomers are started, where scripts stop for them, and what breaks that off."""

import pytest
from support.processes.newcomers import HANDED, PHASES, Talk, at

from weft.data.share_records import Reached
from weft.engines.real import timeouts
from weft.engines.real.replacement import CAME_IN, CAME_IN_AT_END, TIMES_MAX
from weft.runtime.view_messages import (
    Freeze,
    GoOn,
    LookAsked,
    LookTold,
    RestAsked,
    Resting,
    RestTold,
    ViewTaken,
    ViewTold,
)


def test_a_lost_worker_is_started_anew_once_when_the_others_are_told_and_dealt_all() -> None:
    talk = Talk()
    talk.lose(1)
    assert talk.turn() == []
    talk.freeze()
    talk.turn()
    talk.views.take(0, ViewTaken(1, Reached(1, {}), {}))
    talk.turn()
    assert talk.started == []
    talk.views.take(2, ViewTaken(1, Reached(1, {}), {}))
    talk.said()
    for _ in range(2):
        assert talk.turn() == []
        assert talk.started == [1]
        assert talk.replacement.coming == {1}


def test_members_are_asked_to_rest_once_when_a_newcomer_has_laid_out() -> None:
    talk = Talk()
    talk.lose(1)
    talk.settle()
    talk.turn()
    talk.replacement.lay_out(0)
    assert talk.turn() == [], "worker 0 is no newcomer"
    talk.lay_out(1)
    assert talk.turn() == [(0, RestAsked(1)), (2, RestAsked(1))]
    assert talk.turn() == []


def test_all_that_are_lost_are_started_before_members_are_asked_to_rest_and_come_in_together() -> None:
    talk = Talk(4)
    for rank in (3, 1):
        talk.lose(rank)
    talk.settle()
    talk.turn()
    talk.lay_out(3)
    assert talk.turn() == []
    assert talk.started == [3, 1]
    assert talk.turn() == [(0, RestAsked(1)), (2, RestAsked(1))], "for worker 3 alone, so far"
    talk.tell_steps()
    talk.lay_out(1)
    talk.stop()
    talk.look_on()
    assert talk.look_on() == [(rank, Freeze(3, [], [1, 3])) for rank in (0, 2)]
    assert talk.joining == [1, 3]
    assert talk.replacement.coming == set()


def test_what_is_said_while_nobody_is_to_rest_is_ignored() -> None:
    talk = Talk()
    for rank in range(3):
        for message in (RestTold(0, 4, 1), Resting(0, 4), LookTold(0, {}, {}, True), HANDED):
            assert talk.hear(rank, message) == []
    assert talk.replaced == []


def test_when_all_have_stopped_and_nothing_is_under_way_twice_the_newcomers_view_is_told() -> None:
    talk = at("stopping")
    assert talk.stop() == [(0, LookAsked(1)), (2, LookAsked(1))]
    assert talk.look_on() == [(0, LookAsked(2)), (2, LookAsked(2))]
    assert talk.joining == []
    assert talk.hear(0, LookTold(1, {}, {}, True)) == []
    assert talk.hear(2, LookTold(1, {}, {}, True)) == [], "answers to an earlier look are too late"
    assert talk.look_on() == [(0, Freeze(2, [], [1])), (2, Freeze(2, [], [1]))], "not to the newcomer"
    assert talk.joining == [1]
    assert talk.views.members == [0, 1, 2]
    told = talk.freeze()
    assert [(rank, m.reason, m.newcomers) for rank, m in told if isinstance(m, ViewTold)] == [
        (rank, "worker 1 joined", [1]) for rank in range(3)
    ]


def test_what_the_sponsor_hands_over_goes_to_the_newcomers_and_to_nobody_else() -> None:
    talk = Talk(4)
    talk.come(3, 1)
    at("looking", talk)
    assert talk.hear(0, HANDED) == []
    talk.look_on()
    talk.look_on()
    talk.settle()
    assert talk.hear(0, HANDED) == [(1, HANDED), (3, HANDED)]


def test_all_go_on_when_all_newcomers_rest_before_their_first_step() -> None:
    talk = Talk(4)
    talk.come(3, 1)
    at("welcoming", talk)
    talk.settle()
    assert talk.hear(3, Resting(0, 5)) == []
    assert talk.replaced == []
    assert talk.hear(1, Resting(0, 5)) == [(rank, GoOn()) for rank in range(4)]
    assert talk.replaced == [[1, 3]]
    assert talk.killed == []
    assert talk.turn() == []
    assert talk.hear(0, HANDED) == [], "nobody is a newcomer any more"


def test_a_newcomer_that_is_lost_later_is_replaced_as_others_are() -> None:
    talk = at("welcoming")
    talk.settle()
    talk.hear(1, Resting(0, 5))
    talk.joining.clear()
    talk.come(1)
    assert talk.started == [1, 1]
    assert talk.turn() == [(0, RestAsked(2)), (2, RestAsked(2))]


def test_where_the_sponsors_script_cannot_be_joined_no_worker_is_replaced_any_more_and_all_go_on() -> None:
    talk = at("stopping")
    assert talk.hear(2, Resting(1, 5, "its data is a stream")) == [(0, GoOn()), (2, GoOn())]
    assert talk.words == ["lost workers are not replaced: its data is a stream"]
    assert talk.killed == [1]
    assert talk.replacement.coming == set()
    talk.lay_out(1)
    talk.lose(2)
    talk.settle()
    assert talk.turn() == []
    assert talk.started == [1]


@pytest.mark.parametrize("phase", PHASES[:-1])
def test_a_member_that_is_lost_breaks_the_rest_off_and_the_newcomer_waits_for_the_next_one(phase: str) -> None:
    talk = at(phase)
    said = talk.lose(2)
    assert (0, GoOn()) in said
    assert said[-1] == (0, Freeze(2, [1, 2])), "they go on, and freeze"
    assert talk.killed == []
    assert talk.hear(0, Resting(1, 5)) == talk.hear(0, RestTold(1, 4, 1)) == []
    assert talk.hear(0, LookTold(talk.look, {}, {}, True)) == []
    talk.settle()
    assert talk.turn() == []
    assert talk.started == [1, 2]
    assert talk.turn() == [(0, RestAsked(2))]


def test_a_newcomer_whose_view_is_told_is_killed_when_a_member_is_lost_before_all_go_on() -> None:
    talk = at("welcoming")
    talk.settle()
    said = talk.lose(2)
    assert [rank for rank, message in said if message == GoOn()][:2] == [0, 1]
    assert talk.killed == [1]
    assert talk.hear(1, Resting(0, 5)) == []
    assert talk.replaced == []
    talk.joining.clear()
    talk.lose(1)
    talk.settle()
    for _ in range(2):
        talk.turn()
    assert talk.started == [1, 2, 1]


def test_newcomers_whose_view_freezes_are_killed_when_a_member_is_lost() -> None:
    talk = at("welcoming")
    said = talk.lose(2)
    assert said[0] == (0, GoOn())
    assert said[-1] == (0, Freeze(3, [2, 1])), "they have not come in"
    assert (talk.killed, talk.causes) == ([1], [CAME_IN])
    assert talk.views.members == [0]


@pytest.mark.parametrize("phase", PHASES[:-1])
def test_a_newcomer_that_fails_while_members_rest_for_it_is_told_and_started_again_and_they_go_on(phase: str) -> None:
    talk = at(phase)
    talk.replacement.fail(1, "killed by signal 9")
    assert talk.said() == [(0, GoOn()), (2, GoOn())]
    assert talk.words == ["worker 1 could not be replaced: killed by signal 9"]
    assert talk.replacement.coming == set()
    assert talk.turn() == []
    assert talk.started == [1, 1]
    assert talk.turn() == [], "it has not laid out yet"
    assert talk.killed == []


def test_a_newcomer_that_fails_before_it_has_laid_out_holds_nobody_up() -> None:
    talk = Talk()
    talk.lose(1)
    talk.settle()
    talk.turn()
    talk.replacement.fail(1, "it died")
    assert talk.said() == []
    talk.turn()
    assert talk.started == [1, 1]


@pytest.mark.parametrize("phase", PHASES)
def test_members_rest_on_for_one_newcomer_when_another_fails(phase: str) -> None:
    talk = Talk(4)
    talk.lose(1)
    talk.lose(3)
    talk.settle()
    talk.turn()
    talk.turn()
    talk.lay_out(1)
    at(phase, talk)
    talk.replacement.fail(3, "it died")
    assert talk.said() == []
    assert talk.turn() == []
    assert talk.started == [1, 3], "nobody is started while members rest"


def test_who_was_started_several_times_within_a_minute_is_not_started_again_and_that_is_told() -> None:
    talk = Talk()
    talk.lose(1)
    talk.settle()
    for num_started in range(1, TIMES_MAX + 1):
        talk.turn()
        assert talk.started == [1] * num_started
        talk.replacement.fail(1, "it died")
        talk.now_s += timeouts.REPLACED_OFTEN_S / TIMES_MAX - 1.0
    talk.words.clear()
    for _ in range(2):
        talk.turn()
        assert talk.started == [1] * TIMES_MAX
    assert talk.words == [f"worker 1 was started anew {TIMES_MAX} times within a minute, and is not again"]
    talk.lose(2)
    talk.settle()
    talk.turn()
    assert talk.started[TIMES_MAX:] == [2], "others are"


def test_starts_of_more_than_a_minute_ago_do_not_count() -> None:
    talk = Talk()
    talk.lose(1)
    talk.settle()
    for _ in range(3 * TIMES_MAX):
        talk.turn()
        talk.replacement.fail(1, "it died")
        talk.now_s += timeouts.REPLACED_OFTEN_S / TIMES_MAX
    assert talk.started == [1] * (3 * TIMES_MAX)


@pytest.mark.parametrize("phase", PHASES)
def test_at_the_end_of_scripts_newcomers_are_killed_and_all_that_rest_go_on(phase: str) -> None:
    talk = at(phase)
    assert talk.turn(is_ending=True) == [(rank, GoOn()) for rank in talk.views.members]
    assert (talk.killed, talk.causes) == ([1], [CAME_IN_AT_END])
    assert talk.words == []
    assert talk.turn(is_ending=True) == []
    assert talk.killed == [1]


def test_nobody_is_started_at_the_end_and_whoever_is_on_its_way_is_killed() -> None:
    talk = Talk()
    talk.come(1)
    assert talk.turn(is_ending=True) == []
    assert (talk.killed, talk.replacement.coming) == ([1], set())
    talk.lose(2)
    talk.settle()
    assert talk.turn(is_ending=True) == talk.turn() == []
    assert talk.started == [1]

"""The supervisor's part in a change of view: it freezes the members, tells the view, and deals again."""

from support.processes.view_talks import FAR, FARTHER, NEAR, Talk

from weft.data.share_records import Reached
from weft.engines.real.views import Views
from weft.runtime.view_messages import DealAgain, Freeze, ViewTold


def test_when_a_worker_is_lost_all_others_are_frozen_and_then_told_what_each_has_been_sent() -> None:
    talk = Talk(4)
    assert talk.lose(1) == [(rank, Freeze(1, [1])) for rank in (0, 2, 3)]
    assert talk.views.is_freezing
    assert talk.hear(3, 1, {0: 30, 1: 31, 2: 32}) == []
    assert talk.hear(0, 1, {1: 1, 2: 2}) == []
    told = talk.hear(2, 1, {0: 20, 3: 23})
    assert told == [
        (0, ViewTold(1, [0, 2, 3], [0, 2, 3], {3: 30, 2: 20}, "worker 1 died")),
        (2, ViewTold(1, [0, 2, 3], [0, 2, 3], {3: 32, 0: 2}, "worker 1 died")),
        (3, ViewTold(1, [0, 2, 3], [0, 2, 3], {0: 0, 2: 23}, "worker 1 died")),
    ]
    assert not talk.views.is_freezing
    assert talk.views.members == [0, 2, 3]


def test_a_loss_while_freezing_begins_again_and_late_answers_to_the_first_are_ignored() -> None:
    talk = Talk(4)
    talk.lose(1)
    talk.hear(0, 1, {2: 7})
    assert talk.lose(3) == [(rank, Freeze(2, [1, 3])) for rank in (0, 2)]
    assert talk.hear(2, 1, {0: 8}) == []
    assert talk.hear(0, 2, {2: 9}) == []
    assert talk.hear(3, 2, {0: 1}) == [], "it is lost, whatever it says"
    assert talk.views.is_freezing
    assert talk.hear(2, 2, {0: 10}) == [
        (0, ViewTold(2, [0, 2], [0, 2], {2: 10}, "worker 3 died")),
        (2, ViewTold(2, [0, 2], [0, 2], {0: 9}, "worker 3 died")),
    ]


def test_a_view_is_told_once() -> None:
    talk = Talk(2)
    talk.lose(1)
    assert talk.hear(0, 1, {}) == [(0, ViewTold(1, [0], [0], {}, "worker 1 died"))]
    assert talk.hear(0, 1, {}) == []


def test_the_next_view_names_all_that_were_ever_lost() -> None:
    talk = Talk(3)
    talk.lose(0)
    talk.hear(1, 1, {})
    talk.hear(2, 1, {})
    assert talk.lose(2) == [(1, Freeze(2, [0, 2]))]


def test_what_was_sent_stays_as_it_was_when_the_next_is_lost() -> None:
    talk = Talk(4)
    first = talk.lose(1)
    for rank in (0, 2):
        talk.hear(rank, 1, {})
    (_, told), *_ = talk.hear(3, 1, {})
    talk.lose(2)
    assert first[0] == (0, Freeze(1, [1]))
    assert isinstance(told, ViewTold)
    assert told.members == [0, 2, 3]


def test_a_worker_can_be_lost_when_all_others_have_laid_out_whether_it_has_or_not() -> None:
    views = Views(3, lambda rank, message: None)
    for rank in (2, 2, 0):
        assert not any(views.can_lose([rank]) for rank in range(3))
        views.lay_out(rank)
    assert [views.can_lose([rank]) for rank in range(3)] == [False, True, False]
    views.lay_out(1)
    assert all(views.can_lose([rank]) for rank in range(3))
    views.lose(0, "")
    assert [views.can_lose([rank]) for rank in (1, 2)] == [True, True]


def test_the_last_member_cannot_be_lost() -> None:
    views = Views(2, lambda rank, message: None)
    for rank in (0, 1):
        views.lay_out(rank)
    views.lose(1, "")
    assert not views.can_lose([0])


def test_several_can_be_lost_together_when_all_others_have_laid_out_and_there_are_others() -> None:
    views = Views(4, lambda rank, message: None)
    views.lay_out(0)
    assert views.can_lose([1, 2, 3])
    assert not views.can_lose([1, 3])
    views.lay_out(2)
    assert views.can_lose([1, 3])
    assert not views.can_lose(range(4)), "nobody would be left"


def test_samples_are_dealt_again_when_all_members_have_taken_the_view() -> None:
    talk = Talk(3)
    talk.go_on_without(1)
    assert talk.take(2, 1, FAR, {1: NEAR}) == []
    deal = DealAgain(1, {1: NEAR}, {0: NEAR, 2: FAR}, 1)
    assert talk.take(0, 1, NEAR, {1: NEAR}) == [(0, deal), (2, deal)]
    assert talk.take(0, 1, NEAR, {1: NEAR}) == [], "they are dealt once"


def test_a_lost_worker_was_as_far_as_the_member_says_that_knows_it_to_be_farthest() -> None:
    for said in ((NEAR, FARTHER, FAR), (FARTHER, FAR, NEAR), (FAR, NEAR, FARTHER)):
        talk = Talk(4)
        talk.go_on_without(3)
        for rank, reached in enumerate(said):
            dealt = talk.take(rank, 1, NEAR, {3: reached})
        assert [message.lost for _, message in dealt if isinstance(message, DealAgain)] == [{3: FARTHER}] * 3


def test_what_one_view_left_to_be_dealt_is_dealt_with_the_next_when_a_member_is_lost_in_between() -> None:
    talk = Talk(4)
    talk.go_on_without(3)
    talk.take(0, 1, NEAR, {3: NEAR})
    talk.go_on_without(2)
    assert talk.take(1, 1, NEAR, {3: NEAR}) == [], "worker 2 may have begun a share that no other knows of"
    assert talk.take(1, 2, NEAR, {2: FARTHER}) == []
    deal = DealAgain(2, {3: NEAR, 2: FARTHER}, {0: FAR, 1: NEAR}, 1)
    assert talk.take(0, 2, FAR, {2: FARTHER}) == [(0, deal), (1, deal)]
    talk.go_on_without(1)
    deal = DealAgain(3, {1: FAR}, {0: FAR}, 1)
    assert talk.take(0, 3, FAR, {1: FAR}) == [(0, deal)], "what is dealt is not dealt again"


def test_what_a_member_knew_counts_though_it_is_lost_after_its_answer() -> None:
    talk = Talk(4)
    talk.go_on_without(3)
    talk.take(2, 1, FAR, {3: FAR})
    talk.go_on_without(2)
    for rank in (0, 1):
        talk.take(rank, 1, NEAR, {3: NEAR})
        dealt = talk.take(rank, 2, NEAR, {2: NEAR})
    deal = DealAgain(2, {3: FAR, 2: NEAR}, {0: NEAR, 1: NEAR}, 1)
    assert dealt == [(0, deal), (1, deal)]


def test_those_whose_scripts_have_ended_say_which_shares_were_begun_and_take_nothing() -> None:
    talk = Talk(3)
    talk.views.leave(2)
    talk._said()
    for rank in range(3):
        talk.hear(rank, 1, {})
    talk.take(2, 1, Reached(3, {}), {})
    talk.take(0, 1, NEAR, {})
    deal = DealAgain(1, {}, {0: NEAR, 1: FAR}, 3)
    assert talk.take(1, 1, FAR, {}) == [(rank, deal) for rank in range(3)]


def test_those_lost_in_one_view_are_dealt_in_it_together() -> None:
    talk = Talk(4)
    talk.go_on_without(1, 3)
    talk.take(0, 2, NEAR, {1: NEAR, 3: FAR})
    deal = DealAgain(2, {1: FAR, 3: FAR}, {0: NEAR, 2: FAR}, 1)
    assert talk.take(2, 2, FAR, {1: FAR, 3: NEAR}) == [(0, deal), (2, deal)]


def test_an_answer_to_a_view_that_was_never_told_is_ignored() -> None:
    talk = Talk(2)
    assert talk.take(0, 1, NEAR, {1: NEAR}) == []
    talk.lose(1)
    assert talk.take(0, 1, NEAR, {1: NEAR}) == [], "it is still being frozen"


def test_a_worker_whose_script_has_ended_leaves_the_members_and_its_process_goes_on_serving() -> None:
    talk = Talk(3)
    talk.views.leave(1)
    assert talk._said() == [(rank, Freeze(1, [])) for rank in range(3)]
    talk.hear(0, 1, {})
    talk.hear(1, 1, {0: 4})
    told = talk.hear(2, 1, {})
    assert [message for _, message in told] == [
        ViewTold(1, [0, 2], [0, 1, 2], cut, "the script of worker 1 has ended")
        for cut in ({1: 4, 2: 0}, {0: 0, 2: 0}, {0: 0, 1: 0})
    ]


def test_nobody_leaves_twice_and_the_last_script_leaves_nobody_behind() -> None:
    talk = Talk(2)
    talk.views.leave(0)
    assert len(talk._said()) == 2
    talk.views.leave(0)
    talk.views.leave(1)
    assert talk._said() == []


def test_a_view_is_settled_when_all_have_taken_it_and_until_the_next_begins() -> None:
    talk = Talk(3)
    assert talk.views.is_settled
    talk.go_on_without(1)
    talk.take(0, 1, NEAR, {})
    assert not talk.views.is_settled
    talk.take(2, 1, NEAR, {})
    assert talk.views.is_settled
    talk.views.leave(2)
    assert not talk.views.is_settled


def test_for_newcomers_those_who_were_there_before_are_frozen_and_then_all_are_told_the_view_and_the_places() -> None:
    talk = Talk(4)
    talk.lose(1)
    talk.lose(3)
    talk.settle()
    assert talk.welcome(1) == [(rank, Freeze(3, [3], [1])) for rank in (0, 2)], "worker 3 is still lost"
    assert talk.views.is_freezing
    assert talk.hear(2, 3, {0: 20, 1: 21}, (0, 1, 2, 0)) == []
    assert talk.hear(0, 3, {2: 2}, (0, 1, 2, 0)) == [
        (rank, ViewTold(3, [0, 1, 2], [0, 1, 2], cut, "they joined", [1], [0, 1, 2, 0]))
        for rank, cut in enumerate(({2: 20}, {2: 21, 0: 0}, {0: 2}))
    ]
    assert talk.views.members == [0, 1, 2]


def test_the_ports_of_newcomers_that_listen_are_told_to_all_and_those_of_members_are_not() -> None:
    talk = Talk(3)
    talk.views.lay_out(0, 4000)
    talk.lose(1)
    talk.settle()
    talk.views.lay_out(1, 4711)
    assert talk.welcome(1) == [(rank, Freeze(2, [], [1], {1: 4711})) for rank in (0, 2)]
    talk.hear(0, 2, {})
    for _, told in talk.hear(2, 2, {}):
        assert isinstance(told, ViewTold)
        assert told.ports == {1: 4711}


def test_newcomers_are_named_when_all_have_taken_their_view_and_in_no_later_one() -> None:
    talk = Talk(4)
    talk.lose(1)
    talk.lose(3)
    talk.settle()
    talk.welcome(1, 3)
    deal = DealAgain(3, {}, dict.fromkeys(range(4), NEAR), 1, [1, 3])
    assert talk.settle(1, 3) == [(rank, deal) for rank in range(4)]
    assert talk.lose(2) == [(rank, Freeze(4, [2])) for rank in (0, 1, 3)], "newcomers are members as others are"
    deal = DealAgain(4, {}, {0: NEAR, 1: NEAR, 3: NEAR}, 1)
    assert talk.settle() == [(rank, deal) for rank in (0, 1, 3)]


def test_who_leaves_after_newcomers_came_leaves_as_if_they_had_always_been_there() -> None:
    talk = Talk(3)
    talk.lose(1)
    talk.settle()
    talk.welcome(1)
    talk.settle(1)
    talk.views.leave(2)
    assert talk._said() == [(rank, Freeze(3, [])) for rank in range(3)]


def test_newcomers_whose_view_is_told_stay_members_when_another_is_lost_before_all_is_dealt() -> None:
    talk = Talk(4)
    talk.lose(1)
    talk.lose(3)
    talk.settle()
    talk.welcome(1, 3)
    for rank in (0, 2):
        talk.hear(rank, 3, {})
    assert talk.lose(3) == [(rank, Freeze(4, [3])) for rank in range(3)]
    assert talk.views.members == [0, 1, 2]


def test_that_a_lost_worker_had_laid_out_does_not_count_for_its_newcomer() -> None:
    talk = Talk(3)
    talk.lay_out(range(3))
    talk.lose(1)
    talk.welcome(1)
    assert not talk.views.can_lose([0])
    talk.lay_out([1])
    assert talk.views.can_lose([0])
    assert not talk.views.can_lose([0, 2]), "the newcomer has nothing yet to go on with"


def test_newcomers_do_not_come_in_when_a_member_is_lost_while_their_view_freezes() -> None:
    talk = Talk(4)
    talk.lay_out(range(4))
    talk.lose(3)
    talk.settle()
    talk.lay_out([3])
    talk.welcome(3)
    talk.hear(0, 2, {})
    assert talk.lose(1) == [(0, Freeze(3, [1, 3])), (2, Freeze(3, [1, 3]))]
    assert talk.views.members == [0, 2]
    assert talk.hear(3, 3, {}) == []
    talk.hear(0, 3, {})
    told = talk.hear(2, 3, {})
    assert told == [(rank, ViewTold(3, [0, 2], [0, 2], {2 - rank: 0}, "worker 1 died")) for rank in (0, 2)]


def test_one_newcomer_that_dies_while_their_view_freezes_takes_the_others_with_it_once() -> None:
    talk = Talk(4)
    talk.lose(1)
    talk.lose(3)
    talk.settle()
    talk.welcome(1, 3)
    assert talk.lose(3) == [(0, Freeze(4, [3, 1])), (2, Freeze(4, [3, 1]))]
    assert talk.views.members == [0, 2]


def test_who_was_lost_with_a_newcomers_view_can_come_with_a_later_one() -> None:
    talk = Talk(3)
    talk.lose(1)
    talk.settle()
    talk.welcome(1)
    talk.lose(2)
    talk.settle()
    assert talk.welcome(1, 2) == [(0, Freeze(4, [], [1, 2]))]
    deal = DealAgain(4, {}, dict.fromkeys(range(3), NEAR), 1, [1, 2])
    assert talk.settle(1, 2) == [(rank, deal) for rank in range(3)]


def test_what_a_newcomer_reached_before_it_was_dealt_anything_is_not_dealt_when_it_is_lost() -> None:
    talk = Talk(3)
    talk.lose(1)
    talk.settle()
    talk.welcome(1)
    for rank in (0, 2):
        talk.hear(rank, 2, {})
    talk.take(0, 2, NEAR, {})
    talk.go_on_without(1)
    talk.take(0, 3, NEAR, {1: FAR})
    deal = DealAgain(3, {}, {0: NEAR, 2: NEAR}, 1)
    assert talk.take(2, 3, NEAR, {1: FAR}) == [(0, deal), (2, deal)]


def test_what_a_newcomer_reached_counts_from_when_it_was_dealt_something() -> None:
    talk = Talk(3)
    talk.lose(1)
    talk.settle()
    for view in (2, 4):
        talk.welcome(1)
        talk.settle(1)
        talk.go_on_without(1)
        talk.take(0, view + 1, NEAR, {1: FAR})
        deal = DealAgain(view + 1, {1: FAR}, {0: NEAR, 2: NEAR}, 1)
        assert talk.take(2, view + 1, NEAR, {1: FAR}) == [(0, deal), (2, deal)]

"""The supervisor's part in a change of view: it freezes the members, tells the view, and deals again."""

from weft.data.dealt_again import Reached
from weft.engines.real.views import Views
from weft.runtime.messages import Message
from weft.runtime.view_messages import DealAgain, Freeze, Frozen, ViewTaken, ViewTold

NEAR, FAR, FARTHER = Reached(1, {0: 3}), Reached(1, {0: 5}), Reached(2, {1: 5})


class Talk:
    """Views of a run, and what each member was sent since the last look."""

    def __init__(self, num_workers: int) -> None:
        self._sent: list[tuple[int, Message]] = []
        self.views = Views(num_workers, lambda *said: self._sent.append(said))

    def lose(self, rank: int) -> list[tuple[int, Message]]:
        self.views.lose(rank, f"worker {rank} died")
        return self._said()

    def hear(self, rank: int, view: int, sent: dict[int, int]) -> list[tuple[int, Message]]:
        is_told = self.views.hear(rank, Frozen(view, sent))
        said = self._said()
        assert is_told == bool(said)
        return said

    def go_on_without(self, *lost: int) -> None:
        """The view is told, and nobody has taken it."""
        for rank in lost:
            self.lose(rank)
        for rank in list(self.views.members):
            self.hear(rank, self.views.view, {})

    def take(self, rank: int, view: int, reached: Reached, lost: dict[int, Reached]) -> list[tuple[int, Message]]:
        self.views.take(rank, ViewTaken(view, reached, lost))
        return self._said()

    def _said(self) -> list[tuple[int, Message]]:
        sent, self._sent = self._sent, []
        return sent


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
        assert not any(views.can_lose(rank) for rank in range(3))
        views.lay_out(rank)
    assert [views.can_lose(rank) for rank in range(3)] == [False, True, False]
    views.lay_out(1)
    assert all(views.can_lose(rank) for rank in range(3))
    views.lose(0, "")
    assert [views.can_lose(rank) for rank in (1, 2)] == [True, True]


def test_the_last_member_cannot_be_lost() -> None:
    views = Views(2, lambda rank, message: None)
    for rank in (0, 1):
        views.lay_out(rank)
    views.lose(1, "")
    assert not views.can_lose(0)


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

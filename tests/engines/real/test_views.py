"""The supervisor's part in a change of view: it freezes the members, and tells the view when all have frozen."""

from weft.data.dealt_again import Reached
from weft.engines.real.views import Views
from weft.runtime.messages import Freeze, Frozen, Message, ViewTold

FAR, NEAR = Reached(2, {1: 5}), Reached(1, {0: 3})


class Talk:
    """Views of a run, and what each member was sent since the last look."""

    def __init__(self, num_workers: int) -> None:
        self._sent: list[tuple[int, Message]] = []
        self.views = Views(num_workers, lambda *said: self._sent.append(said))

    def lose(self, rank: int) -> list[tuple[int, Message]]:
        self.views.lose(rank, f"worker {rank} died")
        return self._said()

    def hear(self, rank: int, view: int, sent: dict[int, int], reached: Reached = NEAR) -> list[tuple[int, Message]]:
        self.views.hear(rank, Frozen(view, sent, reached))
        return self._said()

    def _said(self) -> list[tuple[int, Message]]:
        sent, self._sent = self._sent, []
        return sent


def test_when_a_worker_is_lost_all_others_are_frozen_and_then_told_what_each_has_been_sent() -> None:
    talk = Talk(4)
    assert talk.lose(1) == [(rank, Freeze(1, [1])) for rank in (0, 2, 3)]
    assert talk.views.is_freezing
    assert talk.hear(3, 1, {0: 30, 1: 31, 2: 32}) == []
    assert talk.hear(0, 1, {1: 1, 2: 2}, FAR) == []
    told = talk.hear(2, 1, {0: 20, 3: 23})
    reached = {3: NEAR, 0: FAR, 2: NEAR}
    assert told == [
        (0, ViewTold(1, [0, 2, 3], {3: 30, 2: 20}, reached, "worker 1 died")),
        (2, ViewTold(1, [0, 2, 3], {3: 32, 0: 2}, reached, "worker 1 died")),
        (3, ViewTold(1, [0, 2, 3], {0: 0, 2: 23}, reached, "worker 1 died")),
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
    reached = {0: NEAR, 2: NEAR}
    assert talk.hear(2, 2, {0: 10}) == [
        (0, ViewTold(2, [0, 2], {2: 10}, reached, "worker 3 died")),
        (2, ViewTold(2, [0, 2], {0: 9}, reached, "worker 3 died")),
    ]


def test_a_view_is_told_once() -> None:
    talk = Talk(2)
    talk.lose(1)
    assert talk.hear(0, 1, {}) == [(0, ViewTold(1, [0], {}, {0: NEAR}, "worker 1 died"))]
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


def test_a_run_is_settled_when_all_workers_have_said_so_and_stays_so_when_some_are_lost() -> None:
    views = Views(3, lambda rank, message: None)
    for rank in (2, 0, 0):
        views.settle(rank)
        assert not views.is_settled
    views.settle(1)
    assert views.is_settled
    views.lose(0, "")
    assert views.is_settled

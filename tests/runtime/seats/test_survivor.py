"""A worker that goes on without lost ones: what it says of itself and of them, and when its script may go on."""

from collections.abc import Callable
from threading import RLock
from types import SimpleNamespace

import pytest
from support.processes.records import job_with

from weft.core.script_state import IN_BACKWARD, IN_SHARE, IN_STEP, PREPARING, RUNNING, ScriptState
from weft.data.dealt_again import Reached
from weft.runtime.messages import Message
from weft.runtime.seats.survivor import Survivor
from weft.runtime.view_messages import DealAgain, Freeze, Frozen, HandedOver, LaidOut, ViewTaken, ViewTold

SENT = {1: 4, 2: 7}
"""How many frames the worker has sent to each other one when it freezes."""


class OneChange:
    """The view change of a process to which nothing is to come: the view is told as soon as it is cut."""

    on_frozen: Callable[[Freeze, dict[int, int]], None]
    on_view: Callable[[ViewTold], None]

    def freeze(self, order: Freeze) -> None:
        self.on_frozen(order, dict(SENT))

    def cut(self, told: ViewTold) -> None:
        self.on_view(told)


class Team:
    """Worker 0 of three, of which the test is the engine, the runtime and the script."""

    def __init__(
        self, *, keeps_equal: bool = True, holds_user: bool = False, at: str = RUNNING, first_view: int = 0
    ) -> None:
        self.script = ScriptState(at)
        self.said: list[Message] = []
        self.to_come: list[Freeze | ViewTold | DealAgain] = []
        """What the worker hears while it waits in share()."""
        self.num_waits = 0
        self.published: list[Reached] = []
        self.num_given = 0
        """Buckets of a backward under way that are given."""
        self.job = job_with(num_workers=3, first_view=first_view)
        self.step = 5
        self.survivor = Survivor(self, self.said.append, RLock())
        self.others = {1: Reached(4, {3: 1}), 2: Reached(4, {3: 2})}
        """What the other workers have published."""
        self.runtime = SimpleNamespace(
            strategy=SimpleNamespace(keeps_replicas_equal=keeps_equal),
            world=SimpleNamespace(trainable=(0, 1)),
            driver=SimpleNamespace(view_change=OneChange()),
            worker=SimpleNamespace(id=0, peer=SimpleNamespace(holds_user=holds_user)),
            publish=self.published.append,
            published=self.others.__getitem__,
        )

    def wait_in_share(self, done: Callable[[], bool]) -> None:
        self.num_waits += 1
        while not done():
            self.survivor.hear(self.to_come.pop(0))

    def hand_over(self, told: ViewTold) -> HandedOver:
        return HandedOver(told.view, self.survivor.shares.hand_over(), 3, 1, 2, b"state")

    def come_in(self) -> None:
        return None

    def begin(self) -> "Team":
        self.survivor.begin(self.runtime)  # type: ignore[arg-type]
        return self

    def hear(self, *messages: Freeze | ViewTold | DealAgain) -> list[Message]:
        """What the worker says to these."""
        self.said.clear()
        for message in messages:
            self.survivor.hear(message)
        return list(self.said)

    def take_one_of_two(self) -> Reached:
        """The script takes two parts of a share, and the first is committed; returns where it is then."""
        rounds = self.survivor.shares.begin(12, 2, False, None)
        rounds.take()
        self.survivor.shares.commit()
        rounds.take()
        return self.survivor.shares.reached()


def told(view: int, *members: int) -> ViewTold:
    return ViewTold(view, list(members), list(members), {}, "a worker died")


def test_the_others_can_go_on_without_a_worker_once_it_says_that_it_is_laid_out() -> None:
    team = Team()
    assert team.said == []
    assert team.begin().said == [LaidOut()]


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
    assert [list(part.places) for part in shares.more(rounds)] == [[2]]
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

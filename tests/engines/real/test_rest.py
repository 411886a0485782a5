"""All scripts are brought to rest: where they stop, when nothing is under way any more, and what is too late."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace
from support.processes.newcomers import Talk, at

from weft.engines.real import timeouts
from weft.engines.real.rest import RunRest
from weft.engines.real.views import Views
from weft.runtime.messages import Message
from weft.runtime.view_messages import Freeze, GoOn, LookAsked, LookTold, RestAsked, RestAt, Resting, RestTold


class Wanted:
    """Who has a rest begun, and what it was told."""

    def __init__(self, num_workers: int = 2) -> None:
        self.told: list[str] = []
        self._sent: list[tuple[int, Message]] = []
        self.views = Views(num_workers, lambda *said: self._sent.append(said))
        self.rest = RunRest(self.views, lambda *said: self._sent.append(said))

    def rest_refused(self, why: str) -> None:
        self.told.append(why)

    def rest_still(self) -> None:
        self.told.append("still")

    def rest_all_there(self) -> None:
        self.told.append("all there")

    def said(self) -> list[tuple[int, Message]]:
        sent, self._sent = self._sent, []
        return sent

    def hear_all(self, told: Callable[[int], RestTold | Resting | LookTold]) -> list[tuple[int, Message]]:
        for rank in self.views.members:
            self.rest.hear(rank, told(rank), 0.0)
        return self.said()

    def come_to_rest(self) -> None:
        self.rest.begin(self)
        self.hear_all(lambda rank: RestTold(1, 4, 1))
        self.hear_all(lambda rank: Resting(1, 5))
        for number in (1, 2):
            self.hear_all(lambda rank, number=number: LookTold(number, {}, {}, True))  # type: ignore[misc]


@pytest.mark.parametrize("is_for_checkpoint", [True, False])
def test_members_are_told_what_the_rest_is_for(is_for_checkpoint: bool) -> None:
    wanted = Wanted()
    assert not wanted.rest.is_on
    wanted.rest.begin(wanted, is_for_checkpoint=is_for_checkpoint)
    assert wanted.said() == [(rank, RestAsked(1, is_for_checkpoint)) for rank in (0, 1)]
    assert wanted.rest.is_on


def test_a_rest_is_for_whoever_has_begun_it_until_it_is_over() -> None:
    wanted, other = Wanted(), Wanted()
    wanted.rest.begin(wanted)
    assert (wanted.rest.is_for(wanted), wanted.rest.is_for(other)) == (True, False)
    wanted.said()
    wanted.rest.end()
    assert wanted.said() == [(0, GoOn()), (1, GoOn())]
    assert not wanted.rest.is_for(wanted)


def test_whoever_wanted_it_is_told_when_all_is_still_and_when_those_who_came_have_stopped() -> None:
    wanted = Wanted()
    wanted.come_to_rest()
    assert (wanted.told, wanted.rest.steps, wanted.rest.has_stopped_all) == (["still"], {0: 5, 1: 5}, True)
    wanted.views.members = [0, 1, 2]
    wanted.rest.hear(2, Resting(0, 5), 0.0)
    assert wanted.told == ["still", "all there"]


def test_members_are_held_while_they_stand_still_but_not_for_ever_for_what_never_comes_in() -> None:
    wanted = Wanted()
    wanted.rest.begin(wanted)
    wanted.hear_all(lambda rank: RestTold(1, 4, 1))
    assert not wanted.rest.holds_all(1.0), "they are still coming to rest"
    wanted.hear_all(lambda rank: Resting(1, 5))
    assert wanted.rest.holds_all(1.0)
    assert not wanted.rest.holds_all(1.0 + timeouts.REST_S)
    for number in (1, 2):
        wanted.hear_all(lambda rank, number=number: LookTold(number, {}, {}, True))  # type: ignore[misc]
    assert wanted.rest.holds_all(1e9), "whoever wanted it does what it wanted it for"
    wanted.rest.end()
    assert not wanted.rest.holds_all(1e9)


def test_whoever_wanted_it_is_told_why_and_where_a_script_refuses() -> None:
    wanted = Wanted()
    wanted.rest.begin(wanted)
    wanted.hear_all(lambda rank: RestTold(1, 4, 1))
    wanted.rest.hear(1, Resting(1, 5, "it has no epochs"), 0.0)
    assert (wanted.told, wanted.rest.steps) == (["it has no epochs"], {1: 5})


def test_where_all_have_stopped_for_it_already_they_stop_there_and_make_no_further_step() -> None:
    wanted = Wanted()
    wanted.rest.begin(wanted, is_for_checkpoint=True)
    wanted.said()
    assert wanted.hear_all(lambda rank: RestTold(1, 4, 1, True)) == [(0, RestAt(4)), (1, RestAt(4))]


def test_who_has_not_stopped_makes_the_step_in_which_it_is() -> None:
    wanted = Wanted()
    wanted.rest.begin(wanted, is_for_checkpoint=True)
    wanted.said()
    assert wanted.hear_all(lambda rank: RestTold(1, 4, 1, rank == 0)) == [(0, RestAt(5)), (1, RestAt(5))]


@pytest.mark.parametrize(
    ("period", "steps", "stops_at"),
    [(1, (4, 6), 7), (1, (6, 6), 7), (1, (0, 0), 1), (3, (5, 4), 6), (3, (4, 6), 9), (3, (0, 1), 3), (0, (4, 6), 0)],
)
def test_all_stop_behind_whoever_is_furthest_at_a_multiple_of_the_period_or_each_before_its_next_step(
    period: int, steps: tuple[int, int], stops_at: int
) -> None:
    talk = at("asking")
    assert talk.hear(2, RestTold(1, steps[1], period)) == []
    assert talk.hear(0, RestTold(1, steps[0], period)) == [(0, RestAt(stops_at)), (2, RestAt(stops_at))]
    assert talk.hear(0, RestTold(1, 100, period)) == [], "it is decided"


def test_answers_of_an_earlier_rest_are_too_late() -> None:
    talk = at("asking")
    talk.replacement.fail(1, "it died")
    talk.said()
    talk.turn()
    talk.lay_out(1)
    assert talk.turn() == [(0, RestAsked(2)), (2, RestAsked(2))]
    for rank in (0, 2):
        assert talk.hear(rank, RestTold(1, 9, 1)) == []
    assert talk.tell_steps() == [(0, RestAt(5)), (2, RestAt(5))]
    for rank in (0, 2):
        assert talk.hear(rank, Resting(1, 5)) == []
    assert talk.stop() == [(0, LookAsked(1)), (2, LookAsked(1))]


def seen(to_2: int = 3, at_2: int = 3, *, is_busy: bool = False, with_lost: int = 0) -> dict[int, LookTold]:
    """Worker 0 has sent `to_2` frames to worker 2, of which `at_2` are there; both talked with the lost one, too."""
    first = LookTold(0, {1: with_lost, 2: to_2}, {2: 1}, True)
    return {0: first, 2: LookTold(0, {0: 1}, {0: at_2, 1: 2 * with_lost}, not is_busy)}


@pytest.mark.parametrize(
    "looks",
    [
        [seen(), seen()],
        [seen(with_lost=4), seen(with_lost=4)],
        [seen(), seen(is_busy=True), seen()],
        [seen(4), seen(4), seen(4, 4), seen(4, 4)],
        [seen(), seen(4, 4), seen(4, 4)],
        [seen(), seen(4, 4), seen(5, 5, is_busy=True), seen(5, 5)],
    ],
    ids=[
        "nothing is under way",
        "what the lost one has sent and received does not count",
        "a worker has something to do",
        "a frame is under way",
        "a frame came between two looks",
        "frames come and a worker has something to do",
    ],
)
def test_it_is_looked_until_twice_the_same_is_seen_and_nothing_is_under_way(looks: list[dict[int, LookTold]]) -> None:
    talk = at("looking")
    for number, look in enumerate(looks, 1):
        assert talk.joining == []
        said = talk.hear_all(lambda rank, look=look: replace(look[rank], number=talk.look))  # type: ignore[misc]
        if number < len(looks):
            assert said == [(rank, LookAsked(number + 1)) for rank in (0, 2)]
    assert talk.joining == [1]


def test_newcomers_wait_for_a_view_that_is_under_way() -> None:
    talk = at("looking")
    talk.views.leave(2)
    talk.said()
    for number in (2, 3, 4):
        assert talk.look_on() == [(0, LookAsked(number)), (2, LookAsked(number))]
    talk.settle()
    assert talk.look_on() == [(0, Freeze(3, [], [1])), (2, Freeze(3, [], [1]))]


def test_a_new_rest_looks_anew() -> None:
    talk = at("looking")
    talk.look_on()
    talk.replacement.fail(1, "it died")
    talk.said()
    talk.turn()
    talk.lay_out(1)
    at("looking", talk)
    assert talk.look_on() == [(0, LookAsked(4)), (2, LookAsked(4))], "what was seen in the last rest does not count"
    talk.look_on()
    assert talk.joining == [1]


def test_who_stops_between_two_meetings_goes_on_to_the_next_one() -> None:
    talk = Talk()
    talk.come(1)
    talk.turn()
    talk.tell_steps(period=3)
    talk.hear(0, Resting(1, 7))
    assert talk.hear(2, Resting(1, 7)) == [(rank, RestAt(9)) for rank in (0, 2)], "a batch has several steps"
    talk.hear(0, Resting(1, 9))
    assert talk.hear(2, Resting(1, 9)) == [(rank, LookAsked(1)) for rank in (0, 2)]


def test_where_steps_are_not_in_common_those_that_have_stopped_make_one_more_while_others_may_wait_for_them() -> None:
    talk = Talk(4)
    talk.come(1)
    at("asking", talk)
    talk.now_s = 10.0
    talk.tell_steps(period=0)
    talk.now_s = 20.0
    assert talk.turn() == [], "nobody has stopped"
    talk.hear(0, Resting(1, 4))
    talk.hear(3, Resting(1, 7))
    talk.now_s += timeouts.STANDS_STILL_S / 2
    assert talk.turn() == []
    talk.now_s += timeouts.STANDS_STILL_S
    assert talk.turn() == [(0, RestAt(5)), (3, RestAt(8))]
    talk.now_s += 2 * timeouts.STANDS_STILL_S
    assert talk.turn() == [], "they have not stopped again"
    talk.hear(2, Resting(1, 4))
    talk.hear(3, Resting(1, 8))
    assert talk.hear(0, Resting(1, 5)) == [(rank, LookAsked(1)) for rank in (0, 2, 3)]


def test_where_all_stop_before_the_same_step_nobody_makes_one_more() -> None:
    talk = at("stopping")
    talk.hear(0, Resting(1, 5))
    talk.now_s += 100 * timeouts.STANDS_STILL_S
    assert talk.turn() == []
    assert talk.hear(2, Resting(1, 5)) == [(0, LookAsked(1)), (2, LookAsked(1))]

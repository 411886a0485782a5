"""Where a worker's script stops so that newcomers can come in or a checkpoint be taken, and what it says of that."""

from collections.abc import Callable

import pytest

from weft.runtime.checkpoint_messages import CheckpointDue, TakePart
from weft.runtime.seats.rest_stop import RestStop
from weft.runtime.view_messages import Resting, RestTold


class Script:
    """A script that stops after its steps; what it hears while it waits is `to_come`."""

    def __init__(self, *, is_newcomer: bool = False) -> None:
        self.said: list[RestTold | Resting | CheckpointDue] = []
        self.refusal = ""
        self.is_dealing = False
        self.rest = RestStop(self.said.append, lambda: self.refusal, lambda: self.is_dealing, is_newcomer=is_newcomer)
        self.to_come: list[Callable[[], object]] = []
        self.num_waits = 0

    def make(self, step: int) -> None:
        """The script has made `step` steps."""
        self.rest.stop(step, self._wait)

    def come_in(self, step: int) -> None:
        """The newcomer's script has come to its loop, after `step` steps of the run."""
        self.rest.come_in(step, self._wait)

    def _wait(self, done: Callable[[], bool]) -> None:
        self.num_waits += 1
        while not done():
            self.to_come.pop(0)()


def asked(number: int = 1, step: int = 5) -> Script:
    """A script in whose step `step` a rest was asked for."""
    script = Script()
    script.rest.ask(RestTold(number, step, 1))
    return script


def test_a_script_of_which_no_rest_was_asked_goes_on() -> None:
    script = Script()
    script.make(1)
    assert (script.num_waits, script.said) == (0, [])


def test_who_is_asked_says_where_its_script_is_and_pauses_after_its_step_until_it_is_told_where_to_stop() -> None:
    script = asked(step=5)
    assert script.said == [RestTold(1, 5, 1)]
    heard: list[list[RestTold | Resting | CheckpointDue]] = []
    script.to_come = [
        lambda: heard.append(script.said[1:]),
        lambda: script.rest.stop_at(6),
        lambda: heard.append(script.said[1:]),
        script.rest.go_on,
    ]
    script.make(6)
    assert heard == [[], [Resting(1, 6)]], "it says that it rests when it knows that it is to rest here"
    assert script.to_come == [], "it went on when the rest was over, and not before"


def test_who_is_told_where_before_it_is_there_goes_on_to_that_step_and_says_that_it_rests_there() -> None:
    script = asked(number=3, step=5)
    script.rest.stop_at(7)
    script.make(6)
    assert script.said == [RestTold(3, 5, 1)]
    script.to_come = [script.rest.go_on]
    script.make(7)
    assert script.said[1:] == [Resting(3, 7)]
    assert script.to_come == []


def test_it_says_why_a_newcomer_could_not_begin_where_it_rests() -> None:
    script = asked(number=2)
    script.refusal = "the scheduler would begin anew"
    script.rest.stop_at(6)
    script.to_come = [script.rest.go_on]
    script.make(6)
    assert script.said[1:] == [Resting(2, 6, "the scheduler would begin anew")]


def test_who_rests_and_is_told_a_later_step_makes_one_more_and_says_again_that_it_rests() -> None:
    script = asked()
    script.rest.stop_at(6)
    script.to_come = [lambda: script.rest.stop_at(7)]
    script.make(6)
    assert script.to_come == []
    assert script.said[1:] == [Resting(1, 6)]
    script.to_come = [script.rest.go_on]
    script.make(7)
    assert script.said[1:] == [Resting(1, 6), Resting(1, 7)]


def test_who_is_past_the_step_at_which_it_is_told_to_stop_rests_where_it_is() -> None:
    script = asked()
    script.rest.stop_at(6)
    script.to_come = [script.rest.go_on]
    script.make(8)
    assert script.said[1:] == [Resting(1, 8)]


def test_when_the_rest_is_over_what_was_put_off_is_done_once_and_the_script_stops_no_more() -> None:
    script = asked()
    done: list[str] = []
    script.rest.afterwards = lambda: done.append("freed")
    script.rest.stop_at(6)
    assert done == []
    script.rest.go_on()
    assert done == ["freed"]
    script.rest.go_on()
    assert done == ["freed"]
    script.make(6)
    assert (script.num_waits, script.said[1:]) == (0, [])


def test_a_rest_that_is_asked_for_while_the_script_has_not_yet_gone_on_from_the_last_has_its_own_number() -> None:
    script = asked(number=1)
    script.rest.stop_at(6)

    def end_and_ask_again() -> None:
        script.rest.go_on()
        script.rest.ask(RestTold(2, 6, 1))

    script.to_come = [end_and_ask_again, lambda: script.rest.stop_at(6), script.rest.go_on]
    script.make(6)
    assert script.said[1:] == [Resting(1, 6), RestTold(2, 6, 1), Resting(2, 6)]


@pytest.mark.parametrize("step", [0, 41])
def test_a_newcomers_script_stops_before_its_first_step_without_being_asked(step: int) -> None:
    script = Script(is_newcomer=True)
    script.to_come = [script.rest.go_on]
    script.come_in(step)
    assert script.said == [Resting(0, step)]
    assert script.to_come == []
    script.make(step + 1)
    assert (script.num_waits, len(script.said)) == (1, 1), "from then on it is as any other"


def test_a_newcomer_for_which_the_next_rest_is_asked_at_once_goes_on_into_its_share_and_stops_there() -> None:
    script = Script(is_newcomer=True)
    script.refusal = "the script is in no share"

    def go_on_and_ask() -> None:
        script.rest.go_on()
        script.rest.ask(RestTold(2, 41, 0))
        script.rest.stop_at(0)

    script.to_come = [go_on_and_ask]
    script.come_in(41)
    assert script.said == [Resting(0, 41), RestTold(2, 41, 0)], "where no other newcomer could begin it does not stop"
    script.refusal = ""
    script.to_come = [script.rest.go_on]
    script.make(41)
    assert script.said[2:] == [Resting(2, 41)]


def test_a_newcomer_goes_on_only_when_samples_are_dealt() -> None:
    script = Script(is_newcomer=True)
    script.is_dealing = True

    def deal() -> None:
        script.is_dealing = False

    script.to_come = [script.rest.go_on, deal]
    script.come_in(3)
    assert script.to_come == []


def test_a_script_that_has_stopped_goes_on_only_when_samples_are_dealt() -> None:
    script = Script()
    script.rest.ask(RestTold(1, 3, 1))
    script.rest.stop_at(4)
    script.is_dealing = True
    dealt: list[str] = []

    def deal() -> None:
        dealt.append("dealt")
        script.is_dealing = False

    script.to_come = [script.rest.go_on, deal]
    script.make(4)
    assert (dealt, script.to_come) == (["dealt"], [])


@pytest.mark.parametrize("is_in_step", [True, False])
def test_a_script_that_asks_itself_says_that_a_checkpoint_is_due_and_waits_for_the_engine(is_in_step: bool) -> None:
    script = Script()
    script.rest.ask_itself(is_in_step=is_in_step)
    assert (script.said, script.rest.has_asked_itself) == ([CheckpointDue(is_in_step)], True)
    script.to_come = [
        lambda: script.rest.ask(RestTold(4, 6, 1, True)),
        lambda: script.rest.stop_at(6),
        script.rest.go_on,
    ]
    script.make(6)
    assert script.said[1:] == [RestTold(4, 6, 1, True), Resting(4, 6)]
    assert (script.to_come, script.rest.has_asked_itself) == ([], False)


def test_a_script_that_has_asked_itself_goes_on_when_no_checkpoint_is_taken() -> None:
    script = Script()
    script.rest.ask_itself(is_in_step=True)
    script.to_come = [script.rest.go_on]
    script.make(6)
    assert (script.said, script.to_come, script.rest.is_asked) == ([CheckpointDue(True)], [], False)


def test_who_is_asked_to_rest_already_asks_for_nothing_itself() -> None:
    script = asked()
    script.rest.ask_itself(is_in_step=True)
    assert (script.said, script.rest.has_asked_itself) == ([RestTold(1, 5, 1)], False)


def test_who_has_asked_itself_does_so_once() -> None:
    script = Script()
    for _ in range(2):
        script.rest.ask_itself(is_in_step=True)
    assert script.said == [CheckpointDue(True)]


def test_a_part_that_is_ordered_is_taken_once_while_the_script_rests_and_it_rests_on() -> None:
    script = asked()
    script.rest.stop_at(6)
    taken: list[tuple[TakePart, int]] = []
    script.rest.take = lambda order: taken.append((order, len(script.to_come)))

    def order() -> None:
        script.rest.order = TakePart(6, 1, 2)

    script.to_come = [order, lambda: None, script.rest.go_on]
    script.make(6)
    assert taken == [(TakePart(6, 1, 2), 2)], "before it goes on"
    assert (script.to_come, script.rest.order) == ([], None)


def test_a_part_is_taken_though_the_order_to_go_on_comes_right_behind() -> None:
    script = asked()
    script.rest.stop_at(6)
    taken: list[TakePart] = []
    script.rest.take = taken.append

    def order_and_go_on() -> None:
        script.rest.order = TakePart(6, 1, 2)
        script.rest.go_on()

    script.to_come = [order_and_go_on]
    script.make(6)
    assert taken == [TakePart(6, 1, 2)]


def test_without_an_order_no_part_is_taken() -> None:
    script = Script()
    taken: list[TakePart] = []
    script.rest.take = taken.append
    script.rest.take_part()
    assert taken == []

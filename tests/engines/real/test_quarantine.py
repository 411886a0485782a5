"""Who is quarantined because its gradients are not finite, and when it is the model that has diverged."""

import msgspec
import pytest
from support.processes.sessions import STATUS

from weft.config.on_loss import REPLACE, SHRINK, STOP
from weft.core.errors import NotFinite
from weft.engines.real.quarantine import Quarantine
from weft.observe.records.left_out import LeftOut

CAUSE = "its gradients were not finite five steps in a row (steps 20 to 24)"


class Ward:
    """A quarantine, and what it told."""

    def __init__(self, on_loss: str = REPLACE) -> None:
        self.told: list[str] = []
        self.quarantine = Quarantine(on_loss, self.told.append)

    def hear(self, rank: int, num_steps: int, first: int | None = None, last: int = 0) -> "Ward":
        """A worker says how many steps it has made, and the last row of bad ones."""
        left_out = None if first is None else LeftOut(last, "the gradient of 'w'", last - first + 1, first)
        self.quarantine.hear(msgspec.structs.replace(STATUS, rank=rank, step=num_steps, left_out=left_out))
        return self

    def check(self, *members: int, ended: tuple[int, ...] = (), unless: str = "") -> dict[int, str]:
        return self.quarantine.check(members or (0, 1, 2), ended, unless)


@pytest.mark.parametrize("on_loss", [REPLACE, SHRINK])
def test_a_worker_with_five_bad_steps_is_quarantined_when_the_others_have_made_two_good_ones(on_loss: str) -> None:
    ward = Ward(on_loss).hear(0, 20).hear(2, 21).hear(1, 23, 20, 23)
    assert ward.check() == {}, "four"
    assert ward.hear(1, 24, 20, 24).check() == {}
    assert ward.hear(0, 22).hear(2, 22).check() == {}, "worker 2 has made one"
    assert ward.hear(1, 27, 20, 26).hear(2, 23).check() == {1: CAUSE}


def test_one_of_which_nothing_was_heard_is_waited_for() -> None:
    ward = Ward().hear(0, 20).hear(1, 24, 20, 24).hear(0, 22)
    assert ward.check() == {}
    assert ward.hear(2, 30).check() == {1: CAUSE}


def test_one_that_is_bad_for_fewer_steps_is_waited_for() -> None:
    ward = Ward().hear(0, 20).hear(2, 20).hear(1, 24, 20, 24).hear(0, 30)
    assert ward.hear(2, 24, 22, 24).check() == {}
    assert ward.hear(2, 25, 22, 24).check() == {}, "nothing is known of its next step"
    assert ward.hear(2, 26, 22, 24).check() == {1: CAUSE}
    assert ward.hear(2, 26, 22, 26).hear(0, 32).check() == {1: CAUSE, 2: CAUSE.replace("20 to 24", "22 to 26")}


def test_one_that_has_recovered_is_not_quarantined() -> None:
    ward = Ward().hear(0, 20).hear(2, 20).hear(1, 24, 20, 24).hear(1, 26, 20, 24).hear(0, 40).hear(2, 40)
    assert ward.check() == {}


def test_one_that_takes_the_place_of_a_lost_one_begins_anew() -> None:
    ward = Ward().hear(0, 20).hear(2, 20).hear(1, 24, 20, 24).hear(0, 40).hear(2, 40)
    ward.quarantine.forget(1)
    assert ward.check() == {}


def test_scripts_that_have_ended_are_not_asked_and_say_nothing_of_the_model() -> None:
    ward = Ward().hear(0, 20).hear(2, 20).hear(1, 24, 20, 24).hear(0, 30)
    assert ward.check(ended=(2,)) == {1: CAUSE}
    assert ward.check(ended=(0, 2)) == {}
    assert ward.hear(0, 24, 20, 24).check(ended=(2,)) == {}


def test_if_all_are_bad_the_run_ends_or_where_losses_end_it_goes_on_and_says_so_once() -> None:
    with pytest.raises(NotFinite) as found:
        Ward().hear(0, 24, 20, 24).hear(1, 26, 20, 26).check(0, 1)
    assert str(found.value) == (
        "training has diverged: the gradients of all workers were not finite in 5 steps in a row or more; of worker 0 "
        "the gradient of 'w' in steps 20 to 24.\n"
        "  Lower the learning rate, clip gradients, or look for what the script divides by."
    )
    ward = Ward(STOP).hear(0, 24, 20, 24).hear(1, 26, 20, 26)
    assert ward.check(0, 1) == ward.check(0, 1) == {}
    assert ward.told == [str(found.value)]


def test_where_a_loss_ends_the_run_nobody_is_quarantined_and_the_user_is_told_once() -> None:
    ward = Ward().hear(0, 20).hear(1, 24, 20, 24).hear(0, 22)
    assert ward.check(0, 1, unless="it is needed") == ward.check(0, 1, unless="it is needed") == {}
    assert ward.told == [
        f"worker 1: {CAUSE}, while those of others were; it goes on and counts for nothing (it is needed; "
        "--on-nan stop would end the run)"
    ]

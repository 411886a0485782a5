"""Where a worker's script meets whoever drives it."""

from weft.adapters.alone import Alone
from weft.core.seat import current, sit


def test_nobody_sits_until_a_driver_prepares_a_seat() -> None:
    assert current() is None


def test_the_seat_before_is_handed_back_so_that_it_can_be_restored() -> None:
    first, second = Alone(), Alone()
    assert sit(first) is None
    assert current() is first
    assert sit(second) is first
    assert current() is second
    assert sit(None) is second
    assert current() is None

"""Scripts that change their learning rates and name nothing that does."""

from weft.adapters.watched_rates import UNNAMED, WatchedRates


def test_rates_that_change_after_the_loop_began_are_noticed() -> None:
    groups = [{"lr": 0.1}, {"momentum": 0.9}, {"lr": 0.2}]
    rates = WatchedRates(lambda: groups)
    groups[0]["lr"] = 0.05
    rates.begin()
    assert rates.unnamed() == "", "what is set before the loop is set by every script"
    groups[2]["lr"] = 0.1
    rates.begin()
    assert rates.unnamed() == UNNAMED, "also in a second loop"


def test_who_names_what_it_keeps_may_change_them() -> None:
    groups = [{"lr": 0.1}]
    rates = WatchedRates(lambda: groups)
    rates.begin()
    groups[0]["lr"] = 0.05
    rates.is_named = True
    assert rates.unnamed() == ""

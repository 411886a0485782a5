"""What scripts may name by worker.keep."""

import pytest

from weft.adapters.kept_values import kept_values
from weft.core.errors import ConfigError


class Average:
    """Something with a state."""

    def state_dict(self) -> dict[str, int]:
        return {"mean": 3}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Nothing is kept here."""


def test_objects_with_a_state_are_kept_as_they_are() -> None:
    average = Average()
    assert kept_values({"average": average}) == {"average": average}


def test_the_items_of_a_dict_are_its_state_and_come_back_into_the_same_dict() -> None:
    counters = {"best": 0.5, "bad": 2}
    kept = kept_values({"stop": counters})["stop"]
    state = kept.state_dict()
    counters["bad"] = 7
    assert state == {"best": 0.5, "bad": 2}, "as it was"
    kept.load_state_dict({"best": 0.9})
    assert counters == {"best": 0.9}


def test_what_has_no_state_is_refused() -> None:
    with pytest.raises(ConfigError) as refused:
        kept_values({"best": 3})
    assert str(refused.value) == (
        "worker.keep(best=...) was given a int, which has no state_dict and load_state_dict.\n"
        "  Give it an object that has both, as schedulers and scalers have, or a dict."
    )

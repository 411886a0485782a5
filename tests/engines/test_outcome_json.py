"""What outcomes of all runs have in common in plain data."""

import json
from math import inf, nan

from weft.engines.outcome_json import coding_json, finite, histogram, timeline_json


def test_numbers_that_are_not_finite_are_none_however_deep_they_lie() -> None:
    told = finite({"loss": nan, "curve": [{"loss": inf}, {"loss": 0.5}], "steps": 3, "name": "gossip"})
    assert told == {"loss": None, "curve": [{"loss": None}, {"loss": 0.5}], "steps": 3, "name": "gossip"}
    assert json.loads(json.dumps(told, allow_nan=False)) == told


def test_ages_are_told_from_the_newest_to_the_oldest() -> None:
    assert list(histogram({10: 1, 2: 5, 0: 7}).items()) == [("0", 7), ("2", 5), ("10", 1)]


def test_what_was_not_kept_is_none() -> None:
    assert (coding_json(None), timeline_json(None)) == (None, None)

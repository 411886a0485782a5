"""The words for what a script does are told apart."""

from weft.core.activity import ACTIVITIES


def test_each_activity_has_a_word_of_its_own() -> None:
    assert len(set(ACTIVITIES)) == len(ACTIVITIES) == 5

"""Long texts keep their head and their tail."""

from weft.core.shortening import CHARACTERS_MAX, shortened


def test_a_text_that_is_short_enough_stays_as_it_is() -> None:
    assert shortened("x" * CHARACTERS_MAX) == "x" * CHARACTERS_MAX


def test_of_a_long_text_head_and_tail_are_left_and_what_is_missing_is_counted() -> None:
    assert shortened("a" * 1000 + "b" * 1000, 9) == "aaaaaa ... (1,991 characters left out) ... bbb"
    assert len(shortened("x" * 50_000_000)) < CHARACTERS_MAX + 50

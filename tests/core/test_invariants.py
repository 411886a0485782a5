"""Invariants are named, and say with which codecs they hold."""

from weft.core.invariants import Codecs, Invariant, holds


def test_an_invariant_names_its_check_and_what_the_check_is_told() -> None:
    assert holds("once.is_finite") == Invariant("once.is_finite", {}, Codecs.NONE)
    bounded = holds("staleness.stays_within", Codecs.ANY, bound=3)
    assert bounded == Invariant("staleness.stays_within", {"bound": 3}, Codecs.ANY)


def test_what_holds_with_any_codec_holds_with_those_that_send_numbers_as_they_are() -> None:
    assert Codecs.NONE < Codecs.EXACT < Codecs.ANY

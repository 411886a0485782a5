"""What protocols may know of a codec."""

from weft.codecs import RandomK, TopK
from weft.core.coding import Coding
from weft.core.names import Carries


def told(codec: Coding) -> tuple[bool, bool, bool]:
    """What a protocol asks."""
    return Carries.GRADIENT in codec.carries, codec.wants_feedback, codec.adds_up


def test_a_codec_says_what_it_carries_and_wants_and_whether_it_adds_up() -> None:
    assert told(TopK()) == (True, True, False)
    assert told(RandomK()) == (True, True, True)


def test_what_has_not_all_of_it_is_no_codec() -> None:
    assert isinstance(TopK(), Coding)
    assert not isinstance("topk", Coding)
    assert not isinstance(3, Coding)

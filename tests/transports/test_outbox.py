"""What waits to leave: whole frames, the most urgent first, and not one byte lost, doubled or changed."""

from hypothesis import given
from hypothesis import strategies as st

from weft.transports.outbox import Outbox


def framed(outbox: Outbox, *pieces: bytes, urgency: int = 0, lent_for: str | None = None) -> None:
    frame = outbox.begin(urgency)
    for piece in pieces:
        outbox.add(frame, memoryview(piece), lent_for)
    outbox.end(frame)


def left(outbox: Outbox, at_once: int = 1 << 20) -> bytes:
    """What leaves, some bytes at a time."""
    gone = b""
    while outbox:
        ready = b"".join(outbox.first(8))[:at_once]
        assert ready, "a frame waits, but nothing of it can leave"
        outbox.drop(len(ready))
        gone += ready
    return gone


def test_the_most_urgent_frame_leaves_next_and_equally_urgent_ones_in_order() -> None:
    outbox = Outbox()
    for urgency, name in ((0, b"a"), (2, b"b"), (7, b"c"), (2, b"d"), (-1, b"e")):
        framed(outbox, name, urgency=urgency)
    assert left(outbox) == b"acbde", "the first had begun to leave when the others came"


def test_a_frame_that_has_begun_to_leave_is_finished_first_though_it_still_grows() -> None:
    outbox = Outbox()
    large = outbox.begin()
    outbox.add(large, memoryview(b"12"))
    framed(outbox, b"urgent", urgency=9)
    outbox.drop(2)
    assert outbox.first(8) == []
    assert outbox.waits_for(large)
    outbox.add(large, memoryview(b"34"))
    assert not outbox.waits_for(large)
    outbox.end(large)
    assert left(outbox) == b"34urgent"


def test_what_is_lent_for_one_purpose_is_copied_when_it_is_taken_back() -> None:
    outbox, first, second = Outbox(), bytearray(b"first "), bytearray(b"second")
    for body, purpose in ((first, "sums"), (second, "models")):
        frame = outbox.begin()
        outbox.add(frame, memoryview(body), purpose)
        outbox.end(frame)
    outbox.drop(2)
    assert outbox.take_back("sums") == 1
    assert outbox.take_back("sums") == 0
    first[:], second[:] = b"??????", b"change"
    assert left(outbox) == b"rst change"


@given(
    frames=st.lists(st.tuples(st.integers(-1, 3), st.lists(st.integers(1, 50), min_size=1, max_size=3)), max_size=20),
    at_once=st.integers(1, 40),
)
def test_every_byte_leaves_once_and_frames_are_not_mixed(frames: list[tuple[int, list[int]]], at_once: int) -> None:
    outbox = Outbox()
    texts = [bytes([number]) * sum(sizes) for number, (_, sizes) in enumerate(frames)]
    for text, (urgency, sizes) in zip(texts, frames, strict=True):
        pieces, rest = [], text
        for size in sizes:
            pieces.append(rest[:size])
            rest = rest[size:]
        framed(outbox, *pieces, urgency=urgency)
    assert outbox.num_bytes == sum(map(len, texts))
    order = sorted(range(1, len(frames)), key=lambda number: -frames[number][0])
    assert left(outbox, at_once) == b"".join(texts[number] for number in [*range(min(1, len(frames))), *order])
    assert outbox.num_bytes == 0

"""Frames: 64 bytes that are checked against the run's layout before anything is read on."""

from collections.abc import Mapping
from random import Random
from struct import pack_into
from typing import Any
from zlib import crc32

import pytest

from weft.core.errors import TransportError
from weft.core.names import Bucket
from weft.transports.frames import DATA_BYTES_MAX, HEADER_BYTES, Header, Layout, check_data, kind_table

LAYOUT = Layout(num_kinds=3, num_nodes=4, buckets=(Bucket(10), Bucket(4, itemsize=8)))
WHOLE = Header(2, 1, 3, -5, 0, (0, 0), 0.5, 4, 7, 40, 99)
BARE = Header(0, 0, 1, 1 << 40, -1, (0, 0), 1.0, 0, 0, 0, 0)


def forged(offset: int, value: bytes) -> bytes:
    """A header whose bytes were changed by someone who knows the checksum."""
    raw = bytearray(WHOLE.pack())
    raw[offset : offset + len(value)] = value
    pack_into("<I", raw, HEADER_BYTES - 4, crc32(raw[: HEADER_BYTES - 4]))
    return bytes(raw)


@pytest.mark.parametrize(
    "header",
    [
        WHOLE,
        BARE,
        WHOLE._replace(part=(1, 3), body_bytes=12),
        WHOLE._replace(part=(0, 20), body_bytes=0),
        WHOLE._replace(bucket=1, itemsize=8, body_bytes=32),
        WHOLE._replace(data_bytes=DATA_BYTES_MAX),
    ],
)
def test_a_header_is_64_bytes_and_comes_back_as_it_was(header: Header) -> None:
    raw = header.pack()
    assert len(raw) == HEADER_BYTES
    assert LAYOUT.read(raw) == LAYOUT.read(memoryview(bytearray(raw))) == header


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": 3}, "a frame of kind 3 goes from node 1 to 3, which are not all known."),
        ({"source": 4}, "a frame of kind 2 goes from node 4 to 3, which are not all known."),
        ({"target": 9}, "a frame of kind 2 goes from node 1 to 9, which are not all known."),
        ({"data_bytes": 16385}, "a frame announces 16385 bytes of data, but 16384 are the most."),
        ({"weight": float("nan")}, "a frame has the weight nan."),
        ({"weight": float("-inf")}, "a frame has the weight -inf."),
        ({"bucket": 2}, "a frame has a body for bucket 2, but there are 2."),
        ({"bucket": -1}, "a frame has a body for bucket -1, but there are 2."),
        ({"itemsize": 8}, "a frame has numbers of 8 bytes for bucket 0, which has those of 4."),
        ({"itemsize": 0}, "a frame has numbers of 0 bytes for bucket 0, which has those of 4."),
        ({"part": (3, 3)}, "a frame has part 3 of 3 of bucket 0."),
        ({"part": (1, 0)}, "a frame has part 1 of 0 of bucket 0."),
        ({"body_bytes": 1 << 60}, f"a frame announces {1 << 60} bytes for bucket 0, but its part 0 of 0 has 40."),
        ({"part": (1, 3)}, "a frame announces 40 bytes for bucket 0, but its part 1 of 3 has 12."),
        ({"body_bytes": 0}, "a frame announces 0 bytes for bucket 0, but its part 0 of 0 has 40."),
    ],
)
def test_a_header_that_the_layout_does_not_allow_is_refused(changes: Mapping[str, Any], message: str) -> None:
    with pytest.raises(TransportError) as refused:
        LAYOUT.read(WHOLE._replace(**changes).pack())
    assert str(refused.value) == message


CODED = LAYOUT._replace(coded_bytes_max=(24, 80))
CODED_BODY = WHOLE._replace(itemsize=1, body_bytes=24)


@pytest.mark.parametrize("body_bytes", [0, 1, 24])
def test_a_coded_body_has_any_size_up_to_the_most_of_its_bucket(body_bytes: int) -> None:
    header = CODED_BODY._replace(body_bytes=body_bytes)
    assert CODED.read(header.pack()) == header
    assert CODED.read(WHOLE.pack()) == WHOLE, "others are not coded"
    assert (LAYOUT.body_bytes_max, CODED.body_bytes_max) == (40, 80)


@pytest.mark.parametrize(
    ("layout", "changes", "message"),
    [
        (CODED, {"body_bytes": 25}, "a frame announces 25 coded bytes for bucket 0, but 24 are the most."),
        (CODED, {"body_bytes": 1 << 60}, f"a frame announces {1 << 60} coded bytes for bucket 0, but 24 are the most."),
        (CODED, {"bucket": 2}, "a frame has a body for bucket 2, but there are 2."),
        (CODED, {"part": (3, 3)}, "a frame has part 3 of 3 of bucket 0."),
        (LAYOUT, {}, "a frame has numbers of 1 bytes for bucket 0, which has those of 4."),
    ],
)
def test_a_coded_body_that_cannot_be_is_refused_from_its_header(
    layout: Layout, changes: Mapping[str, Any], message: str
) -> None:
    with pytest.raises(TransportError) as refused:
        layout.read(CODED_BODY._replace(**changes).pack())
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (forged(0, b"HTTP"), "a frame begins with b'HTTP', not b'WEFT': not one of Weft's."),
        (forged(4, b"\x03"), "a frame is of version 3, but this is version 2."),
        (WHOLE.pack()[:-4] + bytes(4), "a frame's header does not match its checksum."),
    ],
    ids=["magic", "version", "checksum"],
)
def test_a_header_of_something_else_is_refused(raw: bytes, message: str) -> None:
    with pytest.raises(TransportError) as refused:
        LAYOUT.read(raw)
    assert str(refused.value) == message


def test_no_flipped_bit_goes_unnoticed() -> None:
    raw = WHOLE.pack()
    for bit in range(8 * HEADER_BYTES):
        flipped = bytearray(raw)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(TransportError):
            LAYOUT.read(flipped)


def test_ten_thousand_mutated_headers_with_right_checksums_are_read_or_refused_and_nothing_else() -> None:
    random = Random(1)
    num_read = 0
    for _ in range(10_000):
        offset = random.randrange(HEADER_BYTES - 4)
        try:
            header = LAYOUT.read(forged(offset, random.randbytes(1)))
        except TransportError:
            continue
        num_read += 1
        assert header.body_bytes <= LAYOUT.body_bytes_max
        assert header.data_bytes <= DATA_BYTES_MAX
    assert 0 < num_read < 10_000


def test_the_largest_body_is_that_of_the_largest_bucket() -> None:
    assert LAYOUT.body_bytes_max == 40
    assert Layout(1, 1, ()).body_bytes_max == 0


def test_data_that_does_not_match_its_checksum_is_refused() -> None:
    header = WHOLE._replace(data_checksum=crc32(b"payload"))
    check_data(header, b"payload")
    with pytest.raises(TransportError) as refused:
        check_data(header, memoryview(b"paYload"))
    assert str(refused.value) == "a frame's data does not match its checksum."


def test_every_process_gives_a_kind_the_same_number() -> None:
    assert kind_table(["push", "pull", "answer"]) == kind_table(["pull", "answer", "push"])
    assert kind_table(["b", "a"]) == {"a": 0, "b": 1}

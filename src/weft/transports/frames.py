"""Frames: the format of a message on every transport: a header of 64 bytes, then data, then the body.

    magic 4s, version B, item bytes B, kind H, source I, target I, clock q, bucket i, part I, parts I,
    weight d, data bytes I, body bytes Q, data checksum I, header checksum I

`kind` is an index of the table of names that all processes of a run agree on. `data` is msgpack. The body is the
tensor's own bytes. A header is checked against the run's layout before anything is allocated or read further.
"""

from collections.abc import Sequence
from math import isfinite
from struct import Struct
from typing import NamedTuple
from zlib import crc32

from weft.core.errors import TransportError
from weft.core.names import Bucket, NodeId, Part

MAGIC = b"WEFT"
VERSION = 2
HEADER_BYTES = 64
DATA_BYTES_MAX = 16 << 10
"""Limit of `data`: a message's plain data (4 KiB at most) and the hyper-parameters that are sent with gradients."""

CODED_ITEMSIZE = 1

_LAYOUT = Struct("<4sBBHIIqiIIdIQI")
_CHECKSUM = Struct("<I")
assert _LAYOUT.size + _CHECKSUM.size == HEADER_BYTES


class Header(NamedTuple):
    """The fields of a frame's header. A `part` of (0, 0) is a whole bucket; `itemsize` is 0 without a body.

    A body with an `itemsize` of 1 is coded.
    """

    kind: int
    source: NodeId
    target: NodeId
    clock: int
    bucket: int
    part: tuple[int, int]
    weight: float
    itemsize: int
    data_bytes: int
    body_bytes: int
    data_checksum: int

    def pack(self) -> bytes:
        """The header as 64 bytes, with its own checksum."""
        start = _LAYOUT.pack(
            MAGIC,
            VERSION,
            self.itemsize,
            self.kind,
            self.source,
            self.target,
            self.clock,
            self.bucket,
            *self.part,
            self.weight,
            self.data_bytes,
            self.body_bytes,
            self.data_checksum,
        )
        return start + _CHECKSUM.pack(crc32(start))


class Layout(NamedTuple):
    """The kinds, nodes and buckets of a run, against which every header is checked."""

    num_kinds: int
    num_nodes: int
    buckets: tuple[Bucket, ...]
    coded_bytes_max: tuple[int, ...] = ()
    """The largest coded size of each bucket; empty: no codec is used."""

    @property
    def body_bytes_max(self) -> int:
        return max((*(bucket.num_bytes for bucket in self.buckets), *self.coded_bytes_max), default=0)

    def read(self, raw: bytes | bytearray | memoryview) -> Header:
        """The header in `raw`, checked; raises a TransportError that says what is wrong."""
        fields = _LAYOUT.unpack_from(raw)
        magic, version, itemsize, kind, source, target, clock, bucket, which, of, weight, data, body, data_sum = fields
        if magic != MAGIC:
            raise TransportError(f"a frame begins with {bytes(magic)!r}, not {MAGIC!r}: not one of Weft's.")
        if version != VERSION:
            raise TransportError(f"a frame is of version {version}, but this is version {VERSION}.")
        if _CHECKSUM.unpack_from(raw, _LAYOUT.size)[0] != crc32(memoryview(raw)[: _LAYOUT.size]):
            raise TransportError("a frame's header does not match its checksum.")
        if kind >= self.num_kinds or source >= self.num_nodes or target >= self.num_nodes:
            raise TransportError(
                f"a frame of kind {kind} goes from node {source} to {target}, which are not all known."
            )
        if data > DATA_BYTES_MAX:
            raise TransportError(f"a frame announces {data} bytes of data, but {DATA_BYTES_MAX} are the most.")
        if not isfinite(weight):
            raise TransportError(f"a frame has the weight {weight}.")
        header = Header(kind, source, target, clock, bucket, (which, of), weight, itemsize, data, body, data_sum)
        if header.itemsize or header.body_bytes:
            self._check_body(header)
        return header

    def _check_body(self, header: Header) -> None:
        if not 0 <= header.bucket < len(self.buckets):
            raise TransportError(f"a frame has a body for bucket {header.bucket}, but there are {len(self.buckets)}.")
        bucket, (which, of) = self.buckets[header.bucket], header.part
        is_coded = header.itemsize == CODED_ITEMSIZE and bool(self.coded_bytes_max)
        if header.itemsize != bucket.itemsize and not is_coded:
            raise TransportError(
                f"a frame has numbers of {header.itemsize} bytes for bucket {header.bucket}, "
                f"which has those of {bucket.itemsize}."
            )
        if (of and which >= of) or (which and not of):
            raise TransportError(f"a frame has part {which} of {of} of bucket {header.bucket}.")
        if is_coded:
            most = self.coded_bytes_max[header.bucket]
            if header.body_bytes > most:
                raise TransportError(
                    f"a frame announces {header.body_bytes} coded bytes for bucket {header.bucket}, "
                    f"but {most} are the most."
                )
            return
        start, stop = Part(which, of).bounds(bucket.num_elements) if of else (0, bucket.num_elements)
        if header.body_bytes != (stop - start) * bucket.itemsize:
            raise TransportError(
                f"a frame announces {header.body_bytes} bytes for bucket {header.bucket}, "
                f"but its part {which} of {of} has {(stop - start) * bucket.itemsize}."
            )


def check_data(header: Header, data: bytes | memoryview) -> None:
    """Refuse data that does not match its checksum."""
    if crc32(data) != header.data_checksum:
        raise TransportError("a frame's data does not match its checksum.")


def kind_table(names: Sequence[str]) -> dict[str, int]:
    """The index of each kind's name, the same in every process of a run."""
    return {name: number for number, name in enumerate(sorted(names))}

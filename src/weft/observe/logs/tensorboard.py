"""A log that TensorBoard reads: scalars in an event file, written without its library.

An event file is a row of records (length, its checksum, data, its checksum; little-endian), whose data is a protocol
buffer: Event {1: wall time, double; 2: step, int64; 3: version, text; 5: Summary}, Summary {1: Value, repeated},
Value {1: tag, text; 2: number, float32}. Checksums are CRC-32C, masked.
"""

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from weft.observe.records.moments import Moment, Numbers

VERSION = "brain.Event:2"
"""The first record of every event file says so."""

CASTAGNOLI = 0x82F63B78
MASK_DELTA = 0xA282EAD8
VARINT, DOUBLE, BYTES, FLOAT = 0, 1, 2, 5
"""Wire types of protocol buffers."""


def _table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (CASTAGNOLI if byte & 1 else 0)
        table.append(byte)
    return table


TABLE = _table()


def crc32c(raw: bytes) -> int:
    """The checksum of Castagnoli's polynomial."""
    crc = 0xFFFFFFFF
    for byte in raw:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def masked(crc: int) -> int:
    """As event files have it: data that holds checksums shall not look like its own."""
    return ((crc >> 15 | crc << 17) + MASK_DELTA) & 0xFFFFFFFF


def record(data: bytes) -> bytes:
    """Data with its length and their checksums."""
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", masked(crc32c(length))) + data + struct.pack("<I", masked(crc32c(data)))


def _varint(value: int) -> bytes:
    raw = bytearray()
    while value > 0x7F:
        raw.append(value & 0x7F | 0x80)
        value >>= 7
    raw.append(value)
    return bytes(raw)


def _field(number: int, wire_type: int, raw: bytes) -> bytes:
    return _varint(number << 3 | wire_type) + (_varint(len(raw)) if wire_type == BYTES else b"") + raw


def event(wall_s: float, step: int, scalars: Mapping[str, float]) -> bytes:
    """A protocol buffer that says these numbers of a step."""
    values = b"".join(
        _field(1, BYTES, _field(1, BYTES, tag.encode()) + _field(2, FLOAT, struct.pack("<f", value)))
        for tag, value in scalars.items()
    )
    return _field(1, DOUBLE, struct.pack("<d", wall_s)) + _field(2, VARINT, _varint(step)) + _field(5, BYTES, values)


def _single(value: float) -> float:
    """What float32 cannot say is infinite."""
    try:
        struct.pack("<f", value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return value


class TensorBoardLog:
    """The scalars of one run, in a folder of its own. `began_s` is its beginning by the clock on the wall; virtual
    times count from 0."""

    def __init__(self, folder: Path, began_s: float) -> None:
        folder.mkdir(parents=True)
        self._began_s = began_s
        self._file = (folder / f"events.out.tfevents.{int(began_s):010d}.weft").open("wb")

    def _write(self, at_s: float, step: int, scalars: Mapping[str, float | None]) -> None:
        known = {tag: _single(value) for tag, value in scalars.items() if value is not None}
        self._file.write(record(event(self._began_s + at_s, step, known)))
        self._file.flush()

    def begin(self, about: Mapping[str, Any]) -> None:
        version = _field(1, DOUBLE, struct.pack("<d", self._began_s)) + _field(3, BYTES, VERSION.encode())
        self._file.write(record(version))
        self._file.flush()

    def moment(self, moment: Moment) -> None:
        scalars = {
            "training/loss": moment.loss,
            "training/samples_per_s": moment.samples_per_s,
            "training/staleness_mean": moment.staleness_mean,
            "training/bytes_sent": moment.bytes_sent,
            "waiting/all workers": moment.waiting_fraction,
        }
        scalars |= {f"waiting/worker {worker.rank}": worker.waiting_fraction for worker in moment.workers}
        self._write(moment.at_s, moment.step, scalars)

    def report(self, at_s: float, step: int, epoch: int, numbers: Numbers, consensus: float | None) -> None:
        scalars = {f"reported/{name}": value for name, value in numbers.items()}
        self._write(at_s, step, {**scalars, "reported/epoch": float(epoch), "training/consensus": consensus})

    def remark(self, at_s: float, event: str, text: str) -> None:
        """Words are for other logs."""

    def end(self, at_s: float, about: Mapping[str, Any]) -> None:
        """All has been said."""

    def close(self) -> None:
        self._file.close()

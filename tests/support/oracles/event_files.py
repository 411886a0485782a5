"""A reader of TensorBoard's event files that shares nothing with the writer: bit by bit, and strict."""

import struct
from pathlib import Path
from typing import Any, NamedTuple


class Said(NamedTuple):
    """One event of a file."""

    wall_s: float
    step: int
    version: str | None
    scalars: dict[str, float]


def checksum(raw: bytes) -> int:
    """The masked CRC-32C, by polynomial division."""
    remainder = 0xFFFFFFFF
    for byte in raw:
        remainder ^= byte
        for _ in range(8):
            is_odd = remainder & 1
            remainder //= 2
            if is_odd:
                remainder ^= 0x82F63B78
    crc = remainder ^ 0xFFFFFFFF
    return ((crc // 2**15 + crc * 2**17 % 2**32) + 0xA282EAD8) % 2**32


def read_events(path: Path) -> list[Said]:
    """All events; every length and checksum is right."""
    raw, events = path.read_bytes(), []
    while raw:
        (length,) = struct.unpack("<Q", raw[:8])
        assert struct.unpack("<I", raw[8:12])[0] == checksum(raw[:8])
        data, raw = raw[12 : 12 + length], raw[12 + length :]
        assert struct.unpack("<I", raw[:4])[0] == checksum(data)
        raw = raw[4:]
        events.append(_event(data))
    return events


def _fields(raw: bytes) -> list[tuple[int, Any]]:
    fields: list[tuple[int, Any]] = []
    value: Any
    while raw:
        key, raw = _varint(raw)
        number, wire_type = divmod(key, 8)
        if wire_type == 0:
            value, raw = _varint(raw)
        elif wire_type == 1:
            value, raw = struct.unpack("<d", raw[:8])[0], raw[8:]
        elif wire_type == 5:
            value, raw = struct.unpack("<f", raw[:4])[0], raw[4:]
        else:
            assert wire_type == 2
            length, raw = _varint(raw)
            assert len(raw) >= length
            value, raw = raw[:length], raw[length:]
        fields.append((number, value))
    return fields


def _varint(raw: bytes) -> tuple[int, bytes]:
    value = shift = 0
    for place, byte in enumerate(raw):
        value += byte % 128 * 2**shift
        shift += 7
        if byte < 128:
            return value, raw[place + 1 :]
    raise AssertionError("a number that does not end")


def _event(raw: bytes) -> Said:
    fields = dict(_fields(raw))
    assert set(fields) <= {1, 2, 3, 5}
    scalars = {}
    for number, value in _fields(fields.get(5, b"")):
        assert number == 1
        told = dict(_fields(value))
        assert set(told) == {1, 2}
        assert told[1].decode() not in scalars
        scalars[told[1].decode()] = told[2]
    version = fields[3].decode() if 3 in fields else None
    return Said(fields[1], fields.get(2, 0), version, scalars)

"""Rendezvous: a key-value store where the processes of a run leave small notes for each other before they connect.

Any process that reaches the store can read and write there. So nothing secret is posted, and every note is treated as
untrusted: it is decoded into the type that the reader expects, and the reader checks its values.
"""

from collections.abc import Sequence
from typing import Protocol, TypeVar

import msgspec

from weft.core.errors import TransportError

NOTE_BYTES_MAX = 1 << 20

T = TypeVar("T")


class Rendezvous(Protocol):
    """Notes by key; all processes of a run see the same notes."""

    def post(self, key: str, value: bytes) -> None:
        """Store `value` under `key`; raises TransportError if the connection to the store is known to be lost."""

    def read(self, keys: Sequence[str], timeout_s: float) -> list[bytes]:
        """The notes of `keys`, in this order. Blocks until all are posted.

        After `timeout_s`, raises a TransportError that names the keys that are missing.
        """

    def claim(self, key: str) -> int:
        """Increment the counter of `key` atomically; returns its new value, so 1 to the first caller.

        Counters and notes do not share keys.
        """


def post_note(rendezvous: Rendezvous, key: str, note: object) -> None:
    """Post the record `note` under `key`, encoded as JSON."""
    rendezvous.post(key, msgspec.json.encode(note))


def read_notes(rendezvous: Rendezvous, keys: Sequence[str], kind: type[T], timeout_s: float) -> list[T]:
    """The notes of `keys`, decoded as records of type `kind`; raises TransportError if one is missing or malformed."""
    notes = []
    for key, raw in zip(keys, rendezvous.read(keys, timeout_s), strict=True):
        if len(raw) > NOTE_BYTES_MAX:
            raise TransportError(f"the note '{key}' has {len(raw)} bytes, but {NOTE_BYTES_MAX} are the most.")
        try:
            notes.append(msgspec.json.decode(raw, type=kind))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise TransportError(
                f"the note '{key}' is not what was expected there: {error}.\n"
                "  Is every host's Weft the same version? Does somebody else use this store?"
            ) from error
    return notes

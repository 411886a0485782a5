"""Rendezvous: where the processes of a run, which an engine has started somewhere, leave small notes for each other.

Whoever reaches a rendezvous can read and write there. So nothing secret is posted, and whatever is read is taken for a
stranger's: decoded into a type that was asked for, and checked by who asked.
"""

from collections.abc import Sequence
from typing import Protocol, TypeVar

import msgspec

from weft.core.errors import TransportError

NOTE_BYTES_MAX = 1 << 20

T = TypeVar("T")


class Rendezvous(Protocol):
    """Notes by name; every process of a run sees the same ones."""

    def post(self, key: str, value: bytes) -> None:
        """Leave a note; raises TransportError if it is known that the rendezvous is gone."""

    def read(self, keys: Sequence[str], timeout_s: float) -> list[bytes]:
        """Notes in this order, waiting until all are there; raises TransportError that names those that are not."""

    def claim(self, key: str) -> int:
        """How many have claimed this name by now, this call included. Claims are apart from notes."""


def post_note(rendezvous: Rendezvous, key: str, note: object) -> None:
    """Leave a record as a note."""
    rendezvous.post(key, msgspec.json.encode(note))


def read_notes(rendezvous: Rendezvous, keys: Sequence[str], kind: type[T], timeout_s: float) -> list[T]:
    """Notes that are records of one kind; raises TransportError for those that are missing or something else."""
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

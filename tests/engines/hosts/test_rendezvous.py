"""Notes on a rendezvous: records of a kind that was asked for, and nothing else."""

import msgspec
import pytest
from support.processes.rendezvous import MemoryBoard

from weft.core.errors import TransportError
from weft.engines.hosts import rendezvous as module
from weft.engines.hosts.rendezvous import post_note, read_notes


class Place(msgspec.Struct, frozen=True):
    host: str
    port: int


def test_records_come_back_in_the_order_that_was_asked_for() -> None:
    rendezvous = MemoryBoard()
    for rank in range(3):
        post_note(rendezvous, f"place/{rank}", Place(f"host {rank}", rank))
    assert read_notes(rendezvous, ["place/2", "place/0"], Place, 1.0) == [Place("host 2", 2), Place("host 0", 0)]


@pytest.mark.parametrize("raw", [b"", b"{}", b'{"host": 3, "port": 3}', b"\xff\xfe", b'{"host": "\xff", "port": 1}'])
def test_a_note_of_another_kind_is_refused_with_its_name(raw: bytes) -> None:
    rendezvous = MemoryBoard()
    rendezvous.post("place/0", raw)
    with pytest.raises(TransportError) as refused:
        read_notes(rendezvous, ["place/0"], Place, 1.0)
    first, second = str(refused.value).splitlines()
    assert first.startswith("the note 'place/0' is not what was expected there: ")
    assert second == "  Is every host's Weft the same version? Does somebody else use this store?"


def test_a_note_that_is_too_long_is_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "NOTE_BYTES_MAX", 10)
    rendezvous = MemoryBoard()
    rendezvous.post("place/0", b" " * 11)
    with pytest.raises(TransportError) as refused:
        read_notes(rendezvous, ["place/0"], Place, 1.0)
    assert str(refused.value) == "the note 'place/0' has 11 bytes, but 10 are the most."

"""What was read ahead is news as what a socket has is."""

import selectors

import pytest
from support.network.meshes import Mesh, frame

from weft.transports import tcp
from weft.transports.unread import Unread


def test_a_selector_is_readable_while_links_wait_for_their_next_turn() -> None:
    with selectors.DefaultSelector() as selector:
        unread, link = Unread(selector), object()
        assert selector.select(0) == []
        unread.add(link)  # type: ignore[arg-type]
        assert [key.data for key, _ in selector.select(0)] == [unread]
        assert unread.take() == {link}
        assert selector.select(0) == []
        unread.close()


def test_a_turn_ends_though_more_was_read_and_the_next_one_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp, "TURN_FRAMES_MAX", 2)
    mesh = Mesh(2, is_encrypted=True)
    zero, one = mesh.transports
    for clock in range(7):
        one.send(0, *frame(1, 0, clock=clock))
    turns: list[list[int]] = []
    while sum(map(len, turns)) < 7:
        zero.wait(1.0)
        turns.append([])
        zero.poll(lambda it: turns[-1].append(it.header.clock))
    assert [clock for turn in turns for clock in turn] == list(range(7))
    assert max(map(len, turns)) <= 4, "two turns at most: of the socket and of what was read"
    assert len(turns) > 1
    mesh.close()

"""What the processes of a check-up tell of themselves, and who meets whom when."""

import socket
from collections import Counter
from typing import Any

import msgspec
import pytest
from support.processes.rendezvous import MemoryBoard

from weft.core.errors import TransportError
from weft.engines.diagnose.cluster import info as module
from weft.engines.diagnose.cluster.info import Card, card_key, gather, hosts_of, own_card, rounds_of
from weft.engines.hosts.rendezvous import post_note


def card(rank: int, home: str = "home", **other: Any) -> Card:
    told = Card(rank, home, home, f"name of {home}", "10.0.0.1", 1000 + rank, "eth0", 2.0, {}, {})
    return msgspec.structs.replace(told, **other)


@pytest.mark.parametrize("num_hosts", range(1, 10))
def test_every_pair_meets_once_and_nobody_is_in_two_pairs_of_a_round(num_hosts: int) -> None:
    rounds = rounds_of(num_hosts)
    met = Counter(pair for pairs in rounds for pair in pairs)
    assert met == Counter({(a, b): 1 for b in range(num_hosts) for a in range(b)})
    for pairs in rounds:
        assert max(Counter(host for pair in pairs for host in pair).values()) == 1
    assert len(rounds) == (0 if num_hosts == 1 else num_hosts - 1 + num_hosts % 2)


def test_a_card_says_where_its_process_listens_and_what_it_runs() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        told = own_card(3, listener, None)
        assert (told.rank, told.address, told.port) == (3, *listener.getsockname())
    assert (told.interface, told.host) == ("lo", socket.gethostname())
    assert told.versions.keys() == {"python", "torch", "numpy", "msgspec"}
    assert told.same.keys() == {"weft"}
    assert told.home.startswith(f"{told.machine}/net:")
    assert told.cores > 0


def test_worker_0_waits_for_all_and_tells_the_others_who_came() -> None:
    rendezvous = MemoryBoard()
    came = {rank: card(rank) for rank in (0, 1, 3)}
    for rank, one in came.items():
        post_note(rendezvous, card_key(rank), one)
    assert gather(0, 5, rendezvous, 0.01) == came
    post_note(rendezvous, card_key(2), card(2))
    assert gather(3, 5, rendezvous, 0.01) == came, "who comes later is not waited for by some and not by others"


def test_without_worker_0_the_others_give_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LATER_S", 0.01)
    with pytest.raises(TransportError, match="no process had posted 'checkup/roster'"):
        gather(1, 2, MemoryBoard(), 0.01)


@pytest.mark.parametrize(
    "wrong",
    [{"rank": 2}, {"address": "host"}, {"port": 0}, {"port": 70000}, {"host": "red\x1b[31m"}, {"cores": 0.0}],
    ids=str,
)
def test_a_card_that_cannot_be_true_is_that_of_nobody(wrong: dict[str, object]) -> None:
    rendezvous = MemoryBoard()
    post_note(rendezvous, card_key(0), card(0))
    post_note(rendezvous, card_key(1), {**msgspec.to_builtins(card(1)), **wrong})
    assert gather(0, 2, rendezvous, 0.01) == {0: card(0)}


def test_processes_of_one_home_are_one_host() -> None:
    cards = {rank: card(rank, home) for rank, home in enumerate("aabab")}
    assert [[one.rank for one in host] for host in hosts_of(cards)] == [[0, 1, 3], [2, 4]]

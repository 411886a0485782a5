"""What a connection is worth, measured on links of which it is known."""

import os
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.network.namespaces import pair

from weft.config.network import EmulatedNetwork
from weft.core.errors import TransportError
from weft.engines.diagnose.cluster import link_probe as module
from weft.engines.diagnose.cluster.link_probe import PING, ProbeResult, Tally, measure
from weft.engines.netem.network import SlowNetwork

LINK = EmulatedNetwork(12.5e6, 0.01)
Both = tuple[socket.socket, socket.socket]


@pytest.fixture
def local() -> Iterator[Both]:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as caller,
        listener.accept()[0] as answerer,
    ):
        yield caller, answerer


def measured(caller: socket.socket, answerer: socket.socket) -> tuple[ProbeResult, ProbeResult]:
    with ThreadPoolExecutor(1) as thread:
        answering = thread.submit(measure, answerer, is_caller=False)
        return measure(caller, is_caller=True), answering.result()


@pytest.mark.clock
def test_a_link_of_100_mbit_and_10_ms_is_found_to_be_one() -> None:
    network = SlowNetwork(LINK, 2, seed=1)
    try:
        caller, answerer = pair(network.namespaces)
        calling, answering = measured(caller, answerer)
        caller.close()
        answerer.close()
    finally:
        network.close()
        for namespace in network.namespaces:
            os.close(namespace)
    assert calling.trips is not None
    assert 0.010 <= calling.trips.shortest_s / 2 < 0.012
    assert calling.trips.shortest_s <= calling.trips.usual_s
    assert calling.trips.skew_s == pytest.approx(0.0, abs=0.005)
    assert answering.trips is None
    for found in (calling, answering):
        assert found.incoming_bytes_per_s == pytest.approx(12.5e6, rel=0.1)
        assert 3e6 < found.meanwhile_bytes_per_s < 13.5e6, "both at once depends on who else needs the cores"


def test_a_clock_that_is_ahead_is_seen(local: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    shorten(monkeypatch)
    main, clock = threading.current_thread(), time.time
    monkeypatch.setattr(module.time, "time", lambda: clock() + (0.0 if threading.current_thread() is main else 100.0))
    calling, _ = measured(*local)
    assert calling.trips is not None
    assert calling.trips.skew_s == pytest.approx(100.0, abs=0.05)


def shorten(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PINGS_S", "WARM_S", "WINDOW_S"):
        monkeypatch.setattr(module, name, 0.05)


def test_local_links_are_fast(local: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    shorten(monkeypatch)
    calling, answering = measured(*local)
    assert min(calling[:2] + answering[:2]) > 20e6
    assert calling.trips is not None
    assert calling.trips.shortest_s < 0.01


@pytest.mark.parametrize("is_caller", [True, False])
def test_an_end_that_hangs_up_or_falls_silent_is_told_of(
    local: Both, is_caller: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TIMEOUT_S", 0.1)
    with pytest.raises(TransportError) as broke:
        measure(local[0], is_caller=is_caller)
    assert str(broke.value) == "the connection broke while it was measured: it was silent for too long."
    local[1].close()
    with pytest.raises(TransportError, match=r"^the (other end hung up|connection broke) while it was measured"):
        measure(local[0], is_caller=is_caller)


@pytest.mark.parametrize("plan", [(b"x", 0.0, 0.0), (b"g", 1e9, 1.0), (b"g", float("nan"), 1.0), (b"g", 1.0, -1.0)])
def test_a_plan_that_makes_no_sense_is_refused(local: Both, plan: tuple[bytes, float, float]) -> None:
    caller, answerer = local
    caller.sendall(PING.pack(*plan))
    with pytest.raises(TransportError) as refused:
        measure(answerer, is_caller=False)
    assert str(refused.value) == "the other end does not measure as this one does: is its Weft another version?"


def test_pings_without_end_are_refused(local: Both) -> None:
    caller, answerer = local
    caller.sendall(PING.pack(b"p", 0.0, 0.0) * 1000)
    with pytest.raises(TransportError, match="does not measure as this one does"):
        measure(answerer, is_caller=False)


@pytest.mark.parametrize(
    ("rates", "expected", "tries"),
    [
        ([(20.0, 90.0), (100.0, 90.0)], (90.0, 90.0), 1),
        ([(30.0, 40.0), (100.0, 90.0), (95.0, 92.0)], (95.0, 92.0), 2),
        ([(30.0, 40.0), (100.0, 90.0), (31.0, 30.0), (1.0, 1.0)], (40.0, 40.0), 2),
    ],
    ids=["alike", "bad start", "really slow"],
)
def test_figures_that_differ_much_are_taken_once_more_and_the_better_ones_count(
    local: Both,
    monkeypatch: pytest.MonkeyPatch,
    rates: list[tuple[float, float]],
    expected: tuple[float, float],
    tries: int,
) -> None:
    """The caller's first figures, the answerer's, then the caller's second ones; phases take no time."""
    main = threading.current_thread()
    mine, theirs = iter([*rates[:1], *rates[2:]]), rates[1]
    current: list[tuple[float, float]] = []

    def receive(link: socket.socket, warm_s: float) -> float:
        if threading.current_thread() is not main:
            return theirs[0]
        current.append(next(mine))
        return current[-1][0]

    def both_ways(link: socket.socket, warm_s: float, window_s: float) -> tuple[float, bytes]:
        return (current[-1][1] if threading.current_thread() is main else theirs[1]), b""

    monkeypatch.setattr(module, "_receive", receive)
    monkeypatch.setattr(module, "_both_ways", both_ways)
    monkeypatch.setattr(module, "_send_for", lambda link, duration_s: None)
    calling, answering = measured(*local)
    assert (calling[:2], answering[:2], len(current)) == (expected, theirs, tries)


def test_a_clock_that_is_none_is_refused(local: Both) -> None:
    caller, answerer = local
    answerer.sendall(PING.pack(b"p", float("inf"), 0.0))
    with pytest.raises(TransportError, match="does not measure as this one does"):
        measure(caller, is_caller=True)


class Arrivals:
    """A connection on which pieces come at known times; the clock is theirs."""

    def __init__(self, *pieces: tuple[float, bytes]) -> None:
        self._pieces = list(pieces)
        self.now_s = 0.0

    def recv_into(self, room: memoryview) -> int:
        self.now_s, piece = self._pieces.pop(0)
        room[: len(piece)] = piece
        return len(piece)


def tallied(monkeypatch: pytest.MonkeyPatch, *pieces: tuple[float, int]) -> Tally:
    tally = Tally(1.0)
    for now_s, num_bytes in pieces:
        monkeypatch.setattr(module.time, "perf_counter", lambda now_s=now_s: now_s)
        tally.take(memoryview(bytes(num_bytes)))
    return tally


def test_a_moment_without_a_core_counts_for_little(monkeypatch: pytest.MonkeyPatch) -> None:
    steady = [(1.0, 1), (2.0, 1), *((2.02 + 0.05 * place, 100_000) for place in range(20))]
    paused = [piece for piece in steady if not 2.3 < piece[0] < 2.55]
    assert tallied(monkeypatch, *steady).usual_rate == pytest.approx(2e6)
    assert tallied(monkeypatch, *paused).usual_rate == pytest.approx(2e6)
    assert tallied(monkeypatch, *paused).rate < 1.6e6


def test_what_follows_the_mark_is_not_lost() -> None:
    tally = Tally(1.0)
    tally.take(memoryview(bytes(10)))
    assert not tally.is_over
    tally.take(memoryview(bytes(10) + b"\1more\1"))
    assert (tally.is_over, tally.rest) == (True, b"more\1")


def test_of_few_records_the_rate_is_that_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    few = tallied(monkeypatch, (1.0, 1), *((2.0 + 0.5 * place, 16_000) for place in range(5)))
    assert few.usual_rate == few.rate == pytest.approx(32_000)


def rate(monkeypatch: pytest.MonkeyPatch, warm_s: float, *pieces: tuple[float, bytes]) -> float:
    arrivals = Arrivals(*pieces)
    monkeypatch.setattr(module.time, "perf_counter", lambda: arrivals.now_s)
    return module._receive(arrivals, warm_s)  # type: ignore[arg-type]


def test_the_beginning_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    fast_at_first = [
        (1.0, bytes(5000)),
        (1.5, bytes(5000)),
        (2.0, bytes(100)),
        (3.0, bytes(100)),
        (4.0, bytes(99) + b"\1"),
    ]
    assert rate(monkeypatch, 1.0, *fast_at_first) == 100.0


def test_what_comes_too_slowly_for_that_counts_from_its_first_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rate(monkeypatch, 9.0, (1.0, bytes(50)), (2.0, bytes(100)), (3.0, bytes(99) + b"\1")) == 100.0
    assert rate(monkeypatch, 2.0, (1.0, bytes(50)), (3.0, bytes(199) + b"\1")) == 100.0
    assert rate(monkeypatch, 1.0, (1.0, b"\1")) == 0.0

"""A slow network with real packets: as slow as was asked for, and gone with the run, however that ends."""

import hashlib
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from support.network.namespaces import held, is_elsewhere, namespace_of, pair, pinned
from support.processes.launches import FOREVER, TRAIN, launched, wait_until
from support.processes.real import real

from weft.config.network import EmulatedNetwork
from weft.core.errors import ConfigError, NodeLost
from weft.engines.netem import network as module
from weft.engines.netem.network import SlowNetwork, check_network, connect_timeout_s, patience_s

SLOW = EmulatedNetwork(5e6, 0.01)
LOSSY = EmulatedNetwork(5e6, 0.005, 0.03)
NUM_BYTES = 4 << 20
WARM_BYTES = 1 << 20
"""TCP begins slowly; the rate is that of the rest."""
BAR_S = 2.0

Make = Callable[[EmulatedNetwork], SlowNetwork]


@pytest.fixture
def make() -> Iterator[Make]:
    made: list[SlowNetwork] = []

    def two_workers(network: EmulatedNetwork) -> SlowNetwork:
        made.append(SlowNetwork(network, 2, seed=1))
        return made[-1]

    yield two_workers
    for each in made:
        each.close()
        for namespace in each.namespaces:
            os.close(namespace)


def test_a_round_trip_takes_two_delays_and_hardly_more(make: Make) -> None:
    caller, answerer = pair(make(SLOW).namespaces)
    trips_s = []
    for _ in range(10):
        began_s = time.monotonic()
        caller.send(b"x")
        answerer.send(answerer.recv(1))
        caller.recv(1)
        trips_s.append(time.monotonic() - began_s)
    caller.close()
    answerer.close()
    assert 2 * SLOW.delay_s <= min(trips_s) < 2 * SLOW.delay_s + 0.005


def received(network: SlowNetwork) -> tuple[bytes, bytes, float]:
    """What was sent, what came, and how fast the most of it came."""
    caller, answerer = pair(network.namespaces)
    sent = random.Random(0).randbytes(NUM_BYTES)
    came, warm_s, warm_bytes = bytearray(), 0.0, 0
    with ThreadPoolExecutor(1) as thread:
        thread.submit(caller.sendall, sent)
        while len(came) < NUM_BYTES:
            came += answerer.recv(1 << 16)
            if not warm_s and len(came) > WARM_BYTES:
                warm_s, warm_bytes = time.monotonic(), len(came)
    rate = (len(came) - warm_bytes) / (time.monotonic() - warm_s)
    caller.close()
    answerer.close()
    return sent, bytes(came), rate


@pytest.mark.clock
def test_bytes_come_at_the_rate_that_was_asked_for_and_are_counted(make: Make) -> None:
    network = make(SLOW)
    sent, came, rate = received(network)
    assert hashlib.sha256(came).digest() == hashlib.sha256(sent).digest()
    assert rate == pytest.approx(SLOW.bytes_per_s, rel=0.15)
    wait_until(lambda: network.carried.num_bytes > NUM_BYTES, "the relay to tell", network.hear)
    told = network.conclude()
    assert (told["bytes_per_s"], told["delay_s"], told["loss"], told["num_lost"]) == (5e6, 0.01, 0.0, 0)
    assert NUM_BYTES < told["num_bytes"] < 1.1 * NUM_BYTES


def test_tcp_delivers_everything_over_links_that_lose_packets(make: Make) -> None:
    network = make(LOSSY)
    sent, came, _ = received(network)
    assert hashlib.sha256(came).digest() == hashlib.sha256(sent).digest()
    wait_until(lambda: network.carried.num_bytes > NUM_BYTES, "the relay to tell", network.hear)
    assert network.carried.num_lost > 5


def test_a_relay_that_ends_is_noticed(make: Make) -> None:
    network = make(SLOW)
    network._relay.kill()
    with pytest.raises(NodeLost) as lost:
        wait_until(lambda: False, "its end", network.hear)
    assert str(lost.value) == "the relay of the slow network ended with code -9.\n  Run it again."


@pytest.mark.root
@pytest.mark.parametrize("option", [{"strategy": "allreduce"}, {"strategy": "async_gossip"}])
def test_a_run_over_a_slow_network_says_so_and_leaves_no_descriptor(option: dict[str, Any], tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(TRAIN + "for rows in worker.share(12, batch_size=2):\n    worker.step({'w': w - rows.mean()})\n")
    real(script, 2, transport="tcp", network=SLOW, **option)
    before = set(os.listdir("/proc/self/fd"))
    told = real(script, 3, transport="tcp", network=SLOW, **option).to_json()
    assert set(os.listdir("/proc/self/fd")) == before
    assert told["network"].keys() == {"bytes_per_s", "delay_s", "loss", "own", *module.FIGURES}
    assert told["network"]["num_bytes"] > told["bytes_sent"] > 0


@pytest.mark.parametrize("what", ["launcher killed", "worker killed", "interrupted"])
def test_nothing_is_left_of_a_network_however_the_run_ends(what: str, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(TRAIN + FOREVER.replace("worker.steps == 20", "worker.steps == 3"))
    devices = set(os.listdir("/sys/class/net"))
    with launched(script, "-n", 2, "--net", "100mbit,1ms", "--on-loss", "stop") as run:
        run.until("trains", 2)
        processes = run.processes()
        inside = [pid for pid in processes if is_elsewhere(pid)]
        with pinned(map(namespace_of, inside)) as namespaces:
            assert (len(processes), len(namespaces)) == (5, 2)  # launcher, fork server, relay and two workers
            if what == "launcher killed":
                run.signal(signal.SIGKILL)
                run.process.wait()
            else:
                victim = run.pid if what == "interrupted" else inside[0]
                os.kill(victim, signal.SIGINT if what == "interrupted" else signal.SIGKILL)
                assert run.end() == (0 if what == "interrupted" else 1)
            assert run.leftovers(BAR_S) == set()
            assert held(namespaces) == set()
    assert set(os.listdir("/sys/class/net")) == devices


def test_a_network_that_the_system_refuses_is_an_error_that_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    before = set(os.listdir("/proc/self/fd"))
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    monkeypatch.setattr(module.sys, "executable", "/bin/false")
    with pytest.raises(ConfigError) as refused:
        SlowNetwork(SLOW, 2, 0)
    assert str(refused.value).startswith("--net: the network cannot be made: its relay ended.\n  Give the container ")
    assert set(os.listdir("/proc/self/fd")) == before


def test_without_root_or_devices_it_says_how_to_run_it_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    check_network(4)
    refusals = []
    for name, value in (("WORKERS_MAX", 3), ("TUN", "/dev/net/none"), ("os.geteuid", lambda: 1000)):
        monkeypatch.setattr(f"weft.engines.netem.network.{name}", value)
        with pytest.raises(ConfigError) as refused:
            check_network(4)
        refusals.append(str(refused.value))
    assert refusals == [
        "--net is for 3 workers at most.\n  Use weft simulate SCRIPT --cluster FILE.",
        "--net needs '/dev/net/none', which this machine lacks.\n"
        "  Use modprobe tun, or try it in virtual time, as any user: weft simulate SCRIPT --cluster FILE.",
        "--net makes network namespaces, which needs root on Linux.\n"
        "  Use sudo, or try it in virtual time, as any user: weft simulate SCRIPT --cluster FILE.",
    ]


def test_far_workers_have_more_time_to_connect_and_to_wait() -> None:
    assert (connect_timeout_s(None, 4), patience_s(None)) == (10.0, 0.0)
    assert (connect_timeout_s(EmulatedNetwork(1e6, 0.5), 4), patience_s(EmulatedNetwork(1e6, 0.5))) == (34.0, 2.0)
    assert patience_s(LOSSY) > 10.0

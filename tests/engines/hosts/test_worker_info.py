"""Only processes that fit train together, and those that do not are told what differs."""

import os
from pathlib import Path

import msgspec
import pytest

from weft.config.settings import Settings
from weft.core.errors import ConfigError, TransportError
from weft.engines.hosts.worker_info import (
    WorkerInfo,
    check_addresses,
    check_alike,
    check_places,
    home,
    host_numbers,
    rooms,
    settled,
    worker_info,
)
from weft.engines.real.memory_check import Room


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text("import weft\n")
    return path


def infos(*homes: str, address: str = "10.0.0.1") -> list[WorkerInfo]:
    return [
        WorkerInfo(
            rank=rank,
            pid=100 + rank,
            home=name,
            host=name,
            address=address,
            cores=2,
            same={},
            python="3.11.2",
            available_bytes=9,
        )
        for rank, name in enumerate(homes)
    ]


def test_a_process_tells_where_it_is_and_what_it_runs(script: Path) -> None:
    told = worker_info(2, "10.0.0.1", script, Settings(strategy=("gossip",), steps=7))
    assert (told.rank, told.pid, told.home) == (2, os.getpid(), home())
    assert told.same["strategy"] == "gossip"
    assert told.same["steps"] == "7"
    assert told.same["compress"] == "(not set)"
    assert told.same["script"].startswith("'train.py', ")
    assert msgspec.json.decode(msgspec.json.encode(told), type=WorkerInfo) == told


def test_home_is_the_same_for_a_child() -> None:
    readable, writable = os.pipe()
    if not os.fork():
        os.write(writable, home().encode())
        os._exit(0)
    os.wait()
    assert os.read(readable, 1000).decode() == home()
    os.close(readable)
    os.close(writable)


def test_other_code_is_refused_with_both_digests(script: Path, tmp_path: Path) -> None:
    first = worker_info(0, "10.0.0.1", script, Settings())
    changed = tmp_path / "other" / "train.py"
    changed.parent.mkdir()
    changed.write_text("import weft  # changed\n")
    other = worker_info(1, "10.0.0.2", changed, Settings())
    check_alike([first, msgspec.structs.replace(first, rank=1)])
    with pytest.raises(ConfigError, match=r"worker 1 \(host .*\) has another script than worker 0") as raised:
        check_alike([first, other])
    assert first.same["script"] in str(raised.value)
    assert other.same["script"] in str(raised.value)


def test_other_settings_are_refused_by_their_key(script: Path) -> None:
    first = worker_info(0, "10.0.0.1", script, Settings(compress="fp16"))
    other = worker_info(1, "10.0.0.2", script, Settings())
    with pytest.raises(ConfigError, match=r"another compress .*\n  worker 0: fp16\n  worker 1: \(not set\)"):
        check_alike([first, other])


def test_hosts_are_counted_in_order_of_their_first_workers() -> None:
    assert host_numbers(infos("b", "a", "b", "c", "a")) == [0, 1, 0, 2, 1]


def test_of_several_hosts_none_may_be_on_loopback() -> None:
    check_addresses(infos("a", "a", address="127.0.1.1"))
    with pytest.raises(ConfigError, match=r"host a \(worker 0\) would listen on 127.0.1.1"):
        check_addresses(infos("a", "b", address="127.0.1.1"))


def test_a_host_has_the_least_memory_that_its_workers_have_found() -> None:
    found = [
        msgspec.structs.replace(each, available_bytes=n)
        for each, n in zip(infos("b", "a", "b"), (9, 4, 7), strict=True)
    ]
    assert rooms(found) == [Room("b", 7), Room("a", 4)]
    assert worker_info(0, "10.0.0.1", None, Settings()).available_bytes > 1 << 20


def test_workers_of_one_host_are_found_where_no_other_reaches_them() -> None:
    assert [each.address for each in settled(infos("a", "a"))] == ["127.0.0.1"] * 2
    assert settled(infos("a", "b")) == infos("a", "b")


@pytest.mark.parametrize(
    "wrong",
    [{"host": "mill\x1b[2J"}, {"host": "m" * 501}, {"pid": 0}, {"pid": -1}, {"rank": -1}, {"same": {"a": "b\n"}}],
    ids=["steers a screen", "long", "no process", "a group", "no rank", "two lines"],
)
def test_notes_that_nobody_of_us_writes_are_no_presence(wrong: dict[str, object]) -> None:
    (one,) = infos("a")
    told = msgspec.to_builtins(one)
    assert msgspec.convert(told, WorkerInfo) == one
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(msgspec.json.encode({**told, **wrong}), type=WorkerInfo)


def test_a_note_at_anothers_place_or_without_an_address_is_refused() -> None:
    check_places(infos("a", "b"))
    with pytest.raises(TransportError, match=r"the note of worker 0 says that it has rank 1\.\n  Does somebody else"):
        check_places(infos("a", "b")[::-1])
    with pytest.raises(TransportError, match=r"worker 0 says that it has the address 'mill', which is none"):
        check_places(infos("a", address="mill"))


def test_long_settings_are_told_apart_by_their_digests(script: Path) -> None:
    told = [worker_info(0, "10.0.0.1", script, Settings(set=("a" * 600 + end,))) for end in ("b", "c")]
    assert told[0].same["set"] != told[1].same["set"]
    assert msgspec.json.decode(msgspec.json.encode(told[0]), type=WorkerInfo) == told[0]

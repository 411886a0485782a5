"""An event file that TensorBoard reads, read here by a decoder of the tests' own."""

from math import inf, isnan, nan
from pathlib import Path

import pytest
from support.oracles.event_files import Said, read_events

from weft.observe.logs.tensorboard import TensorBoardLog, crc32c, masked, record
from weft.observe.records.moments import Count, Moments


def events(folder: Path) -> list[Said]:
    (path,) = folder.iterdir()
    assert "tfevents" in path.name
    return read_events(path)


def test_the_checksum_is_that_of_castagnoli() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert masked(0) == 0xA282EAD8


def test_a_moment_is_a_step_with_its_scalars(tmp_path: Path) -> None:
    log = TensorBoardLog(tmp_path / "ssp", began_s=1000.0)
    log.begin({"workers": 2})
    log.moment(Moments(2).make(2.0, [Count(300, 8.0, 1.0, 10), Count(200, 4.0, 0.5, 20)], 0.5, 1.5))
    log.close()
    first, second = events(tmp_path / "ssp")
    assert first == Said(1000.0, 0, "brain.Event:2", {})
    assert second == Said(
        1002.0,
        250,
        None,
        {
            "training/loss": 0.5,
            "training/samples_per_s": 6.0,
            "training/staleness_mean": 1.5,
            "training/bytes_sent": 30.0,
            "waiting/all workers": 0.375,
            "waiting/worker 0": 0.5,
            "waiting/worker 1": 0.25,
        },
    )


def test_what_was_reported_is_there_and_what_is_not_known_is_not(tmp_path: Path) -> None:
    log = TensorBoardLog(tmp_path / "ssp", began_s=0.0)
    log.report(1.0, 7, 3, {"accuracy": 0.5, "größe": 2.0}, None)
    log.report(2.0, 8, 4, {"accuracy": nan, "loss": 1e300, "gain": -1e300}, 0.25)
    log.close()
    first, second = events(tmp_path / "ssp")
    assert first == Said(1.0, 7, None, {"reported/accuracy": 0.5, "reported/größe": 2.0, "reported/epoch": 3.0})
    assert isnan(second.scalars.pop("reported/accuracy"))
    assert second.scalars == {
        "reported/loss": inf,
        "reported/gain": -inf,
        "reported/epoch": 4.0,
        "training/consensus": 0.25,
    }


def test_words_are_left_to_other_logs_and_everything_is_written_at_once(tmp_path: Path) -> None:
    log = TensorBoardLog(tmp_path / "ssp", began_s=0.0)
    log.begin({})
    log.remark(1.0, "blame", "worker 0 is slow")
    log.end(2.0, {"steps": 3})
    assert len(events(tmp_path / "ssp")) == 1
    log.close()


def test_the_readers_checksum_notices_a_flipped_bit(tmp_path: Path) -> None:
    raw = bytearray(record(b"\x09" + bytes(8)))
    (tmp_path / "whole").write_bytes(raw)
    assert len(read_events(tmp_path / "whole")) == 1
    raw[-5] ^= 1
    (tmp_path / "broken").write_bytes(raw)
    with pytest.raises(AssertionError):
        read_events(tmp_path / "broken")

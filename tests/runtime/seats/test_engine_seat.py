"""What every seat behind an engine does alike: it listens, loads once, saves, ends in order, and halts when told."""

import errno
import os
import socket
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.processes.records import job_with

from weft.core.consensus import END
from weft.core.errors import ConfigError
from weft.core.seat import TWICE
from weft.runtime.channel import Channel
from weft.runtime.messages import (
    Conclude,
    Concluded,
    Decided,
    Failed,
    FractionsAsked,
    FractionsTold,
    Halt,
    Halted,
    LeaveAt,
    OnceAnswer,
    OnceAsked,
    OnceLoaded,
    Planned,
    ReplicaTold,
    Reported,
    Saves,
    ScriptCompleted,
    ScriptJoined,
    StepAsked,
    StepTold,
    ThroughputMeasured,
    Welcome,
)
from weft.runtime.seats.engine_seat import HALT_EXIT_CODE, EngineSeat
from weft.runtime.seats.plain_seat import PlainSeat
from weft.runtime.seats.returned_files import FilePiece, PieceTaken, Unsaved


class Exited(BaseException):
    """Stands for the end of the process."""


class Model:
    """As much of a replica as is needed here."""

    buckets = ()

    def __init__(self) -> None:
        self.saved: list[tuple[str, list[str]]] = []

    def layout(self) -> list[str]:
        return []

    def parameter_digests(self) -> dict[str, int]:
        return {"w": 7}

    def save(self, path: str, models: dict[str, object], *, of: int | None, allow_nan: bool) -> None:
        self.saved.append((path, list(models)))


class Shelf:
    """Shares text."""

    def store(self, fd: int, start: int, value: Any) -> tuple[bytes | None, int]:
        return (value.encode(), start + len(value)) if isinstance(value, str) else (b"", start)

    def load(self, fd: int, form: bytes) -> Any:
        return f"shared {form.decode()}"

    def append(self, fd: int, start: int, value: Any) -> tuple[bytes, int, int]:
        raise AssertionError("nothing is handed over")

    def free(self, fd: int, start: int, stop: int) -> None:
        raise AssertionError("nothing was handed over")


class Engine:
    """The other end of a seat's channel; what it will answer is said beforehand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, rank: int = 0) -> None:
        mine, theirs = socket.socketpair()
        self._ends = (mine, theirs)
        self.channel = Channel(theirs)
        self.codes: list[int] = []
        monkeypatch.setattr(os, "_exit", self._exit)
        job = job_with(rank=rank)
        self.seat = PlainSeat(job, Channel(mine), Shelf())
        self.model = Model()

    def _exit(self, code: int) -> None:
        self.codes.append(code)
        raise Exited

    def answers(self, *messages: Any) -> EngineSeat:
        for message in messages:
            self.channel.send(message)
        return self.seat

    def joined(self) -> EngineSeat:
        self.answers(Welcome("allreduce", [0, 0])).join(self.model, None)  # type: ignore[attr-defined]
        return self.seat

    def heard(self, *kinds: type) -> list[Any]:
        return [message for message in self.channel.receive(wait=False) if isinstance(message, kinds)]

    def close(self) -> None:
        for end in self._ends:
            end.close()


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Any:
    made = Engine(monkeypatch)
    yield made
    made.close()


def test_joining_twice_is_refused(engine: Engine) -> None:
    engine.joined()
    with pytest.raises(ConfigError) as refused:
        engine.joined()
    assert str(refused.value) == TWICE
    assert engine.heard(ScriptJoined) == [ScriptJoined([], 0, None, 0)]


def test_the_end_of_a_script_that_never_joined_or_stepped_is_an_error(engine: Engine) -> None:
    with pytest.raises(ConfigError, match=r"script 'train\.py' ended without calling weft\.join"):
        engine.seat.end()
    with pytest.raises(ConfigError, match=r"script 'train\.py' joined but never stepped"):
        engine.joined().end()


def test_a_script_whose_shares_were_handed_nothing_may_end_without_a_step(engine: Engine) -> None:
    seat = engine.joined()
    seat._num_shares = 1
    engine.answers(Conclude([], []), Conclude([], []))
    seat.end()
    assert len(engine.heard(ScriptCompleted)) == 1


def test_fractions_are_asked_for_with_what_was_measured(engine: Engine) -> None:
    seat = engine.joined()
    engine.answers(FractionsTold([0.25, 0.75]))
    assert seat.fractions(0, 64, 1) == [0.25, 0.75]
    assert engine.heard(FractionsAsked) == [FractionsAsked(0, 64, 1, ThroughputMeasured(0, 0.0, 0.0))]


def test_who_is_told_to_halt_says_what_it_waits_for_and_ends(engine: Engine) -> None:
    with pytest.raises(Exited):
        engine.answers(Halt())._listen()
    assert engine.codes == [HALT_EXIT_CODE]
    assert engine.heard(Halted) == [Halted(0, "the other workers to join")]


def test_a_worker_whose_engine_is_gone_ends(engine: Engine) -> None:
    engine._ends[1].close()
    with pytest.raises(Exited):
        engine.seat._listen()
    assert engine.codes == [HALT_EXIT_CODE]


def test_it_tells_its_step_and_leaves_after_the_step_it_is_given(engine: Engine) -> None:
    seat = engine.joined()
    engine.answers(StepAsked(), LeaveAt(9))._listen()
    assert engine.heard(StepTold) == [StepTold(0)]
    assert seat.steps_max == 9


class NeverWaits(PlainSeat):
    """A worker that may end without the others."""

    _keeps_step = False


class WaitsInShare(NeverWaits):
    """A worker that has no step under way."""

    _last_step = 0


@pytest.mark.parametrize(("kind", "leaves_at"), [(PlainSeat, 9), (NeverWaits, 1), (WaitsInShare, 0)])
def test_a_worker_that_waits_for_nobody_need_not_catch_up_before_it_leaves(
    kind: type[PlainSeat], leaves_at: int, engine: Engine
) -> None:
    seat = kind(engine.seat.job, engine.seat._channel, Shelf())
    seat._hear(LeaveAt(9))
    assert seat.steps_max == leaves_at


def test_the_first_to_ask_loads_and_tells_the_form(engine: Engine) -> None:
    assert engine.answers(OnceAnswer(64, None)).once("data", lambda: "text") == "text"
    asked, loaded = engine.heard(OnceAsked, OnceLoaded)
    assert loaded == OnceLoaded(asked.key, b"text", 68)


def test_the_others_find_what_was_loaded_and_load_themselves_what_cannot_be_shared(engine: Engine) -> None:
    assert engine.answers(OnceAnswer(0, b"text")).once("data", lambda: 1 / 0) == "shared text"
    assert engine.answers(OnceAnswer(0, b"")).once("data", lambda: 7) == 7


def test_only_the_one_that_is_told_to_saves(engine: Engine) -> None:
    seat = engine.joined()
    engine.answers(Decided(False), Decided(True))
    seat.save("a", "result")
    seat.step_finished(1.0, 0.5)  # type: ignore[attr-defined]
    seat.save("b", "best")
    assert engine.model.saved == [("b", [""])]
    assert engine.heard(Saves) == [Saves(0, path="a"), Saves(1, badness=0.5, path="b")]


def test_a_plain_ensemble_is_the_same_model_for_each_worker_and_its_own_is_saved_without_asking(
    engine: Engine,
) -> None:
    seat = engine.joined()
    engine.answers(Decided(True))
    seat.save("all", "ensemble")
    seat.save("mine", "mine")
    assert engine.model.saved == [("all", ["member0.", "member1."]), ("mine", [""])]
    assert engine.heard(Saves) == [Saves(0, path="all")]


def test_what_is_saved_is_given_to_an_engine_that_brings_it_to_the_user(engine: Engine, tmp_path: Path) -> None:
    seat = engine.joined()
    path = tmp_path / "model"
    path.write_bytes(b"abc")  # this model only remembers that it was saved
    engine.answers(Decided(True), Decided(True), PieceTaken(True))
    seat.save(str(path), "result")
    assert engine.heard(FilePiece) == []
    seat.job = msgspec.structs.replace(seat.job, gives_back=True)
    seat.save(str(path), "result")
    assert engine.heard(FilePiece) == [FilePiece(str(path), 0, b"abc", True)]


def test_a_model_that_the_disk_cannot_take_is_told_of_and_nothing_ends(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    seat = engine.joined()
    seat.job = msgspec.structs.replace(seat.job, gives_back=True)

    def full(path: str, models: object, *, of: int | None, allow_nan: bool) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(engine.model, "save", full)
    engine.answers(Decided(True))
    seat.save("model", "result")
    seat.save("mine", "mine")
    told = "is NOT saved: No space left on device. Training goes on; a file that was there before is as it was."
    assert engine.heard(Unsaved) == [Unsaved(f"'model' {told}", 0), Unsaved(f"'mine' {told}", None)]
    assert engine.heard(FilePiece) == []


def test_worker_zero_concludes_what_is_still_open(engine: Engine) -> None:
    seat = engine.joined()
    engine.answers(Decided(False), Conclude([], [0]), Conclude([], []))
    seat.save("late", "ensemble")
    seat.step_finished(1.0, None)  # type: ignore[attr-defined]
    seat.end()
    assert engine.model.saved == [("late", ["member0.", "member1."])]
    assert len(engine.heard(ScriptCompleted)) == 1


def test_the_engine_is_told_of_the_replica_before_a_report_and_at_the_end(engine: Engine) -> None:
    seat = engine.joined()
    seat.step_finished(1.0, None)  # type: ignore[attr-defined]
    engine.answers(Conclude([], []), Conclude([], []))
    seat.report(0, {"loss": 1.0})  # type: ignore[attr-defined]
    seat.end()
    told = engine.heard(ReplicaTold, Reported, ScriptCompleted, Concluded)
    assert [type(message) for message in told] == [ReplicaTold, Reported, ReplicaTold, ScriptCompleted, Concluded]
    assert (told[0], told[2]) == (ReplicaTold(0, 1, {"w": 7}), ReplicaTold(END, 1, {"w": 7}))
    assert told[4].consensus is None


def test_only_worker_zero_tells_the_plan(monkeypatch: pytest.MonkeyPatch, engine: Engine) -> None:
    engine.seat.plan(2, 100, 10, False)
    assert engine.heard(Planned) == [Planned(2, 100, 10, False)]
    other = Engine(monkeypatch, rank=1)
    other.seat.plan(2, 100, 10, False)
    assert other.heard(Planned) == []
    other.close()


def test_a_failure_is_told_with_its_step_and_traceback(engine: Engine) -> None:
    try:
        raise ValueError("no luck")
    except ValueError as error:
        engine.seat.fail(error)
    (failed,) = engine.heard(Failed)
    assert (failed.error, failed.text, failed.step) == ("ValueError", "no luck", 0)
    assert failed.traceback.endswith("ValueError: no luck")

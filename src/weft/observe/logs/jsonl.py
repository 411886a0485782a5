"""A log of JSON lines: one object for each thing that happened, written at once. docs/traces.md has all keys."""

from collections.abc import Mapping
from typing import Any, BinaryIO

import msgspec

from weft.observe.records.moments import Moment, Numbers


class JsonLog:
    """The lines of one run in a file that several runs may share; `run` stands in all of them.

    What is not finite is null, because JSON cannot say it.
    """

    def __init__(self, file: BinaryIO, run: str) -> None:
        self._file = file
        self._run = run

    def _write(self, event: str, told: Mapping[str, Any]) -> None:
        self._file.write(msgspec.json.encode({"event": event, "run": self._run, **told}) + b"\n")
        self._file.flush()

    def begin(self, about: Mapping[str, Any]) -> None:
        self._write("start", about)

    def moment(self, moment: Moment) -> None:
        self._write("status", msgspec.structs.asdict(moment))

    def report(self, at_s: float, step: int, epoch: int, numbers: Numbers, consensus: float | None) -> None:
        told = {"at_s": at_s, "step": step, "epoch": epoch, "numbers": dict(numbers), "consensus": consensus}
        self._write("report", told)

    def remark(self, at_s: float, event: str, text: str) -> None:
        self._write(event, {"at_s": at_s, "text": text})

    def end(self, at_s: float, about: Mapping[str, Any]) -> None:
        self._write("end", {"at_s": at_s, **about})

    def close(self) -> None:
        """The file belongs to whoever opened it."""

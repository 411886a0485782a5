"""A run as a trace file: who did what when, with an arrow for each message, for Perfetto or chrome://tracing.

A process for each worker; in it a lane for its script, one for its messages, and one for each server that sits there.
Reductions that are done natively may overlap, and are drawn as asynchronous events.
That a worker was lost, left, was quarantined or replaced is an instant event in the lane of its script.
Arrows begin and end in slices of their own. What takes no time, as in a simulation, is drawn one nanosecond long, and
what happens at one instant one nanosecond after another.
"""

import gzip
import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from weft.observe.records.tracks import Passage, Tracks

SCRIPT, MESSAGES, FIRST_SERVER = range(3)
"""Lanes of a worker's process."""
FIRST_PROCESS, FIRST_LANE = 1_000, 1_000_000
"""Where ids begin. Perfetto has one table for those of all lanes, in which every process stands, too."""
ENDINGS = (".json", ".json.gz")

Event = dict[str, Any]


class Slice(NamedTuple):
    """Something that was done in one lane, from when to when."""

    worker: int
    lane: int
    start_ns: int
    stop_ns: int
    name: str
    about: Mapping[str, int | str]

    def event(self) -> Event:
        return {
            "ph": "X",
            **ids(self.worker, self.lane),
            "ts": self.start_ns / 1000,
            "dur": (self.stop_ns - self.start_ns) / 1000,
            "name": self.name,
            "args": dict(self.about),
        }


def write_trace(path: Path, tracks: Tracks, about: Mapping[str, int | str | None]) -> None:
    """Write a trace; a name that ends in .gz is compressed."""
    drawn = Drawing(tracks)
    told = {**about, "records_dropped": tracks.num_dropped, "messages_with_one_end": drawn.num_lonely}
    is_small = path.suffix == ".gz"
    with gzip.open(path, "wt", encoding="utf-8") if is_small else path.open("w", encoding="utf-8") as file:
        file.write(json.dumps({"displayTimeUnit": "ms", "otherData": told})[:-1] + ', "traceEvents": [\n')
        separator = ""
        for event in drawn.events():
            file.write(separator + json.dumps(event))
            separator = ",\n"
        file.write("\n]}\n")


class Drawing:
    """The events of a trace, in the order of their times."""

    def __init__(self, tracks: Tracks) -> None:
        self._tracks = tracks
        self._num_workers = tracks.num_workers
        self._lanes: set[tuple[int, int]] = set()
        self._lane_ends_ns: dict[tuple[int, int], int] = {}
        self._sent: dict[tuple[int, int, int], Slice] = {}
        """Messages under way: their source, their target, and their number between these two."""
        self.num_lonely = 0
        """Messages of which only one end is known."""
        self._timed: list[Event] = []
        self._draw()

    def events(self) -> Iterator[Event]:
        """Names of processes and lanes first, then what happened."""
        for worker in range(self._num_workers):
            yield from _named("process", worker, SCRIPT, f"worker {worker}", worker)
        for worker, lane in sorted(self._lanes):
            yield from _named("thread", worker, lane, self._lane_name(worker, lane), lane)
        yield from self._timed

    def _draw(self) -> None:
        for rank in range(self._num_workers):
            self._draw_script(rank)
        num_arrows = 0
        for passage in sorted(self._tracks.passages, key=lambda each: (each.start_s, not each.is_sent)):
            num_arrows += self._draw_passage(passage, num_arrows)
        self.num_lonely += len(self._sent)
        for number, reduction in enumerate(self._tracks.reductions):
            start_ns, stop_ns = self._ns(reduction.start_s), self._ns(reduction.stop_s)
            common = {"cat": "reduce", "name": f"reduce {reduction.kind}", "id2": {"local": f"reduce {number}"}}
            self._lanes.add((reduction.node, MESSAGES))
            place = ids(reduction.node, MESSAGES)
            told = {"clock": reduction.clock, "bucket": reduction.bucket, "bytes": reduction.num_bytes}
            self._timed.append({"ph": "b", "ts": start_ns / 1000, **place, **common, "args": told})
            self._timed.append({"ph": "e", "ts": max(stop_ns, start_ns + 1) / 1000, **place, **common})
        for incident in self._tracks.incidents:
            when = {"ts": round(incident.at_s * 1e9) / 1000, "name": incident.what, "args": incident.about}
            self._timed.append({"ph": "i", "s": "t", **ids(incident.worker, SCRIPT), **when})
        self._timed.sort(key=_by_time)

    def _draw_script(self, rank: int) -> None:
        self._lanes.add((rank, SCRIPT))
        steps = self._tracks.steps[rank]
        times = [at_s for _, at_s in steps]
        for what, start_s, stop_s in self._tracks.spans[rank]:
            start_ns, stop_ns = self._ns(start_s), self._ns(stop_s)
            if stop_ns > start_ns:
                about = {"step": _steps_made(steps, times, start_s)}
                self._timed.append(Slice(rank, SCRIPT, start_ns, stop_ns, what, about).event())

    def _draw_passage(self, passage: Passage, num_arrows: int) -> bool:
        """Draw one end of a message; True if that completes an arrow."""
        place = passage.source, passage.target, passage.number
        sent = None if passage.is_sent else self._sent.pop(place, None)
        drawn = self._slice(passage, 0 if sent is None else sent.stop_ns)
        self._timed.append(drawn.event())
        if passage.is_sent:
            self._sent[place] = drawn
        elif sent is None:
            self.num_lonely += 1
        else:
            told = {"kind": passage.kind, "bytes": passage.num_bytes}
            arrow = {"cat": "message", "name": passage.kind, "id": num_arrows + 1, "args": told}
            self._timed.append({"ph": "s", **ids(sent.worker, sent.lane), "ts": sent.start_ns / 1000, **arrow})
            end = {"ph": "f", "bp": "e", **ids(drawn.worker, drawn.lane), "ts": drawn.start_ns / 1000}
            self._timed.append({**end, **arrow})
        return sent is not None

    def _slice(self, passage: Passage, after_ns: int) -> Slice:
        worker, lane = self._place(passage.node)
        self._lanes.add((worker, lane))
        start_ns, stop_ns = self._ns(passage.start_s), self._ns(passage.stop_s)
        if stop_ns <= start_ns:
            start_ns = max(start_ns, after_ns, self._lane_ends_ns.get((worker, lane), 0))
            stop_ns = self._lane_ends_ns[worker, lane] = start_ns + 1
        about: dict[str, int | str] = {"clock": passage.clock, "bytes": passage.num_bytes}
        if passage.is_sent:
            about["to"] = self._node_name(passage.target)
            return Slice(worker, lane, start_ns, stop_ns, f"send {passage.kind}", about)
        about["from"] = self._node_name(passage.source)
        return Slice(worker, lane, start_ns, stop_ns, f"receive {passage.kind}", about)

    def _ns(self, at_s: float) -> int:
        return round((at_s - self._tracks.began_s) * 1e9)

    def _place(self, node: int) -> tuple[int, int]:
        """With which worker, and in which lane, a node's messages are: servers sit with workers, dealt in turn."""
        if node < self._num_workers:
            return node, MESSAGES
        row, worker = divmod(node - self._num_workers, self._num_workers)
        return worker, FIRST_SERVER + row

    def _node_name(self, node: int) -> str:
        return f"worker {node}" if node < self._num_workers else f"server {node - self._num_workers}"

    def _lane_name(self, worker: int, lane: int) -> str:
        if lane < FIRST_SERVER:
            return ("script", "messages")[lane]
        return f"server {worker + (lane - FIRST_SERVER) * self._num_workers}"


def ids(worker: int, lane: int) -> dict[str, int]:
    """What a lane is called in an event: no two lanes, and no lane and process, have the same id."""
    process = FIRST_PROCESS + worker
    return {"pid": process, "tid": FIRST_LANE * (lane + 1) + process}


def _steps_made(steps: Sequence[tuple[int, float]], times: Sequence[float], at_s: float) -> int:
    """How many steps a worker had made by then, which is the number of the step that it was in."""
    place = bisect_right(times, at_s)
    return steps[place - 1][0] if place else 0


def _named(what: str, worker: int, lane: int, name: str, place: int) -> Iterator[Event]:
    """How a process or a lane is called, and where it stands."""
    common = {"ph": "M", **ids(worker, lane)}
    yield {**common, "name": f"{what}_name", "args": {"name": name}}
    yield {**common, "name": f"{what}_sort_index", "args": {"sort_index": place}}


def _by_time(event: Event) -> tuple[float, int, float]:
    """Slices before the arrows that begin in them, and outer slices before inner ones."""
    return event["ts"], {"s": 1, "f": 1, "e": 2}.get(event["ph"], 0), -event.get("dur", 0.0)

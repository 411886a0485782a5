"""A strict reader of trace files: what it accepts, Perfetto and chrome://tracing draw as it was meant."""

import gzip
import json
from bisect import bisect_right
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

Event = dict[str, Any]
PHASES = {"M", "X", "s", "f", "b", "e", "i"}


class Trace:
    """A trace that was read and checked."""

    def __init__(self, path: Path) -> None:
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        document = json.loads(raw)
        assert set(document) == {"displayTimeUnit", "otherData", "traceEvents"}
        self.about: dict[str, Any] = document["otherData"]
        self.events: list[Event] = document["traceEvents"]
        check_events(self.events)

    def of(self, *phases: str) -> list[Event]:
        return [event for event in self.events if event["ph"] in phases]

    def lanes(self) -> dict[tuple[str, str], list[Event]]:
        """The slices of each lane, by the names of its process and its own."""
        processes = {e["pid"]: e["args"]["name"] for e in self.of("M") if e["name"] == "process_name"}
        names = {e["tid"]: e["args"]["name"] for e in self.of("M") if e["name"] == "thread_name"}
        lanes: dict[tuple[str, str], list[Event]] = defaultdict(list)
        for event in self.of("X"):
            lanes[processes[event["pid"]], names[event["tid"]]].append(event)
        return dict(lanes)

    def arrows(self) -> list[tuple[int, int, Event]]:
        """From which worker to which, and how."""
        starts = {event["id"]: event for event in self.of("s")}
        return [(worker_of(starts[event["id"]]), worker_of(event), event) for event in self.of("f")]


def worker_of(event: Event) -> int:
    """Processes have the ids from 1000 on."""
    return int(event["pid"]) - 1000


def ns(event: Event) -> tuple[int, int]:
    """From when to when."""
    start = round(event["ts"] * 1000)
    return start, start + round(event.get("dur", 0) * 1000)


def check_events(events: list[Event]) -> None:
    assert {event["ph"] for event in events} <= PHASES
    timed = [event for event in events if event["ph"] != "M"]
    assert events[: len(events) - len(timed)] == [event for event in events if event["ph"] == "M"], "names come first"
    for event in events:
        assert isinstance(event["name"], str)
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
    assert all(a["ts"] <= b["ts"] for a, b in pairwise(timed)), "times do not go backwards"
    assert not timed or timed[0]["ts"] >= 0
    check_names(events, {(event["pid"], event["tid"]) for event in timed})
    slices: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for event in timed:
        if event["ph"] == "X":
            assert event["dur"] > 0
            assert isinstance(event["args"], dict)
            slices[event["pid"], event["tid"]].append(ns(event))
    for lane in slices.values():
        check_nesting(lane)
    check_arrows(timed, slices)
    check_pairs(timed)


def check_names(events: list[Event], lanes: set[tuple[int, int]]) -> None:
    """Every process and every lane that is used has one name and one place, and an id that nothing else has."""
    named = [
        (event["name"], event["pid" if "process" in event["name"] else "tid"]) for event in events if event["ph"] == "M"
    ]
    assert len(named) == len(set(named))
    processes, threads = {process for process, _ in lanes}, {lane for _, lane in lanes}
    assert len(threads) == len(lanes)
    assert not processes & threads
    assert 0 not in processes | threads, "which would be the kernel"
    for process, lane in lanes:
        assert {("process_name", process), ("process_sort_index", process)} <= set(named)
        assert {("thread_name", lane), ("thread_sort_index", lane)} <= set(named)


def check_nesting(lane: list[tuple[int, int]]) -> None:
    """What is done in a lane is done inside of something else, or after it."""
    open_until: list[int] = []
    for start, stop in lane:
        while open_until and open_until[-1] <= start:
            open_until.pop()
        assert not open_until or stop <= open_until[-1]
        open_until.append(stop)


def check_arrows(timed: list[Event], slices: dict[tuple[int, int], list[tuple[int, int]]]) -> None:
    """Every arrow has a start and an end, not before it, each inside a slice of its lane."""
    starts = {event["id"]: event for event in timed if event["ph"] == "s"}
    ends = {event["id"]: event for event in timed if event["ph"] == "f"}
    assert len(starts) + len(ends) == len([event for event in timed if event["ph"] in "sf"]), "an id is used once"
    assert starts.keys() == ends.keys()
    for id, start in starts.items():
        end = ends[id]
        assert ns(start) <= ns(end)
        assert (start["cat"], start["name"], start["args"]) == (end["cat"], end["name"], end["args"])
        assert {"kind", "bytes"} == set(start["args"])
        assert end["bp"] == "e"
        for event in (start, end):
            lane, at = slices[event["pid"], event["tid"]], ns(event)[0]
            earlier = lane[: bisect_right(lane, at, key=lambda each: each[0])]
            assert any(at < stop for _, stop in earlier), "an arrow outside of any slice is not drawn"


def _identity(event: Event) -> tuple[str, int, str]:
    """By what the beginning and the end of something belong together: an id that is known in its process only."""
    assert set(event["id2"]) == {"local"}
    return event["cat"], event["pid"], event["id2"]["local"]


def check_pairs(timed: list[Event]) -> None:
    """What began has ended, once."""
    began: dict[tuple[str, int, str], Event] = {}
    for event in timed:
        if event["ph"] == "b":
            assert began.setdefault(_identity(event), event) is event
        elif event["ph"] == "e":
            assert began.pop(_identity(event))["name"] == event["name"]
    assert began == {}

"""A run as a trace file that others can draw: lanes, slices, arrows."""

import json
from pathlib import Path

import pytest
from support.oracles.traces import Trace, worker_of

from weft.observe.logs.trace import write_trace
from weft.observe.records.tracks import Incident, Passage, Reduction, Traced, Tracks

NUM_WORKERS = 2
SERVER_OF_1 = 3
"""The second server of two sits with worker 1."""


def passage(
    source: int,
    target: int,
    at_s: float,
    *,
    is_sent: bool = True,
    number: int = 1,
    lasts_s: float = 0.0,
    kind: str = "push",
) -> Passage:
    return Passage(is_sent, source, target, number, kind, 7, 80, at_s, at_s + lasts_s)


def drawn(folder: Path, *passages: Passage, reductions: tuple[Reduction, ...] = (), name: str = "a.json") -> Trace:
    tracks = Tracks(NUM_WORKERS)
    tracks.began_s = 100.0
    spans = [("compute", 100.0, 103.0), ("wait", 103.0, 104.0), ("compute", 104.0, 105.0)]
    for rank in range(NUM_WORKERS):
        tracks.take(rank, Traced(spans, [(1, 104.0)], [], []))
    tracks.take(0, Traced([], [], list(passages), list(reductions), num_dropped=2))
    write_trace(folder / name, tracks, {"strategy": "ssp"})
    return Trace(folder / name)


def test_a_worker_is_a_process_whose_first_lane_is_its_script_with_the_number_of_each_step(tmp_path: Path) -> None:
    lanes = drawn(tmp_path).lanes()
    assert list(lanes) == [("worker 0", "script"), ("worker 1", "script")]
    told = [(e["name"], e["ts"], e["dur"], e["args"]) for e in lanes["worker 1", "script"]]
    assert told == [
        ("compute", 0.0, 3e6, {"step": 0}),
        ("wait", 3e6, 1e6, {"step": 0}),
        ("compute", 4e6, 1e6, {"step": 1}),
    ]


def test_a_message_is_an_arrow_between_a_slice_of_its_source_and_one_of_its_target(tmp_path: Path) -> None:
    trace = drawn(
        tmp_path,
        passage(0, SERVER_OF_1, 101.0, lasts_s=0.25),
        passage(0, SERVER_OF_1, 102.0, lasts_s=0.5, is_sent=False),
    )
    (sent,), (came,) = trace.lanes()["worker 0", "messages"], trace.lanes()["worker 1", "server 1"]
    assert (sent["name"], sent["ts"], sent["dur"]) == ("send push", 1e6, 0.25e6)
    assert sent["args"] == {"to": "server 1", "clock": 7, "bytes": 80}
    assert (came["name"], came["ts"], came["dur"]) == ("receive push", 2e6, 0.5e6)
    assert came["args"] == {"from": "worker 0", "clock": 7, "bytes": 80}
    ((source, target, arrow),) = trace.arrows()
    assert (source, target, arrow["name"], arrow["args"]) == (0, 1, "push", {"kind": "push", "bytes": 80})


def test_messages_are_matched_by_their_numbers_however_many_are_missing(tmp_path: Path) -> None:
    trace = drawn(
        tmp_path,
        *(passage(0, 1, 101.0 + n / 8, number=n, lasts_s=0.1, kind=f"kind {n}") for n in (1, 3, 4)),
        *(passage(0, 1, 102.0 + n / 8, number=n, lasts_s=0.1, is_sent=False, kind=f"kind {n}") for n in (2, 3)),
    )
    assert [arrow["name"] for _, _, arrow in trace.arrows()] == ["kind 3"]
    assert trace.about == {"strategy": "ssp", "records_dropped": 2, "messages_with_one_end": 3}


def test_an_answer_is_drawn_inside_of_what_it_answers(tmp_path: Path) -> None:
    trace = drawn(
        tmp_path,
        passage(1, 0, 101.0, lasts_s=0.1),
        passage(1, 0, 102.0, lasts_s=0.5, is_sent=False),
        passage(0, 1, 102.1, lasts_s=0.1),
        passage(0, 1, 103.0, lasts_s=0.1, is_sent=False),
    )
    assert [event["name"] for event in trace.lanes()["worker 0", "messages"]] == ["receive push", "send push"]
    assert [arrow[:2] for arrow in trace.arrows()] == [(1, 0), (0, 1)]


def test_what_takes_no_time_and_happens_at_once_is_drawn_one_after_another(tmp_path: Path) -> None:
    many = range(1, 6)
    trace = drawn(
        tmp_path,
        *(passage(0, 1, 101.0, number=n) for n in many),
        *(passage(0, 1, 101.0, number=n, is_sent=False) for n in many),
    )
    sent, came = (trace.lanes()[f"worker {rank}", "messages"] for rank in (0, 1))
    assert [event["ts"] for event in sent] == [1e6, 1e6 + 0.001, 1e6 + 0.002, 1e6 + 0.003, 1e6 + 0.004]
    assert {event["dur"] for event in sent + came} == {0.001}
    assert len(trace.arrows()) == 5


def test_no_message_is_drawn_before_it_was_sent_however_many_were_sent_at_once(tmp_path: Path) -> None:
    trace = drawn(
        tmp_path,
        *(passage(0, 1, 101.0, number=n) for n in range(1, 6)),
        passage(0, SERVER_OF_1, 101.0),
        passage(0, SERVER_OF_1, 101.0, is_sent=False),
    )
    ((_, _, arrow),) = trace.arrows()
    assert arrow["ts"] == 1e6 + 0.006, "after five others, and its own sending"


def test_reductions_may_overlap(tmp_path: Path) -> None:
    trace = drawn(
        tmp_path,
        reductions=(Reduction(1, "gradient", 5, 0, 80, 101.0, 103.0), Reduction(1, "gradient", 5, 1, 40, 102.0, 104.0)),
    )
    told = [(event["ph"], event["ts"], event["id2"]["local"], event.get("args")) for event in trace.of("b", "e")]
    assert told == [
        ("b", 1e6, "reduce 0", {"clock": 5, "bucket": 0, "bytes": 80}),
        ("b", 2e6, "reduce 1", {"clock": 5, "bucket": 1, "bytes": 40}),
        ("e", 3e6, "reduce 0", None),
        ("e", 4e6, "reduce 1", None),
    ]
    assert {(event["name"], worker_of(event)) for event in trace.of("b", "e")} == {("reduce gradient", 1)}


def test_a_name_that_ends_in_gz_is_compressed(tmp_path: Path) -> None:
    assert drawn(tmp_path, name="a.json.gz").events == drawn(tmp_path).events
    assert (tmp_path / "a.json.gz").stat().st_size < (tmp_path / "a.json").stat().st_size


@pytest.mark.parametrize("harm", ["arrow", "order", "name", "slice"])
def test_the_strict_reader_refuses_what_would_not_be_drawn(harm: str, tmp_path: Path) -> None:
    whole = drawn(tmp_path, passage(0, 1, 101.0, lasts_s=0.1), passage(0, 1, 102.0, lasts_s=0.1, is_sent=False)).events
    broken = {
        "arrow": [event for event in whole if event["ph"] != "f"],
        "order": sorted(whole, key=lambda event: -event.get("ts", 1e9)),
        "name": whole[1:],
        "slice": [event for event in whole if event["name"] != "receive push"],
    }[harm]
    path = tmp_path / "broken.json"
    path.write_text(json.dumps({"displayTimeUnit": "ms", "otherData": {}, "traceEvents": broken}))
    with pytest.raises(AssertionError):
        Trace(path)


def test_what_happened_to_a_worker_is_an_instant_in_the_lane_of_its_script(tmp_path: Path) -> None:
    tracks = Tracks(NUM_WORKERS)
    tracks.began_s = 100.0
    tracks.incidents = [Incident(1, 2.5, "lost", {"cause": "killed by signal 9", "step": 7})]
    write_trace(tmp_path / "a.json", tracks, {})
    (event,) = Trace(tmp_path / "a.json").of("i")
    assert (worker_of(event), event["tid"]) == (1, 1_001_001), "the first lane"
    assert (event["s"], event["ts"], event["name"]) == ("t", 2.5e6, "lost")
    assert event["args"] == {"cause": "killed by signal 9", "step": 7}

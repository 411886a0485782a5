"""A log of JSON lines."""

import json
from io import BytesIO
from math import nan

from weft.observe.logs.jsonl import JsonLog
from weft.observe.records.moments import Count, Moments


def lines(file: BytesIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in file.getvalue().decode().splitlines()]


def test_every_line_says_what_happened_in_which_run() -> None:
    file = BytesIO()
    log = JsonLog(file, "ssp")
    log.begin({"workers": 2})
    log.report(1.5, 20, 3, {"accuracy": 0.5}, 0.25)
    log.remark(2.0, "blame", "worker 0 is slow")
    log.end(3.0, {"steps": 40})
    assert lines(file) == [
        {"event": "start", "run": "ssp", "workers": 2},
        {
            "event": "report",
            "run": "ssp",
            "at_s": 1.5,
            "step": 20,
            "epoch": 3,
            "numbers": {"accuracy": 0.5},
            "consensus": 0.25,
        },
        {"event": "blame", "run": "ssp", "at_s": 2.0, "text": "worker 0 is slow"},
        {"event": "end", "run": "ssp", "at_s": 3.0, "steps": 40},
    ]


def test_a_moment_is_a_line_with_all_workers() -> None:
    file = BytesIO()
    JsonLog(file, "ssp").moment(Moments(1).make(2.0, [Count(4, 8.0, 1.0, 10)], 0.5, 1.5))
    (line,) = lines(file)
    assert line.pop("workers") == [
        {"rank": 0, "step": 4, "samples": 8.0, "waiting_fraction": 0.5, "bytes_sent": 10},
    ]
    assert line == {
        "event": "status",
        "run": "ssp",
        "at_s": 2.0,
        "step": 4,
        "samples": 8.0,
        "samples_per_s": 4.0,
        "loss": 0.5,
        "waiting_fraction": 0.5,
        "staleness_mean": 1.5,
        "bytes_sent": 10,
    }


def test_what_is_not_finite_is_null() -> None:
    file = BytesIO()
    JsonLog(file, "ssp").report(1.0, 2, 0, {"accuracy": nan}, None)
    (line,) = lines(file)
    assert (line["numbers"], line["consensus"]) == ({"accuracy": None}, None)


def test_a_line_is_there_when_it_is_said_and_the_file_stays_open() -> None:
    flushed = []

    class File(BytesIO):
        def flush(self) -> None:
            flushed.append(self.tell())

    file = File()
    log = JsonLog(file, "ssp")
    log.remark(1.0, "blame", "worker 0 is slow")
    assert flushed == [len(file.getvalue())]
    log.close()
    assert not file.closed

"""A real run while it goes on."""

import re
from io import StringIO
from typing import Any

import msgspec
import pytest
from rich.console import Console
from rich.control import strip_control_codes

from weft.cli.show import live_view as module
from weft.cli.show.live_view import LiveView, live_table, status_line
from weft.observe.records.progress import Progress, TotalProgress
from weft.observe.records.status import Status
from weft.observe.records.stragglers import Blame


class Clock:
    """Time that passes when the test says so."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


def status(rank: int, time_s: float, step: int, steps_total: int | None = 100, doing: str = "computes") -> Status:
    return Status(
        rank=rank,
        time_s=time_s,
        step=step,
        samples=8.0 * step,
        loss=0.5,
        waiting_s=0.25 * time_s,
        staleness_mean=1.0,
        staleness_max=3.0,
        bytes_sent=1000 * step,
        num_copies=0,
        refused=0,
        steps_total=steps_total,
        doing=doing,
    )


def progress(num_workers: int = 2, **told: Any) -> Progress:
    book = Progress(num_workers)
    for rank in range(num_workers):
        for time_s in (0.0, 5.0):
            book.update(status(rank, time_s, int(10 * time_s), **told), time_s)
    return book


def drawn(book: Progress, width: int = 80, rows_max: int = 20) -> list[str]:
    return live_table(book, 5.0, "ssp, 2 workers", width, rows_max).plain.splitlines()


def test_a_wide_screen_has_room_for_whole_words() -> None:
    header, _, first = drawn(progress(doing="waits for worker 1 to push step 51 of bucket 3"), width=120)[1:4]
    assert header == "worker     step     loss  samples/s  waiting  staleness  "
    assert first.endswith("25 %        1.0  waits for worker 1 to push step 51 of bucket 3")


@pytest.mark.parametrize(
    ("loss", "told"),
    [(0.5, " 0.5000"), (98.76543, "98.7654"), (511.3719, "  511.4"), (176593.26, "1.8e+05"), (-0.25, "-0.2500")],
)
def test_a_large_loss_keeps_the_columns_in_line(loss: float, told: str) -> None:
    book = Progress(1)
    book.update(msgspec.structs.replace(status(0, 5.0, 50), loss=loss), 5.0)
    assert drawn(book)[3].startswith(f"0            50  {told}  ")


def test_the_table_has_a_row_for_each_worker_a_row_for_all_and_a_bar() -> None:
    assert drawn(progress(doing="waits for worker 1 to push step 51 of bucket 3")) == [
        "",
        "worker     step     loss  samp./s  waits  stale  ",
        "─" * 80,
        "0            50   0.5000       80   25 %    1.0  for worker 1 to push step 51 o…",
        "1            50   0.5000       80   25 %    1.0  for worker 1 to push step 51 o…",
        "all          50   0.5000      160   25 %    1.0  20.0 kB/s sent",
        f"ssp, 2 workers  {'━' * 20}{'─' * 20}   50 %  5.0 s  5 s left",
    ]


@pytest.mark.parametrize("width", [20, 40, 60, 80, 140])
@pytest.mark.parametrize("steps_total", [100, 51, None])
def test_no_line_of_the_table_is_wider_than_the_terminal(width: int, steps_total: int | None) -> None:
    lines = drawn(progress(steps_total=steps_total, doing="waits " * 40), width)
    assert max(map(len, lines)) <= max(width, len("100 %  5.0 s  5 s left") + 2)


def test_workers_that_do_not_fit_are_counted() -> None:
    lines = drawn(progress(30), rows_max=3)
    assert [line.split()[0] for line in lines[3:]] == ["0", "1", "2", "...", "all", "ssp,"]
    assert lines[6] == "... and 27 more"


def test_a_run_whose_end_is_unknown_has_no_bar_and_one_that_has_not_begun_no_table() -> None:
    assert drawn(progress(steps_total=None))[-1] == "ssp, 2 workers  5.0 s"
    assert drawn(Progress(2)) == ["ssp, 2 workers  5.0 s  starting the workers"]


@pytest.mark.parametrize(
    ("total", "line"),
    [
        (
            TotalProgress(310, 900, 0.41, 5214.2, 0.0, 0.03, 0.0, None, None),
            "12.4 s  step 310 of 900  loss 0.4100  5,214 samples/s  waiting 3 %",
        ),
        (
            TotalProgress(1310, None, None, 5.0, 0.0, 0.0, 0.0, None, None),
            "12.4 s  step 1,310  5 samples/s  waiting 0 %",
        ),
    ],
)
def test_a_status_line_says_what_is_known(total: TotalProgress, line: str) -> None:
    assert status_line(total, 12.4) == line


def test_without_a_terminal_lines_and_reports_come_at_once_and_a_status_every_few_seconds(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    def written() -> tuple[str, str]:
        out, err = capsys.readouterr()
        return out, err

    with LiveView(11, clock=clock) as view:
        view.tell("starting 11 workers")
        assert written() == ("", "starting 11 workers\n")
        view.show("How this will run:\n  [x] as it is")
        assert written() == ("How this will run:\n  [x] as it is\n", "")
        view.line(2, "a [bold]line[/] :x: " + "and so on " * 30, is_error=False)
        assert written() == ("worker  2 | a [bold]line[/] :x: " + "and so on " * 30 + "\n", "")
        view.line(10, "a warning", is_error=True)
        assert written() == ("", "worker 10 | a warning\n")
        clock.now_s += 3.0
        view.report(2, {"accuracy": 0.9472, "loss": 0.31})
        assert written() == ("epoch   3  accuracy 0.9472  loss 0.3100  (3.0 s)\n", "")
        view.update(status(0, 3.0, 30))
        assert written() == ("", "")
        clock.now_s += 5.0
        view.update(status(0, 5.0, 50))
        assert written() == ("", "5.0 s  step 50 of 100  loss 0.5000  80 samples/s  waiting 25 %\n")
        clock.now_s += 4.0
        view.tick()
        assert written() == ("", "")
        clock.now_s += 1.0
        view.tick()
        assert written()[1].startswith("10.0 s  step 50 of 100  ")
    assert written() == ("", "")


def test_times_are_those_since_all_have_joined(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with LiveView(2, clock=clock) as view:
        clock.now_s += 3.0
        view.begin()
        clock.now_s += 1.0
        view.report(0, {})
        view.update(status(0, 3.0, 30))
        clock.now_s += 1.0
        view.report(1, {})
    assert capsys.readouterr().out == "epoch   1    (1.0 s)\nepoch   2    (2.0 s)\n"


def test_a_line_is_shown_as_a_terminal_would_leave_it(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with LiveView(1, clock=clock) as view:
        view.line(0, " 10%|#  \r 90%|###\r", is_error=False)
        view.line(0, "\x1b[32mgreen\x1b[0m", is_error=False)
    assert capsys.readouterr().out == "worker 0 |  90%|###\nworker 0 | green\n"


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> StringIO:
    """Both streams are the same terminal of 80 columns."""
    monkeypatch.setenv("TERM", "xterm")
    written = StringIO()
    console = Console(file=written, force_terminal=True, width=80, height=25, highlight=False, soft_wrap=True)
    monkeypatch.setattr(module, "errors", console)
    monkeypatch.setattr(module, "screen", console)
    return written


def taken(terminal: StringIO) -> str:
    """What was written since, without colours and movements."""
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.getvalue())
    terminal.seek(0)
    terminal.truncate()
    return strip_control_codes(text)


def test_on_a_terminal_lines_come_above_the_table_and_with_its_next_drawing(clock: Clock, terminal: StringIO) -> None:
    with LiveView(2, "ssp, 2 workers", clock=clock) as view:
        taken(terminal)
        view.update(status(0, 0.0, 0))
        view.line(1, "hello", is_error=False)
        view.report(0, {"accuracy": 0.5})
        assert taken(terminal) == "", "not before it is time to draw"
        clock.now_s += 0.25
        view.tick()
        lines = taken(terminal).splitlines()
        assert [line.rstrip() for line in lines[:2]] == ["worker 1 | hello", "epoch   1  accuracy 0.5000  (0.0 s)"]
        assert [line.split()[0] for line in lines[2:] if line][-5:] == ["worker", "─" * 80, "0", "all", "ssp,"]
        view.tick()
        assert taken(terminal) == ""
        view.line(0, "the last word", is_error=True)
    assert "worker 0 | the last word\n" in taken(terminal)


def test_nobody_may_draw_more_than_ten_times_a_second(clock: Clock, terminal: StringIO) -> None:
    with LiveView(1, refresh_s=0.0, clock=clock) as view:
        taken(terminal)
        clock.now_s += 0.09
        view.tick()
        assert taken(terminal) == ""
        clock.now_s += 0.02
        view.tick()
        assert "starting the workers" in taken(terminal)


def test_output_that_goes_to_a_file_stays_out_of_the_table(
    clock: Clock, terminal: StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = StringIO()
    monkeypatch.setattr(module, "screen", Console(file=file, highlight=False))
    with LiveView(1, clock=clock) as view:
        view.line(0, "a result", is_error=False)
        assert file.getvalue() == "worker 0 | a result\n"
    assert "a result" not in taken(terminal)


def test_a_run_that_fails_still_shows_what_was_printed(clock: Clock, terminal: StringIO) -> None:
    def fail() -> None:
        with LiveView(1, clock=clock) as view:
            view.line(0, "the cause", is_error=True)
            raise KeyError("x")

    with pytest.raises(KeyError):
        fail()
    assert "the cause" in taken(terminal)


SLOW = Blame(
    1, "compute", 12, 0.04, 0.01, 0.05, "Try --share proportional: 2.4 times as many samples/s at most, by simulation."
)
SAID = (
    "worker 1 is slow: it computes 40.0 ms a step, the others 10.0 ms (4.0 times as long). "
    "Try --share proportional: 2.4 times as many samples/s at most, by simulation."
)


def test_without_a_terminal_who_is_slow_is_said_in_one_line_once(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with LiveView(2, clock=clock) as view:
        view.blame(SLOW)
        for _ in range(3):
            view.slow([SLOW])
    assert tuple(capsys.readouterr()) == ("", f"{SAID}\n")


def test_on_a_terminal_who_is_slow_stands_under_the_table_for_as_long_as_it_holds(
    clock: Clock, terminal: StringIO
) -> None:
    with LiveView(2, "ssp, 2 workers", clock=clock) as view:
        view.update(status(0, 0.0, 0))
        view.blame(SLOW)
        view.slow([SLOW])
        taken(terminal)
        clock.now_s += 0.25
        view.tick()
        assert " ".join(taken(terminal).split()).endswith(SAID)
        view.slow([])
        clock.now_s += 0.25
        view.tick()
        assert "slow" not in taken(terminal)

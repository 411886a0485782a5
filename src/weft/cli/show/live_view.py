"""A real run while it goes on: a live table on a terminal, plain lines anywhere else."""

import time
from collections.abc import Callable, Mapping, Sequence
from textwrap import wrap
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.text import Text

from weft.cli.show.progress import PLAIN_S
from weft.cli.show.screen import errors, screen
from weft.observe.records.progress import Progress, TotalProgress, WorkerProgress
from weft.observe.records.quantities import human_bytes, human_seconds
from weft.observe.records.status import Status
from weft.observe.records.stragglers import Blame

REFRESH_S = 0.25
"""How often the table is drawn: the launcher shares its cores with the workers."""

REFRESH_MIN_S = 0.1
"""Nobody may ask for more."""

COLOURS = ("cyan", "green", "magenta", "yellow", "blue", "bright_red")
"""Of the workers, in turn."""

LINES_AROUND = 12
"""Lines of a terminal that the table's head, its total, its bar and some output need."""

SLOW_LINES_MAX = 4
"""So many lines say who is slow."""

WIDE_COLUMNS = {"step": 7, "loss": 7, "samples/s": 9, "waiting": 7, "staleness": 9}
NARROW_COLUMNS = {"step": 7, "loss": 7, "samp./s": 7, "waits": 5, "stale": 5}
"""The names and widths of columns; on a narrow screen what a worker does needs the room."""
NARROW = 100
WORKER_WIDTH = 6
LOSS_WIDTH = 7
BAR_WIDTH_MIN = 10


class LiveView:
    """Shows a run of `num_workers` workers; used by one thread, inside `with`.

    The launcher calls `tick` whenever it wakes up, ten times a second or so: there is no thread here. On a terminal,
    what workers print is shown with the next drawing, so that a chatty script costs no drawing for each of its lines.
    """

    def __init__(
        self,
        num_workers: int,
        title: str = "",
        refresh_s: float = REFRESH_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._num_workers = num_workers
        self._title = title
        self._refresh_s = max(refresh_s, REFRESH_MIN_S)
        self._clock = clock
        self._progress = Progress(num_workers)
        self._began_s = clock()
        self._shown_s = 0.0
        self._has_begun = False
        self._lines: list[Text] = []
        self._slow: list[str] = []
        self._live: Live | None = None
        if errors.is_terminal and not errors.is_dumb_terminal:
            self._live = Live(
                console=errors, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
            )

    def __enter__(self) -> "LiveView":
        self._began_s = self._clock()
        if self._live is not None:
            self._live.start()
            self._draw()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._draw()
            self._live.stop()
            self._live = None

    @property
    def elapsed_s(self) -> float:
        """Since the view was opened."""
        return self._clock() - self._began_s

    def begin(self) -> None:
        """Times are those of the training from now on; how long it took to start is another matter."""
        if not self._has_begun:
            self._has_begun = True
            self._began_s, self._shown_s = self._clock(), 0.0

    def update(self, status: Status) -> None:
        """What a worker told about itself."""
        self.begin()
        self._progress.update(status, self.elapsed_s)
        self.tick()

    def lose(self, rank: int) -> None:
        """A worker is lost, and the others go on."""
        self._progress.lose(rank, self.elapsed_s)

    def welcome(self, rank: int) -> None:
        """A newcomer is there in the place of a lost worker."""
        self._progress.welcome(rank)

    def line(self, rank: int, text: str, is_error: bool) -> None:
        """A line that a worker wrote to its standard output or error."""
        width = len(str(self._num_workers - 1))
        line = Text.assemble(
            (f"worker {rank:{width}d} ", COLOURS[rank % len(COLOURS)]), ("| ", "red" if is_error else "dim")
        )
        line.append_text(_as_on_a_terminal(text))
        self._print(line, errors if is_error else screen)
        self.tick()

    def report(self, epoch: int, numbers: Mapping[str, float]) -> None:
        """What the run reported at the end of an epoch, counted from 0 as in `EpochFinished`."""
        told = "  ".join(f"{name} {value:.4f}" for name, value in numbers.items())
        self._print(Text.assemble(f"epoch {epoch + 1:3d}  {told}  ", (f"({_seconds(self.elapsed_s)})", "dim")), screen)
        self.tick()

    def tell(self, text: str) -> None:
        """What the launcher itself has to say."""
        self._print(Text(text, style="bold"), errors)
        self.tick()

    def blame(self, blame: Blame) -> None:
        """Somebody is slow. On a terminal that stands under the table for as long as it holds."""
        if self._live is None:
            errors.print(Text(str(blame)), soft_wrap=True)

    def slow(self, blames: Sequence[Blame]) -> None:
        """Who is slow now."""
        self._slow = [str(blame) for blame in blames]

    def show(self, text: str) -> None:
        """Something that is part of the run's output."""
        self._print(Text(text), screen)
        self.tick()

    def tick(self) -> None:
        """Draw again, or print a status line, if it is time to."""
        interval_s = PLAIN_S if self._live is None else self._refresh_s
        if self.elapsed_s - self._shown_s < interval_s:
            return
        if self._live is not None:
            self._draw()
        else:
            total = self._progress.total(self.elapsed_s)
            starting = f"{_seconds(self.elapsed_s)}  starting the workers"
            errors.print(starting if total is None else status_line(total, self.elapsed_s), markup=False)
            self._shown_s = self.elapsed_s

    def _print(self, line: Text, console: Console) -> None:
        if self._live is not None and console.is_terminal:
            self._lines.append(line)
        else:
            console.print(line, soft_wrap=True)

    def _draw(self) -> None:
        """The lines that wait, then the table, in one write."""
        assert self._live is not None
        self._shown_s = self.elapsed_s
        rows_max = max(errors.height - LINES_AROUND, 2)
        with errors:
            if self._lines:
                errors.print(Text("\n").join(self._lines))
                self._lines.clear()
            table = live_table(self._progress, self._shown_s, self._title, errors.width, rows_max)
            for line in [line for text in self._slow for line in wrap(text, errors.width)][:SLOW_LINES_MAX]:
                table.append("\n").append(line, style="yellow")
            self._live.update(table, refresh=True)


def status_line(total: TotalProgress, elapsed_s: float) -> str:
    """'12.4 s  step 310 of 900  loss 0.4103  5,214 samples/s  waiting 3 %'."""
    steps = f"step {total.step:,}" + (f" of {total.steps_total:,}" if total.steps_total else "")
    loss = [] if total.loss is None else [f"loss {total.loss:.4f}"]
    rates = [f"{total.samples_per_s:,.0f} samples/s", f"waiting {100 * total.waiting:.0f} %"]
    return "  ".join([_seconds(elapsed_s), steps, *loss, *rates])


def live_table(progress: Progress, now_s: float, title: str, width: int, rows_max: int) -> Text:
    """A row for each worker, as many as fit, a row for all, and how far the run is.

    Set by hand, because a rich Table takes ten times as long to draw.
    """
    total = progress.total(now_s)
    if total is None:
        return Text(f"{title}  {_seconds(now_s)}  starting the workers".lstrip(), style="dim")
    workers = progress.workers(now_s)
    columns = NARROW_COLUMNS if width < NARROW else WIDE_COLUMNS
    lines = [Text(), Text(_row(columns, "worker", *columns, ""), style="bold"), Text("─" * width, style="dim")]
    for worker in workers[:rows_max]:
        doing = worker.doing.removeprefix("waits ") if width < NARROW else worker.doing
        line = Text(_row(columns, worker.rank, *_cells(worker), doing))
        line.stylize(COLOURS[worker.rank % len(COLOURS)], 0, WORKER_WIDTH)
        lines.append(line)
    if len(workers) > rows_max:
        lines.append(Text(f"... and {len(workers) - rows_max} more", style="dim"))
    sent = f"{human_bytes(total.bytes_per_s)}/s sent"
    lines.append(Text(_row(columns, "all", *_cells(total), sent), style="bold"))
    for line in lines:
        line.truncate(width, overflow="ellipsis")
    return Text("\n", no_wrap=True, overflow="crop").join([*lines, _bar(total, now_s, title, width)])


def _row(columns: Mapping[str, int], worker: object, *cells: str) -> str:
    """'0          150   1.5466 ...': cells are right-aligned under their names; the last is free text."""
    numbers = (f"{cell:>{width}}" for width, cell in zip(columns.values(), cells[:-1], strict=True))
    return "  ".join([f"{worker!s:{WORKER_WIDTH}}", *numbers, cells[-1]])


def _cells(row: WorkerProgress | TotalProgress) -> tuple[str, ...]:
    return (
        f"{row.step:,}",
        "" if row.loss is None else _loss(row.loss),
        f"{row.samples_per_s:,.0f}",
        f"{100 * row.waiting:.0f} %",
        f"{row.staleness_mean:.1f}",
    )


def _loss(value: float) -> str:
    """With four decimals while there is room for them."""
    forms = [format(value, form) for form in (".4f", ".4g", ".1e")]
    return next((text for text in forms if len(text) <= LOSS_WIDTH), forms[-1])


def _bar(total: TotalProgress, now_s: float, title: str, width: int) -> Text:
    """The title, a bar that takes the room that is left, and times; no bar while the end is unknown."""
    words = [_seconds(now_s)]
    if total.time_left_s is not None:
        words.append(f"{_seconds(total.time_left_s, decimals=0)} left")
    if total.fraction is None:
        return Text("  ".join([title, *words]).lstrip())
    words.insert(0, f"{100 * total.fraction:3.0f} %")
    told = "  ".join(words)
    title = title[: max(0, width - len(told) - BAR_WIDTH_MIN - 4)]
    room = max(0, width - len(told) - len(title) - (4 if title else 2))
    done = round(room * total.fraction)
    return Text.assemble(
        f"{title}  " if title else "", ("━" * done, "green"), ("─" * (room - done), "dim"), f"  {told}"
    )


def _seconds(value_s: float, decimals: int = 1) -> str:
    """In one unit while it counts up, so that the eye has nothing to convert."""
    return f"{value_s:.{decimals}f} s" if value_s < 120 else human_seconds(value_s)


def _as_on_a_terminal(text: str) -> Text:
    """A line of output with its own colours; of a progress bar that overwrites itself, the last state."""
    last = text.rstrip("\r\n").rpartition("\r")[2]
    return Text.from_ansi(last) if "\x1b" in last else Text(last)

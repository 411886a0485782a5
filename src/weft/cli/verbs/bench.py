"""weft bench: how fast Weft is, measured against its peers in the same run."""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean
from typing import Annotated, Any

import typer
from rich.table import Table

from weft.bench.allreduce import ALLREDUCE
from weft.bench.benchmark import Benchmark, measure
from weft.bench.codecs import CODECS
from weft.bench.overhead import OVERHEAD
from weft.bench.racing import BLOCKS_MIN
from weft.bench.recovery import CONTENDERS as RECOVERY_CONTENDERS
from weft.bench.recovery import RecoveryWorkload, measure_recovery
from weft.bench.simulator import measure_simulator
from weft.bench.slownet import COMPRESS as SLOWNET_COMPRESS
from weft.bench.slownet import STRATEGY as SLOWNET_STRATEGY
from weft.bench.slownet import SlowNetWorkload, measure_slownet
from weft.bench.start import measure_start
from weft.bench.straggler import BEST as STRAGGLER_BEST
from weft.bench.straggler import OTHERS as STRAGGLER_OTHERS
from weft.bench.straggler import StragglerWorkload, measure_straggler
from weft.bench.throughput import THROUGHPUT
from weft.bench.wire import WIRE
from weft.cli.show.files import check_writable, write_or_show
from weft.cli.show.listing import NARROW
from weft.cli.show.progress import progress
from weft.cli.show.screen import screen
from weft.config.extras import check_extra
from weft.core.errors import ConfigError
from weft.observe.records.quantities import human_seconds

app = typer.Typer(help="Measure Weft on this machine.", no_args_is_help=True)

Blocks = Annotated[int, typer.Option(help="How many alternating blocks of each contender.")]
Only = Annotated[list[str] | None, typer.Option(help="Only the work of this name; may be given several times.")]
Against = Annotated[
    list[str] | None, typer.Option("--contender", help="Weft and this contender only; may be given several times.")
]
JsonFile = Annotated[Path | None, typer.Option("--json", help="Write all figures to this file.")]
Row = dict[str, Any]

LOW, HIGH = "95 % low", "95 % high"
CONTENDER_COLUMNS = ("work", "contender", "median", LOW, HIGH, "its time\n/ Weft's", "its\n95 % low", "bar")
RECOVERY_COLUMNS = (
    "contender\nkills",
    "remarks",
    "next step\np50\np99",
    "full\nstrength\np50\np99",
    "lost\na kill\nbatches\nsamples",
    "goodput\nforetold\nby runs\nsamples/s\nwithout",
    "accuracy\nwithout",
)


@app.callback()
def bench() -> None:
    """Measure Weft on this machine."""


@app.command()
def simulator(blocks: Blocks = 15, json_file: JsonFile = None) -> None:
    """Events per second of the simulator, with and without its recorder."""
    _check(blocks, 15, json_file)
    with progress("simulator") as tell:
        report = measure_simulator(blocks, tell)
    columns = ("world", "recorder", "events", "median", LOW, HIGH, "bar")
    _show(report, "simulator: events per second (1 core)", columns, _simulator_cells, json_file)


@app.command()
def allreduce(blocks: Blocks = 15, only: Only = None, contender: Against = None, json_file: JsonFile = None) -> None:
    """The sum of a vector over 2 and 4 processes: torch's Gloo, Open MPI, and a memory copy as the limit."""
    _compete(ALLREDUCE.against(contender or ()), blocks, 15, only, json_file)


@app.command()
def throughput(blocks: Blocks = 15, only: Only = None, contender: Against = None, json_file: JsonFile = None) -> None:
    """Training on 2 and 4 workers: DistributedDataParallel, and no communication as the limit."""
    _compete(THROUGHPUT.against(contender or ()), blocks, 15, only, json_file)


@app.command()
def overhead(blocks: Blocks = 50, only: Only = None, contender: Against = None, json_file: JsonFile = None) -> None:
    """Training with one worker under Weft: the bare loop."""
    _compete(OVERHEAD.against(contender or ()), blocks, 50, only, json_file)


@app.command()
def codecs(blocks: Blocks = 15, only: Only = None, contender: Against = None, json_file: JsonFile = None) -> None:
    """Gradients into payloads and back: the same in torch operations, and a memory copy as the limit."""
    _compete(CODECS.against(contender or ()), blocks, 15, only, json_file)


@app.command()
def wire(blocks: Blocks = 15, only: Only = None, contender: Against = None, json_file: JsonFile = None) -> None:
    """Training over sockets, encrypted and not, beside DistributedDataParallel, which does not encrypt."""
    _compete(WIRE.against(contender or ()), blocks, 15, only, json_file)


@app.command()
def start(blocks: Blocks = 15, json_file: JsonFile = None) -> None:
    """From the command to the first step of 4 workers: torchrun with DistributedDataParallel."""
    _check(blocks, 15, json_file)
    check_extra("torch", "weft bench start")
    with progress("start") as tell:
        report = measure_start(blocks, tell=tell)
    _show(report, f"start: {report['unit']}", CONTENDER_COLUMNS, _contender_cells, json_file)


@app.command()
def slownet(
    data: Annotated[Path, typer.Option(help="The folder of MNIST's four files.")] = Path("data/mnist"),
    strategy: Annotated[str, typer.Option(help="How Weft trains.")] = SLOWNET_STRATEGY,
    compress: Annotated[str, typer.Option(help="Weft's codec, or 'none'.")] = SLOWNET_COMPRESS,
    blocks: Annotated[int, typer.Option(help="How many times each contender trains.")] = BLOCKS_MIN,
    json_file: JsonFile = None,
) -> None:
    """Time to 97 % on MNIST over links of 100 Mbit/s and 10 ms: DistributedDataParallel and its hooks (needs root)."""
    _check(blocks, BLOCKS_MIN, json_file)
    check_extra("torch", "weft bench slownet")
    course = SlowNetWorkload(data)
    with progress("slownet") as tell:
        report = measure_slownet(course, blocks, strategy, None if compress == "none" else compress, tell)
    _show(report, f"slownet: {report['unit']}", CONTENDER_COLUMNS, _contender_cells, json_file)


@app.command()
def straggler(
    data: Annotated[Path, typer.Option(help="The folder of MNIST's four files.")] = Path("data/mnist"),
    strategy: Annotated[str, typer.Option(help="The way whose time counts.")] = STRAGGLER_BEST,
    others: Annotated[int, typer.Option(help="In how many blocks the other ways run, too.")] = 3,
    blocks: Annotated[int, typer.Option(help="How many times each contender trains.")] = 15,
    json_file: JsonFile = None,
) -> None:
    """Time to 97 % on MNIST while one of 4 workers is 4 times slower: DistributedDataParallel, and other ways."""
    _check(blocks, 15, json_file)
    check_extra("torch", "weft bench straggler")
    course = StragglerWorkload(data)
    ways = [way for way in STRAGGLER_OTHERS if way != strategy]
    with progress("straggler") as tell:
        report = measure_straggler(course, blocks, strategy, ways, others, tell)
    _show(report, f"straggler: {report['unit']}", CONTENDER_COLUMNS, _contender_cells, json_file)


@app.command()
def recovery(
    data: Annotated[Path, typer.Option(help="The folder of MNIST's four files.")] = Path("data/mnist"),
    seconds: Annotated[float, typer.Option(help="How long a contender trains with kills.")] = 120,
    undisturbed: Annotated[
        float | None,
        typer.Option(help="How long it trains without, before and after.", show_default="as long as with kills"),
    ] = None,
    peer_seconds: Annotated[
        float | None, typer.Option(help="How long torchrun and torchft train with kills.", show_default="as Weft does")
    ] = None,
    every: Annotated[float, typer.Option(help="Seconds between two kills, on average.")] = 15,
    seed: Annotated[int, typer.Option(help="Draws the workers that are killed, and the moments.")] = 0,
    contender: Annotated[
        list[str] | None, typer.Option(help="torchrun, torchft or a strategy of Weft; may be given several times.")
    ] = None,
    torchft: Annotated[str, typer.Option(metavar="PYTHON", help="The interpreter that has torchft.")] = sys.executable,
    json_file: JsonFile = None,
) -> None:
    """A worker of 4 is killed now and then: torchrun with DistributedDataParallel, and torchft."""
    check_writable(json_file)
    check_extra("torch", "weft bench recovery")
    course = RecoveryWorkload(
        data,
        seconds=seconds,
        every_s=every,
        seed=seed,
        undisturbed_s=undisturbed,
        peer_seconds=peer_seconds,
        torchft_python=torchft,
    )
    with progress("recovery") as tell:
        report = measure_recovery(course, contender or RECOVERY_CONTENDERS, tell)
    _show(report, f"recovery: {report['unit']}", RECOVERY_COLUMNS, _recovery_cells, json_file)


def _compete(benchmark: Benchmark, blocks: int, usual: int, only: list[str] | None, json_file: Path | None) -> None:
    _check(blocks, usual, json_file)
    check_extra("torch", f"weft bench {benchmark.name}")
    works = benchmark.only(only or ())
    with progress(benchmark.name) as tell:
        report = measure(benchmark, works, blocks, tell=tell)
    _show(report, f"{benchmark.name}: {benchmark.unit}", CONTENDER_COLUMNS, _contender_cells, json_file)


def _check(blocks: int, usual: int, json_file: Path | None) -> None:
    if blocks < 1:
        raise ConfigError(f"--blocks is {blocks}, but at least 1 must be measured.\n  Use --blocks {usual}.")
    check_writable(json_file)


def _simulator_cells(row: Row) -> list[str]:
    figures = (f"{row[key]:,.0f}" for key in ("events", "events_per_s", "low", "high"))
    return [row["world"], row["recorder"], *figures, _verdict(row["low"], row["bar"], ",")]


def _contender_cells(row: Row) -> list[str]:
    if "missing" in row:
        return [row["work"], row["contender"], row["missing"]]
    cells = [row["work"], row["contender"], *(human_seconds(row[key]) for key in ("seconds", "low", "high"))]
    if "ratio" in row:
        cells += [f"{row['ratio']:.2f}", f"{row['ratio_low']:.2f}", _verdict(row["ratio_low"], row.get("bar"), ".2f")]
    elif "bar_s" in row:
        cells += ["", "", f"{human_seconds(row['bar_s'])} {'met' if row['high'] <= row['bar_s'] else 'MISSED'}"]
    return cells


def _recovery_cells(row: Row) -> list[str]:
    if "missing" in row:
        return [row["contender"], row["missing"].split("\n")[0]]
    missed = [figure for figure, is_met in row.get("bars", {}).items() if not is_met]
    usual = [score for score in row["accuracy_undisturbed"] if score is not None]
    kills, planned = row["kills"], row["kills"] + row["kills_missed"]
    return [
        f"{row['contender']}\n{kills}" + (f" of {planned}" if kills < planned else ""),
        "" if "bars" not in row else f"MISSED: {', '.join(missed)}" if missed else "bars met",
        "\n".join(_or_none(row[key], human_seconds) for key in ("next_p50_s", "next_p99_s")),
        "\n".join(_or_none(row[key], human_seconds) for key in ("full_p50_s", "full_p99_s")),
        f"{row['batches_lost']:.1f}\n{row['samples_lost']:.0f}",
        "\n".join(_or_none(row.get(key), "{:.1%}".format) for key in ("goodput_calm", "goodput_foretold", "goodput"))
        + f"\n{row['samples_per_s']:,.0f}\n{mean(row['samples_per_s_undisturbed']):,.0f}",
        "\n".join(_or_none(score, "{:.2%}".format) for score in (row["accuracy"], mean(usual) if usual else None)),
    ]


def _or_none(figure: float | None, show: Callable[[float], str]) -> str:
    return "none" if figure is None else show(figure)


def _joined(cells: Sequence[str], low: int | None) -> list[str]:
    """The same with the cells of the lower and the upper bound, which is beside it, in one."""
    if low is None or len(cells) <= low + 1:
        return list(cells)
    return [*cells[:low], "\n".join(dict.fromkeys(cells[low : low + 2])), *cells[low + 2 :]]


def _verdict(low: float, bar: float | None, form: str) -> str:
    """A bar is met when the lower bound reaches it."""
    return "" if bar is None else f"{bar:{form}} {'met' if low >= bar else 'MISSED'}"


def _show(
    report: Row, title: str, columns: Sequence[str], cells: Callable[[Row], list[str]], json_file: Path | None
) -> None:
    """The one table of all benchmarks: two columns of words, then figures; on a narrow screen, bounds share one."""
    low = columns.index(LOW) if LOW in columns and screen.width < NARROW else None
    table = Table(title=title)
    for place, name in enumerate(_joined(columns, low)):
        table.add_column(
            name,
            justify="left" if place < 2 else "right",
            overflow="fold",
            min_width=max(map(len, name.split("\n"))) if place == 1 else None,
        )
    for row in report["rows"]:
        table.add_row(*_joined(cells(row), low))
    screen.print(table)
    if json_file is not None:
        write_or_show("--json", json_file, json.dumps(report, indent=1) + "\n")

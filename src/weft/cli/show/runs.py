"""Real runs on the screen when they are over: every worker of one, or a row for each of several."""

from weft.cli.show.outcomes import (
    AGES,
    PACE,
    TRAFFIC,
    WIDE,
    Column,
    Row,
    coding_in_words,
    duration,
    in_words,
    known,
    reported,
    show_not_saved,
    show_tables,
)
from weft.cli.show.screen import screen
from weft.config.network import EmulatedNetwork
from weft.engines.real.losses import LEFT
from weft.observe.records.left_out import summary as left_out_in_words
from weft.observe.records.quantities import human_bytes, human_seconds

STEPS: list[Column] = [
    ("steps", lambda row: f"{row['steps']:,}"),
    ("samples", lambda row: f"{row['samples']:,.0f}"),
]
STALENESS: Column = ("mean\nstaleness", known("staleness_mean", lambda age: f"{age:.1f}"))
PID: Column = ("pid", lambda row: str(row["pid"]))
NOTEWORTHY = 0.1
"""Shares of waiting time that differ by less are about the same."""

COPIES: Column = ("copies", known("copies", lambda number: f"{number:,}"))


def show_runs(rows: list[Row]) -> None:
    """The ending of one run or of several, given as their JSON."""
    if len(rows) == 1:
        show_run(rows[0])
    else:
        compare_runs(rows)
    show_not_saved(rows)


def show_run(row: Row) -> None:
    """A row for each worker, then the whole run in a few words."""
    title = f"{row['strategy']}, {_workers(row)} over {row['transport']}{_network(row)}"
    workers = [{**worker, "worker": worker["rank"]} for worker in row["per_worker"]]
    show_tables(title, workers, [*STEPS, PACE, *TRAFFIC, STALENESS, PID], name="worker")
    learned = [f"{name} {cell(row)}" for name, cell in reported([row])]
    if learned:
        screen.print(", ".join(learned), markup=False)
    screen.print(_total(row), markup=False)
    _show_devices(row)
    _show_coding(row)
    _show_left_out(row)
    _show_blame(row)


def compare_runs(rows: list[Row]) -> None:
    """A row for each run and, in words, what to make of it."""
    rows = _told_apart(rows)
    first = rows[0]
    title = f"{_workers(first)}{_network(first)}, {first['samples']:,.0f} samples"
    times, learned, rest = [duration("time", "wall_s"), PACE], reported(rows), [*AGES, COPIES]
    if screen.width >= WIDE:
        show_tables(title, rows, times + learned + TRAFFIC + rest)
    else:
        show_tables(title, rows, times + TRAFFIC)
        show_tables("what was learned", rows, learned + rest)
    screen.print(f"{in_words(rows, 'wall_s')} {waiting_in_words(rows)}".rstrip(), markup=False)
    for row in rows:
        _show_devices(row, f"{row['strategy']}: ")
        _show_coding(row, f"{row['strategy']}: ")
        _show_left_out(row, f"{row['strategy']}: ")
    for row in rows:
        _show_blame(row, f"{row['strategy']}: ")


def _show_devices(row: Row, name: str = "") -> None:
    """Where sums were made and what else it would have cost; what was copied to and from devices."""
    told = [worker["device"] for worker in row["per_worker"] if worker["device"] is not None]
    if told:
        prices = " and ".join(f"{human_seconds(price)} on the {place}" for place, price in told[0]["prices_s"].items())
        copied = f"{human_bytes(sum(one['bytes_in'] for one in told))} to devices"
        copied += f" and {human_bytes(sum(one['bytes_out'] for one in told))} from them"
        screen.print(
            f"{name}Sums were made on the {told[0]['place']}; as measured, a sum of the whole model takes {prices}. "
            f"Copied: {copied}.",
            markup=False,
        )


def _show_coding(row: Row, name: str = "") -> None:
    if row["coding"] is not None:
        screen.print(name + coding_in_words(row["coding"]), markup=False)


def _show_left_out(row: Row, name: str = "") -> None:
    for loss in row["losses"]:
        if loss["how"] == LEFT:
            text = f"{name}Worker {loss['worker']} left at step {loss['step']}, after {loss['cause']}."
        else:
            text = f"{name}Worker {loss['worker']} was lost at step {loss['step']}: {loss['cause']}."
        if loss["replaced_s"] is not None:
            text += f" It was replaced after {loss['replaced_s'] - loss['detected_s']:.1f} s."
        screen.print(text, markup=False)
    if row["samples_unused"]:
        text = f"{row['samples_unused']:,} samples of lost workers were not used: all others had ended that epoch."
        screen.print(name + text, markup=False)
    if any(row["not_finite"]):
        screen.print(name + left_out_in_words(row["not_finite"]), markup=False)


def _show_blame(row: Row, name: str = "") -> None:
    """What was said of slow workers; of what was said again and again, the last."""
    said = {(one["worker"], one["cause"]): text for one, text in zip(row["blamed"], row["blame"], strict=True)}
    for text in said.values():
        screen.print(name + text, markup=False)


def waiting_in_words(rows: list[Row]) -> str:
    """Who let its workers wait most and least, if that differs."""
    rows = [row for row in rows if row["waiting_fraction"] is not None]
    if not rows:
        return ""
    least, most = (choose(rows, key=lambda row: row["waiting_fraction"]) for choose in (min, max))
    if most["waiting_fraction"] - least["waiting_fraction"] < NOTEWORTHY:
        return ""
    return (
        f"Workers waited most with {most['strategy']}, {100 * most['waiting_fraction']:.0f} % of their time, "
        f"and least with {least['strategy']}, {100 * least['waiting_fraction']:.0f} %."
    )


def _total(row: Row) -> str:
    if row["bytes_sent"] is None:
        return f"In all: {row['samples']:,.0f} samples in {human_seconds(row['wall_s'])}."
    least = "at least " if row.get("losses") else ""  # of lost workers, what they had told last
    return (
        f"In all: {least}{row['samples']:,.0f} samples in {human_seconds(row['wall_s'])}, "
        f"{row['samples_per_s']:,.0f} samples/s, {human_bytes(row['bytes_sent'])} sent{_between_hosts(row)}, "
        f"waiting {100 * row['waiting_fraction']:.0f} %, "
        f"staleness {row['staleness_mean']:.1f} (at most {row['staleness_max']:.0f}), {row['copies']:,} copies"
        f"{_refused(row)}."
    )


def _between_hosts(row: Row) -> str:
    told = row["bytes_between_hosts"]
    return "" if told is None else f" ({human_bytes(told)} between hosts)"


def _refused(row: Row) -> str:
    """How often strangers, or what was sent, were not let in."""
    return f", {row['refused']:,} refused" if row["refused"] else ""


def _workers(row: Row) -> str:
    workers = "1 worker" if row["workers"] == 1 else f"{row['workers']} workers"
    return workers if row["hosts"] == 1 else f"{workers} on {row['hosts']} hosts"


def _network(row: Row) -> str:
    """The slow network between the workers, if there was one."""
    told = row["network"]
    return "" if told is None else f", {_links(told)}"


def _links(told: Row) -> EmulatedNetwork:
    own = tuple((int(worker), _links(link)) for worker, link in told.get("own", {}).items())
    return EmulatedNetwork(told["bytes_per_s"], told["delay_s"], told["loss"], own)


def _told_apart(rows: list[Row]) -> list[Row]:
    """The same rows, with the transport and the number of workers behind the strategy where runs differ in them."""

    def label(row: Row) -> str:
        apart = [str(row["transport"])] if len({row["transport"] for row in rows}) > 1 else []
        apart += [_workers(row)] if len({row["workers"] for row in rows}) > 1 else []
        return ", ".join([row["strategy"], *apart])

    return [{**row, "strategy": label(row)} for row in rows]

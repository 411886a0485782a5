"""Writes the README's table of measured figures from the JSON in benchmarks/results/.

python benchmarks/readme.py
"""

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks/results"
BEGIN, END = "<!-- figures: written by make bench -->", "<!-- end of figures -->"
BENCHMARKS = (
    "simulator", "allreduce", "throughput", "wire", "overhead", "codecs", "start", "slownet", "straggler", "recovery",
)  # fmt: skip


def simulator_lines(report: dict) -> list[str]:
    """A line for each contender of `weft bench simulator`."""
    return [
        f"| `weft bench simulator`: {row['world']} workers, recorder {row['recorder']} "
        f"| {row['events_per_s']:,.0f} events/s ({row['low']:,.0f} to {row['high']:,.0f}) "
        f"| {row['bar']:,} {verdict(row['low'], row['bar'])} |"
        for row in report["rows"]
    ]


def contest_lines(report: dict) -> list[str]:
    """A line for each work: Weft's time, and how much longer every other takes."""
    works = dict.fromkeys(row["work"] for row in report["rows"])
    lines = []
    for work in works:
        rows = [row for row in report["rows"] if row["work"] == work and "seconds" in row]
        figures = [figure(row) for row in rows if row.get("counts", True)]
        bars = [
            f"{row['rival']} {row['bar']:.2f} {verdict(row['ratio_low'], row['bar'])}" for row in rows if row.get("bar")
        ]
        bars += [f"{row['bar_s']:g} s {verdict(row['bar_s'], row['high'])}" for row in rows if "bar_s" in row]
        lines.append(f"| `weft bench {report['benchmark']}`: {work} | {', '.join(figures)} | {', '.join(bars)} |")
    return lines


def recovery_lines(report: dict) -> list[str]:
    """A line for each contender of `weft bench recovery`."""

    def seconds(row: dict, what: str) -> str:
        each = (row[f"{what}_p50_s"], row[f"{what}_p99_s"])
        return " and ".join("never" if value is None else f"{value:.2f} s" for value in each)

    def share(fraction: float | None) -> str:
        return "unknown" if fraction is None else f"{fraction:.1%}"

    lines = []
    for row in (row for row in report["rows"] if "missing" not in row):
        missed = [name for name, is_met in row.get("bars", {}).items() if not is_met]
        bars = "" if "bars" not in row else f"{', '.join(missed)} missed" if missed else "all met"
        lines.append(
            f"| `weft bench recovery`: {row['contender']}, {row['kills']} kills | next step {seconds(row, 'next')} "
            f"(p50, p99), full strength {seconds(row, 'full')}, {row['samples_lost']:.0f} samples lost a kill, "
            f"goodput {share(row['goodput_calm'])} ({row['goodput']:.1%} of the runs without kills) | {bars} |"
        )
    return lines


def figure(row: dict) -> str:
    """'gloo 6.31x (6.02 to 6.60)' against Weft's time, or a plain time."""
    if "ratio" in row:
        low, high = row["ratio_low"], row["ratio_high"]
        return f"{row['rival']} {row['ratio']:.2f}x ({f'{low:.2f} to {high:.2f}' if low < high else 'once'})"
    seconds = row["seconds"]
    return f"{row['contender']} {f'{seconds:.3g} s' if seconds >= 1 else f'{seconds * 1e3:.3g} ms'}"


def verdict(low: float, bar: float) -> str:
    """A bar is met when the lower bound reaches it."""
    return "met" if low >= bar else "missed"


def machine_lines(reports: list[dict]) -> list[str]:
    """Where and when; several lines when not all was measured together."""
    measured: dict[str, list[str]] = {}
    for report in reports:
        machine = report["machine"]
        where = (
            f"on {machine['date']}: {machine['cpu']}, {machine['cores']} cores, "
            f"{machine['memory_bytes'] / 2**30:.0f} GiB, Python {machine['python']}, torch {machine['torch']}."
        )
        measured.setdefault(where, []).append(report["benchmark"])
    if len(measured) == 1:
        return [f"Measured {where}" for where in measured]
    return [f"{', '.join(names)} measured {where}" for where, names in measured.items()]


LINES = {"simulator": simulator_lines, "recovery": recovery_lines}


def main() -> None:
    paths = [RESULTS / f"{name}.json" for name in BENCHMARKS]
    reports = [json.loads(path.read_text()) for path in paths if path.exists()]
    lines = [
        BEGIN,
        *machine_lines(reports),
        'Medians and 95 % intervals; "2.00x" means that the other takes twice as long as Weft. Limits of the machine: '
        "`nocomm` is the same loop",
        "without communication, `memcpy` a mere copy of the bytes; `off` is Weft with `--on-loss stop`. A bar is what "
        "Weft wants to reach, by the lower end of the interval.",
        "",
        "| what | measured | bar |",
        "|---|---|---|",
    ]
    for report in reports:
        lines += LINES.get(report["benchmark"], contest_lines)(report)
    readme = ROOT / "README.md"
    table = "\n".join([*lines, END])
    text = readme.read_text()
    readme.write_text(re.sub(f"{re.escape(BEGIN)}.*{re.escape(END)}", lambda _: table, text, flags=re.DOTALL))


if __name__ == "__main__":
    main()

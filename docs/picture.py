"""Draws the README's picture from the JSON in benchmarks/results/: time to a target as sorted bars, DDP among them.

python docs/picture.py
"""

import json
import re
from html import escape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
REPORT = ROOT / "benchmarks/results/straggler.json"
PICTURE = ROOT / "docs/pictures/straggler.svg"
RIVAL = "ddp"
WIDTH, TOP, ROW, BAR, FOOT = 860, 92, 46, 26, 40
LEFT, RIGHT = 230, 150
"""The columns of names and of figures, on both sides of the bars."""
SMALL = 1.1
"""Times that differ by less are told as about the same."""
INK, FAINT, OURS, THEIRS = "#1f2328", "#656d76", "#2f7d6b", "#d1603d"
FONT = "system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif"


def best_of_each(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of every strategy the row that took least time, sorted by time: some have several, with other shares of data."""
    best: dict[str, dict[str, Any]] = {}
    for row in sorted(rows, key=lambda row: row["seconds"]):
        best.setdefault(name_of(row["contender"]), row)
    return list(best.values())


def name_of(contender: str) -> str:
    """'async_gossip' of 'async_gossip(period=4) share=stealing'."""
    return re.split(r"[ (]", contender)[0]


def details(contender: str) -> str:
    """What stands behind the name: 'period=4, share=stealing'."""
    rest = contender.removeprefix(name_of(contender))
    return ", ".join(part for part in re.split(r"[() ]+", rest) if part)


def text(
    x: float, y: float, words: str, size: int = 15, anchor: str = "start", fill: str = INK, weight: int = 400
) -> str:
    """A line of text."""
    look = f'font-size="{size}" text-anchor="{anchor}" fill="{fill}" font-weight="{weight}"'
    return f'<text x="{x:g}" y="{y:g}" {look}>{escape(words)}</text>'


def bar(place: int, row: dict[str, Any], most: float, rival: float) -> list[str]:
    """A contender: its name, a bar as long as it took, and how that compares."""
    is_rival = row["contender"] == RIVAL
    y, length = TOP + place * ROW, (WIDTH - LEFT - RIGHT) * row["seconds"] / most
    fill, weight = (THEIRS, 700) if is_rival else (OURS, 500)
    title, below = ("PyTorch DDP", "") if is_rival else (name_of(row["contender"]), details(row["contender"]))
    middle, ink = y + BAR / 2, THEIRS if is_rival else INK
    return [
        text(LEFT - 14, middle + (-1 if below else 5), title, anchor="end", weight=weight, fill=ink),
        text(LEFT - 14, middle + 14, below, 12, "end", FAINT),
        f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR}" rx="3" fill="{fill}"/>',
        text(LEFT + length + 10, middle + 5, f"{row['seconds']:.0f} s", weight=700, fill=ink),
        text(LEFT + length + 54, middle + 5, "" if is_rival else compared(row["seconds"], rival), 13, fill=FAINT),
    ]


def compared(seconds: float, rival: float) -> str:
    """How a time compares with DDP's, in words; nothing where the difference is small."""
    if max(seconds, rival) < SMALL * min(seconds, rival):
        return "about the same"
    return f"{rival / seconds:.1f}x as fast" if seconds < rival else f"{seconds / rival:.1f}x as long"


def picture(report: dict[str, Any]) -> str:
    """The picture as SVG."""
    rows = best_of_each(report["rows"])
    most = max(row["seconds"] for row in rows)
    rival = next(row["seconds"] for row in rows if row["contender"] == RIVAL)
    height = TOP + len(rows) * ROW + FOOT
    runs = sorted({len(row["runs"]) for row in rows})
    machine = report["machine"]
    where = f"{machine['cpu']}, {machine['cores']} cores, {machine['date']}"
    foot = f"Shorter is better. Medians of {runs[0]} to {runs[-1]} runs; {where}."
    title = "One of four workers is four times slower"
    about = "Seconds until a convolutional network has learned MNIST's digits to 97 %"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'font-family="{FONT}" role="img">',
        f"<title>{title}: {about[0].lower()}{about[1:]}</title>",
        f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#ffffff"/>',
        text(24, 38, title, 20, weight=700),
        text(24, 62, about, 15, fill=FAINT),
        *(line for place, row in enumerate(rows) for line in bar(place, row, most, rival) if "></text>" not in line),
        text(24, height - 16, foot, 12, fill=FAINT),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    PICTURE.write_text(picture(json.loads(REPORT.read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    main()

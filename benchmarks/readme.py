"""Writes the README's table of measured figures from the JSON in benchmarks/results/.

python benchmarks/readme.py
"""

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BEGIN, END = "<!-- figures: written by make bench -->", "<!-- end of figures -->"


def simulator_rows(report: dict) -> list[str]:
    """A line for each contender of `weft bench simulator`."""
    return [
        f"| `weft bench simulator`: {row['world']} workers, recorder {row['recorder']} "
        f"| {row['events_per_s']:,.0f} events/s ({row['low']:,.0f} to {row['high']:,.0f}) "
        f"| {row['bar']:,} {'met' if row['low'] >= row['bar'] else 'missed'} |"
        for row in report["rows"]
    ]


def main() -> None:
    report = json.loads((ROOT / "benchmarks/results/simulator.json").read_text())
    machine = report["machine"]
    lines = [
        BEGIN,
        f"Measured on {machine['date']}: {machine['cpu']}, {machine['cores']} cores, "
        f"{machine['memory_bytes'] / 2**30:.0f} GiB, Python {machine['python']}. Median and 95 % interval.",
        "",
        "| what | measured | bar |",
        "|---|---|---|",
        *simulator_rows(report),
        END,
    ]
    readme = ROOT / "README.md"
    text = readme.read_text()
    readme.write_text(re.sub(f"{re.escape(BEGIN)}.*{re.escape(END)}", "\n".join(lines), text, flags=re.DOTALL))


if __name__ == "__main__":
    main()

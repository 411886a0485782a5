"""Does staleness pay? Time to 97 % on MNIST, 4 real workers, in step, stale and asynchronous, with and without hiccups.

python benchmarks/stale.py --data FOLDER
"""

import argparse
import json
import sys
from pathlib import Path

from weft.engines.calibrate.machine import machine
from weft.engines.local.launcher import fork_server_of, run_local
from weft.engines.real.job import RealJob

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = "benchmarks/mnist_often.py"
STRATEGIES = ("ps", "ssp(staleness=3)", "asgd")
HICCUPS = {"none": (0.0, 1.0), "one iteration in ten takes ten times as long": (0.1, 10.0)}
ACCURACY = 0.97


def main() -> int:
    """A line for each run. Writes benchmarks/results/stale.json and docs/staleness.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=ROOT / "data/mnist", help="the folder of MNIST")
    data = parser.parse_args().data
    jobs = [
        (
            name,
            RealJob(
                script=ROOT / SCRIPT, arguments=("--data", str(data)), num_workers=4, strategy=strategy, hiccups=hiccups
            ),
        )
        for name, hiccups in HICCUPS.items()
        for strategy in STRATEGIES
    ]
    rows = []
    with fork_server_of(jobs[0][1]) as fork_server:
        for name, job in jobs:
            told = run_local(job, fork=fork_server.fork).to_json()
            reached = [report["wall_s"] for report in told["reports"] if report["accuracy"] >= ACCURACY]
            row = {"hiccups": name, "strategy": job.strategy, "seconds_to_97": reached[0] if reached else None}
            rows.append({**row, **{what: told[what] for what in ("wall_s", "waiting_fraction", "staleness_mean")}})
            print(rows[-1], flush=True)
    report = {"benchmark": "stale", "command": SCRIPT, "workers": 4, "machine": machine(), "rows": rows}
    (ROOT / "benchmarks/results/stale.json").write_text(json.dumps(report, indent=1) + "\n")
    (ROOT / "docs/staleness.md").write_text(page(report))
    return 0


def page(report: dict) -> str:
    """The table of the documentation."""
    lines = [
        "# What staleness gains",
        "",
        "Written by `make stale`, with benchmarks/results/stale.json: seconds until a perceptron has 97 % on MNIST,",
        f"4 real workers, one run each. On {report['machine']['date']}: {report['machine']['cpu']}, "
        f"{report['machine']['cores']} cores.",
        "",
        "| hiccups | strategy | seconds to 97 % | time waiting | mean staleness |",
        "|---|---|---|---|---|",
    ]
    for row in report["rows"]:
        seconds = "not reached" if row["seconds_to_97"] is None else f"{row['seconds_to_97']:.1f}"
        lines.append(
            f"| {row['hiccups']} | `{row['strategy']}` | {seconds} | {row['waiting_fraction']:.0%} "
            f"| {row['staleness_mean']:.1f} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())

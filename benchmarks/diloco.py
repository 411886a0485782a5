"""How much accuracy does rare communication cost? MNIST with 4 real workers over TCP, where every byte is counted.

python benchmarks/diloco.py --data FOLDER
"""

import argparse
import json
import sys
from pathlib import Path
from statistics import mean

from weft.engines.calibrate.machine import machine
from weft.engines.local.launcher import fork_server_of, run_local
from weft.engines.real.job import RealJob

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = "examples/mnist_mlp.py"
ARGUMENTS = ("--hidden", "128")
NUM_WORKERS, SEEDS = 4, range(3, 6)
"""Not the seeds 0 to 2, by which DiLoCo's default momentum was chosen."""
RARE = "diloco(period=100)"
STRATEGIES = ("allreduce", RARE, "diloco(period=100, momentum=0.9)", "local_sgd(period=100)")
POINTS_MAX, SHARE_MAX = 0.5, 1 / 50
"""What DiLoCo promises: it stays within so many points of all-reduce, with less than this share of its bytes."""


def main() -> int:
    """A line for each run; 1 when the promise was not kept. Writes benchmarks/results/diloco.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=ROOT / "data/mnist", help="the folder of MNIST")
    data = parser.parse_args().data
    if not data.is_dir():
        parser.error(f"there is no MNIST in '{data}'; name the folder of its four files with --data")
    jobs = [
        RealJob(
            script=ROOT / SCRIPT,
            arguments=(*ARGUMENTS, "--data", str(data)),
            num_workers=NUM_WORKERS,
            strategy=strategy,
            transport="tcp",
            seed=seed,
        )
        for seed in SEEDS
        for strategy in STRATEGIES
    ]
    rows = []
    with fork_server_of(jobs[0]) as fork_server:
        for job in jobs:
            told = run_local(job, fork=fork_server.fork).to_json()
            row = {"strategy": job.strategy, "seed": job.seed, "accuracy": told["final"]["accuracy"]}
            rows.append({**row, **{name: told[name] for name in ("bytes_sent", "steps", "samples", "wall_s")}})
            print(
                "{strategy:34} seed {seed}: accuracy {accuracy:.4f}, {bytes_sent:,} bytes".format(**rows[-1]),
                flush=True,
            )
    report = {
        "benchmark": "diloco",
        "command": " ".join((SCRIPT, *ARGUMENTS)),
        "workers": NUM_WORKERS,
        "transport": "tcp",
        "points_max": POINTS_MAX,
        "share_max": SHARE_MAX,
        "machine": machine(),
        "rows": rows,
    }
    (ROOT / "benchmarks/results/diloco.json").write_text(json.dumps(report, indent=1) + "\n")
    behind, share = compared(rows)
    print(f"{RARE} is {behind:.2f} points behind all-reduce, with 1/{1 / share:.0f} of its bytes")
    return int(behind > POINTS_MAX or share >= SHARE_MAX)


def compared(rows: list[dict]) -> tuple[float, float]:
    """How many points DiLoCo is behind all-reduce, and its share of the bytes, by their means."""

    def of(strategy: str, what: str) -> float:
        return mean(row[what] for row in rows if row["strategy"] == strategy)

    behind = 100 * (of("allreduce", "accuracy") - of(RARE, "accuracy"))
    return behind, of(RARE, "bytes_sent") / of("allreduce", "bytes_sent")


if __name__ == "__main__":
    sys.exit(main())

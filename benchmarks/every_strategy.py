"""Trains the digits CNN with 4 real workers under every strategy, over every transport, to 95 % accuracy.

python benchmarks/every_strategy.py
"""

import sys
import time
from pathlib import Path

from weft.config.registry import STRATEGIES
from weft.engines.local.launcher import fork_server_of, run_local
from weft.engines.real.job import RealJob
from weft.runtime.connections import SHM, TRANSPORTS

NAMES = {
    **{name: name for name in STRATEGIES},
    "neighbours": "neighbours(topology=complete)",
    "easgd, asynchronous": "easgd(mode=async)",
    "population, by evolution": "population(method=evolution)",
    "population, as a swarm": "population(method=pso)",
}
"""On a sparse graph the replicas of `neighbours` drift apart between elections: 0.91 on a torus of 4."""
ARGUMENTS = {"sandblaster": ("--epochs", "40", "--batch-size", "64")}
"""What the script is told; an epoch of Sandblaster is a single step, however small its portions are."""
SCRIPT = Path(__file__).resolve().parents[1] / "examples/digits_cnn.py"
ACCURACY_MIN = 0.95


def main() -> int:
    """A line for each run; 1 when one of them missed the bar."""
    began, missed = time.perf_counter(), 0
    jobs = [
        RealJob(script=SCRIPT, arguments=ARGUMENTS.get(name, ()), num_workers=4, strategy=text, transport=transport)
        for transport in TRANSPORTS
        for name, text in NAMES.items()
        if transport == SHM or name != "hogwild"  # which needs memory that is shared
    ]
    with fork_server_of(jobs[0]) as fork_server:
        for job in jobs:
            outcome = run_local(job, fork=fork_server.fork).to_json()
            accuracy = outcome["final"]["accuracy"]
            missed += accuracy < ACCURACY_MIN
            verdict = "" if accuracy >= ACCURACY_MIN else f"  MISSED {ACCURACY_MIN}"
            print(
                f"{job.transport:4} {job.strategy:29} accuracy {accuracy:.4f} in {outcome['wall_s']:5.1f} s{verdict}",
                flush=True,
            )
    print(f"{len(jobs)} runs in {time.perf_counter() - began:.0f} s, {missed} missed the bar")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())

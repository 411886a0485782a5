"""Trains on network namespaces as hosts under real torchrun, and says what each strategy reached: `make hosts`.

As root on Linux. For 2 and 4 hosts of 2 workers: does the example learn, in which time, and what crosses between hosts?
"""

import re
import secrets
import sys
import tempfile
import time
from pathlib import Path

from support.network.machines import machines

EXAMPLE = Path(__file__).parents[1] / "examples" / "digits_cnn.py"
STRATEGIES = ("allreduce", "ssp", "gossip")
WORKERS_PER_HOST = 2
TARGET = 0.95
PATIENCE_S = 600.0


def trial(num_hosts: int, strategy: str, epochs: int) -> bool:
    """One run; prints its line, and whether the target was reached."""
    with machines(num_hosts) as hosts, tempfile.TemporaryDirectory() as folder:
        began_s = time.monotonic()
        run = hosts.torchrun(
            *(EXAMPLE, "--epochs", epochs),
            workers_per_host=WORKERS_PER_HOST,
            cwd=Path(folder),
            WEFT_STRATEGY=strategy,
            WEFT_SECRET=secrets.token_hex(32),
        )
        codes = run.end(PATIENCE_S)
        took_s = time.monotonic() - began_s
        left = run.leftovers()
    text = " ".join(run.text(0).split())
    told = re.findall(r"epoch \d+ accuracy ([\d.]+)", text)
    between = re.search(r"\(([^()]*) between hosts\)", text)
    if any(codes) or not told or between is None:
        print(f"{num_hosts} hosts, {strategy}: exit codes {codes}\n{run.text()}")
        return False
    print(
        f"{num_hosts} hosts of {WORKERS_PER_HOST}  {strategy:10s} accuracy {told[-1]}  {took_s:5.1f} s with starting  "
        f"{between[1]} between hosts" + (f"  LEFT: {left}" if left else ""),
        flush=True,
    )
    return float(told[-1]) >= TARGET and not left


def main() -> None:
    """All of them; exit code 1 if any fell short."""
    results = [trial(num_hosts, strategy, 6) for num_hosts in (2, 4) for strategy in STRATEGIES]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()

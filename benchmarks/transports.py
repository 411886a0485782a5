"""What a step takes when torch.distributed sums, against shared memory, tcp and DistributedDataParallel itself.

python benchmarks/transports.py --blocks 15 --json benchmarks/results/transports.json

A ratio is the other's time divided by that of `weft run --transport torch`, as everywhere: above 1, torch's sums are
the faster way; below 1, the other is.
"""

import argparse
import json
import os
from functools import partial
from pathlib import Path

from weft.bench.benchmark import Benchmark, Work, measure
from weft.bench.contender import BenchmarkContender, weft_with
from weft.bench.throughput import TRAINING

TRANSPORTS = Benchmark(
    name="transports",
    unit="seconds of one step",
    works=tuple(Work(name, name, 2) for name in ("cnn", "mlp", "transformer")),
    contenders=(
        BenchmarkContender("weft", TRAINING, launcher=partial(weft_with, ("--transport", "torch"))),
        BenchmarkContender("weft-shm", TRAINING, launcher=partial(weft_with, ("--transport", "shm"))),
        BenchmarkContender("weft-tcp", TRAINING, launcher=partial(weft_with, ("--transport", "tcp"))),
        BenchmarkContender("ddp", TRAINING),
        BenchmarkContender("ddp-view", TRAINING, rival="ddp"),
        BenchmarkContender("ddp-kept", TRAINING, keeps_memory=True),
    ),
    bars={},
    block_s=0.5,
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=15)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    before = os.getloadavg()[0]
    report = measure(TRANSPORTS, TRANSPORTS.only(args.only), args.blocks, print)
    report["load"] = {"before": before, "after": os.getloadavg()[0]}
    for row in report["rows"]:
        ratio = f"{row['ratio']:6.2f} [{row['ratio_low']:.2f}, {row['ratio_high']:.2f}]" if "ratio" in row else ""
        print(f"{row['work']:12} {row['contender']:10} {row['seconds'] * 1e3:8.2f} ms  {ratio}")
    if args.json is not None:
        args.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()

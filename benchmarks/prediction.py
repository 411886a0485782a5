"""How well a simulated comparison foretells a real one: time per step of each contender, and their order.

weft calibrate examples/mnist_cnn.py -n 4 -o out/here.toml -- --data FOLDER
weft compare examples/mnist_cnn.py -n 4 --slow 0:4 ... --report out/real.html -- --data FOLDER
weft compare examples/mnist_cnn.py -n 4 --slow 0:4 ... --simulate --cluster out/here.toml --report out/simulated.html \
    -- --data FOLDER
python benchmarks/prediction.py out/real.json out/simulated.json
"""

import argparse
from pathlib import Path
from statistics import median

import msgspec

from weft.observe.records.comparison import ComparedRun, Comparison, Contender

BAR = 0.15


def read(path: Path) -> dict[str, Contender]:
    comparison = msgspec.json.decode(path.read_bytes(), type=Comparison)
    return {contender.label: contender for contender in comparison.standing()}


def step_s(run: ComparedRun) -> float:
    """Seconds of a step of all workers together: those who steal make different numbers of them."""
    steps = sum(worker.steps for worker in run.workers) / len(run.workers)
    return run.seconds / steps


def order(times: dict[str, float]) -> list[str]:
    return sorted(times, key=lambda label: times[label])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("real", type=Path)
    parser.add_argument("simulated", type=Path)
    args = parser.parse_args()
    real, simulated = read(args.real), read(args.simulated)
    labels = [label for label in real if label in simulated]
    steps = {label: [median(map(step_s, told[label].runs)) for told in (real, simulated)] for label in labels}
    print(f"{'contender':40} {'real step':>10} {'simulated':>10} {'off by':>8}")
    for label, (measured, foretold) in steps.items():
        print(f"{label:40} {measured * 1e3:7.1f} ms {foretold * 1e3:7.1f} ms {100 * (foretold / measured - 1):+6.1f} %")
    missed = [label for label, (measured, foretold) in steps.items() if abs(foretold / measured - 1) > BAR]
    print(f"within {BAR:.0%}: {len(labels) - len(missed)} of {len(labels)}")
    orders = [order({label: step[which] for label, step in steps.items()}) for which in (0, 1)]
    print(f"order by time per step, real:      {', '.join(orders[0])}")
    print(f"order by time per step, simulated: {', '.join(orders[1])}")
    if all(told[label].to_target_s() is not None for told in (real, simulated) for label in labels):
        finished = [{label: told[label].to_target_s() or 0.0 for label in labels} for told in (real, simulated)]
        print(f"order by time to target, real:      {', '.join(order(finished[0]))}")
        print(f"order by time to target, simulated: {', '.join(order(finished[1]))}")


if __name__ == "__main__":
    main()

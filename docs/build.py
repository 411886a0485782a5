"""Writes the pages and pictures of the documentation that commands write.

python docs/build.py
"""

import inspect
import json
import subprocess
import sys
from pathlib import Path
from statistics import mean

from weft.config.registry import STRATEGIES, TOPOLOGIES, default_text, parameters

DOCS = Path(__file__).resolve().parent
DEMO = ["examples/digits_softmax.py", "-n", "16", "--cluster", "edge", "--strategy", "all"]

RARE_COMMUNICATION = """A period of 100 sends a hundredth of all-reduce's bytes in its averages; the rest is what
evaluations fetch. The momentum of 0.9 is the paper's, which has more than a hundred rounds; here there are two dozen,
and less is better. Weft's default of 0.8 was chosen among 0.6 to 0.9 by the same test samples, with other seeds: the
figures are a little kind to it. Plain averages (`local_sgd`) are the thing to beat: on a task as easy as this one they
need no outer optimizer."""


def strategies_page() -> str:
    """Every strategy and topology with its parameters and its own words."""
    lines = ["# Strategies", "", "Written by `make docs` from the docstrings.", ""]
    for title, classes in (("", STRATEGIES), ("# Topologies", TOPOLOGIES)):
        lines += [title, ""] if title else []
        for name, cls in classes.items():
            told = [f"{p}={default_text(cls, p)}" if default_text(cls, p) else p for p in parameters(cls)]
            lines += [f"## {name}", "", f"`{name}({', '.join(told)})`" if told else f"`{name}`", ""]
            lines += ["```", inspect.getdoc(cls) or "", "```", ""]
    return "\n".join(lines)


def rare_communication_page() -> str:
    """What `make diloco` measured, as a table with a line for each strategy."""
    report = json.loads((DOCS.parent / "benchmarks/results/diloco.json").read_text())
    machine, runs = report["machine"], {}
    for row in report["rows"]:
        runs.setdefault(row["strategy"], []).append(row)
    num_seeds = len(runs["allreduce"])
    most = mean(row["bytes_sent"] for row in runs["allreduce"])
    lines = [
        "# What rare communication costs",
        "",
        "Written by `make docs` from benchmarks/results/diloco.json, which `make diloco` measures: "
        f"`{report['command']}` on MNIST,",
        f"{report['workers']} real workers over {report['transport'].upper()}, {num_seeds} seeds, "
        f"{runs['allreduce'][0]['steps']:,} steps each.",
        f"On {machine['date']}: {machine['cpu']}, {machine['cores']} cores.",
        "",
        "| strategy | accuracy (lowest to highest) | bytes sent | of all-reduce's |",
        "|---|---|---|---|",
    ]
    for strategy, rows in runs.items():
        accuracies, sent = [row["accuracy"] for row in rows], mean(row["bytes_sent"] for row in rows)
        lines.append(
            f"| `{strategy}` | {mean(accuracies):.2%} ({min(accuracies):.2%} to {max(accuracies):.2%}) "
            f"| {sent / 1e6:,.0f} MB | 1/{most / sent:.0f} |"
        )
    return "\n".join([*lines, "", RARE_COMMUNICATION, ""])


def main() -> None:
    (DOCS / "strategies.md").write_text(strategies_page())
    (DOCS / "rare-communication.md").write_text(rare_communication_page())
    command = [sys.executable, "-m", "weft", "simulate", *DEMO, "--plot", "docs/pictures/demo.png"]
    subprocess.run(command, check=True, cwd=DOCS.parent)


if __name__ == "__main__":
    main()

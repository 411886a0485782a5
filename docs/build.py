"""Writes the pages and pictures of the documentation that commands write.

python docs/build.py
"""

import inspect
import subprocess
import sys
from pathlib import Path

from weft.config.registry import STRATEGIES, TOPOLOGIES, default_text, parameters

DOCS = Path(__file__).resolve().parent
DEMO = ["examples/digits_softmax.py", "-n", "16", "--cluster", "edge", "--strategy", "all"]


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


def main() -> None:
    (DOCS / "strategies.md").write_text(strategies_page())
    command = [sys.executable, "-m", "weft", "simulate", *DEMO, "--plot", "docs/pictures/demo.png"]
    subprocess.run(command, check=True, cwd=DOCS.parent)


if __name__ == "__main__":
    main()

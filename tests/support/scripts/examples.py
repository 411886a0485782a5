"""Running an example of the repository in this process."""

import runpy
import sys
from pathlib import Path
from typing import Any

import torch

EXAMPLES = Path(__file__).parents[3] / "examples"


def run_example(name: str, *arguments: object) -> dict[str, Any]:
    """`python examples/NAME ARGUMENTS`, in this process; its names and values at the end."""
    script = str(EXAMPLES / name)
    argv, path = sys.argv, list(sys.path)
    sys.argv, sys.path[:0] = [script, *map(str, arguments)], [str(EXAMPLES)]
    try:
        with torch.random.fork_rng():
            return runpy.run_path(script, run_name="__main__")
    finally:
        sys.argv, sys.path[:] = argv, path

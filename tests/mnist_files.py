"""Small files like those of MNIST, and running an example on them in this process."""

import gzip
import runpy
import sys
from pathlib import Path
from typing import Any

import torch

EXAMPLES = Path(__file__).parents[1] / "examples"


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


def write_idx(path: Path, array: torch.Tensor) -> None:
    """As MNIST's files: two zeros, the type (8: bytes), the number of sides, the sides, the bytes."""
    sides = b"".join(side.to_bytes(4, "big") for side in array.shape)
    raw = bytes([0, 0, 8, array.ndim]) + sides + bytes(array.flatten().tolist())
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)


def write_mnist(folder: Path, ending: str = "", train: int = 40, test: int = 10) -> Path:
    """Some images to train on and to test with: image i has its only bright row at its label."""
    for part, count in (("train", train), ("t10k", test)):
        labels = torch.arange(count, dtype=torch.uint8) % 10
        images = torch.zeros(count, 28, 28, dtype=torch.uint8)
        images[torch.arange(count), labels.long()] = 255
        write_idx(folder / f"{part}-images-idx3-ubyte{ending}", images)
        write_idx(folder / f"{part}-labels-idx1-ubyte{ending}", labels)
    return folder

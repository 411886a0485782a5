"""Small files like those of MNIST, packed or not."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def write_idx(path: Path, array: NDArray[Any]) -> None:
    """As MNIST's files: two zeros, the type (8: bytes), the number of sides, the sides, the bytes."""
    sides = b"".join(side.to_bytes(4, "big") for side in array.shape)
    raw = bytes([0, 0, 8, array.ndim]) + sides + array.astype(np.uint8).tobytes()
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)


def write_pair(folder: Path, part: str, images: NDArray[Any], labels: NDArray[Any], ending: str = "") -> None:
    """The images and labels of one part of MNIST: train or t10k."""
    write_idx(folder / f"{part}-images-idx3-ubyte{ending}", images)
    write_idx(folder / f"{part}-labels-idx1-ubyte{ending}", labels)


def write_tiny_mnist(folder: Path, num_train: int = 64, num_test: int = 8) -> Path:
    """Images whose brightness tells their label, 0 or 1; those to test with are packed."""
    for part, number, ending in (("train", num_train, ""), ("t10k", num_test, ".gz")):
        labels = np.arange(number) % 2
        write_pair(folder, part, np.repeat(labels * 255, 28 * 28).reshape(number, 28, 28), labels, ending)
    return folder


def write_mnist(folder: Path, ending: str = "", train: int = 40, test: int = 10) -> Path:
    """Images of ten labels: each has its only bright row at its label."""
    for part, number in (("train", train), ("t10k", test)):
        labels = np.arange(number) % 10
        images = np.zeros((number, 28, 28))
        images[np.arange(number), labels] = 255
        write_pair(folder, part, images, labels, ending)
    return folder

"""A tiny MNIST: images of 28x28 whose brightness tells their label, in the four files of the real one."""

import gzip
from pathlib import Path

import numpy as np

NAMES = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")


def write_tiny_mnist(folder: Path, num_train: int = 64, num_test: int = 8) -> Path:
    """The folder, with its files; those of the test samples are packed."""
    for images, labels, number in ((*NAMES[:2], num_train), (*NAMES[2:], num_test)):
        y = (np.arange(number) % 2).astype(np.uint8)
        x = np.repeat(y * 255, 28 * 28).reshape(number, 28, 28)
        for name, array in ((images, x), (labels, y)):
            sides = b"".join(side.to_bytes(4, "big") for side in array.shape)
            raw = bytes([0, 0, 8, array.ndim]) + sides + array.tobytes()
            path = folder / f"{name}-ubyte"
            if number == num_test:
                path.with_name(path.name + ".gz").write_bytes(gzip.compress(raw))
            else:
                path.write_bytes(raw)
    return folder

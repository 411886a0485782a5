"""Reads MNIST for the other examples, and says what it finds.

python examples/mnist_data.py

MNIST is four files (train-images-idx3-ubyte.gz and so on, unpacked or not) in the folder data/mnist or another one.
Without them it is the digits of scikit-learn, scaled up to the same size.
"""

import gzip
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import nn

NAMES = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
USUAL = Path("data/mnist")


def read_idx(path):
    """The array in an IDX file: its number of sides in byte 3, then the sides, then bytes."""
    packed = path.with_name(path.name + ".gz")
    raw = gzip.decompress(packed.read_bytes()) if packed.is_file() else path.read_bytes()
    sides = [int.from_bytes(raw[4 * i : 4 * i + 4], "big") for i in range(1, raw[3] + 1)]
    return torch.frombuffer(bytearray(raw), dtype=torch.uint8, offset=4 + 4 * len(sides)).view(sides)


def load(folder):
    """Images of 28x28 bytes and labels, to train on and to test with; `folder` is None or the path of MNIST."""
    if folder or USUAL.is_dir():
        x, y, x_test, y_test = (read_idx(Path(folder or USUAL, f"{name}-ubyte")) for name in NAMES)
        return x, y.long(), x_test, y_test.long()
    print(f"no MNIST in {USUAL}: training on the digits of scikit-learn", flush=True)
    x, y = load_digits(return_X_y=True)
    x, y = torch.tensor(x, dtype=torch.float32).view(-1, 1, 8, 8), torch.tensor(y)
    x = (nn.functional.interpolate(x, size=(28, 28), mode="bilinear").squeeze(1) * 255 / 16).byte()
    test = torch.arange(len(x)) % 5 == 0
    return x[~test], y[~test], x[test], y[test]


if __name__ == "__main__":
    print(*(f"{len(part):,}" for part in load(None)[::2]), sep=" images to train on, ", end=" to test with\n")

"""Softmax regression on the digits of scikit-learn, in numpy.

python examples/digits_softmax.py
weft simulate examples/digits_softmax.py -n 16 --strategy gossip --cluster edge
"""

import argparse

import numpy as np
from sklearn.datasets import load_digits

import weft


def load():
    """Pixels in [0, 1] with a one for the bias, and labels; every fifth row is for testing."""
    x, y = load_digits(return_X_y=True)
    x = np.hstack([x / 16, np.ones((len(x), 1))])
    test = np.arange(len(x)) % 5 == 0
    return x[~test], y[~test], x[test], y[test]


def probabilities(x, w):
    scores = x @ w
    scores -= scores.max(axis=1, keepdims=True)
    scores = np.exp(scores)
    return scores / scores.sum(axis=1, keepdims=True)


parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=10)
options = parser.parse_args()
x, y, x_test, y_test = weft.once(load)
w = np.zeros((65, 10))
worker = weft.join(arrays={"w": w}, optimizer=weft.SGD(lr=0.5))
worker.tune(lr=(0.05, 5.0))  # for --strategy population


def accuracy():
    return float((probabilities(x_test, w).argmax(axis=1) == y_test).mean())


for epoch in worker.epochs(options.epochs):
    for rows in worker.share(len(x), batch_size=8):
        p = probabilities(x[rows], w)
        loss = -np.log(p[np.arange(len(rows)), y[rows]]).mean()
        p[np.arange(len(rows)), y[rows]] -= 1
        worker.step({"w": x[rows].T @ p / len(rows)}, samples=len(rows), loss=loss)
    worker.report(accuracy=accuracy)

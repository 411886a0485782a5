"""A grid with borders."""

from dataclasses import dataclass
from typing import ClassVar

from weft.topologies.grid import Grid


@dataclass(frozen=True, init=False)
class Mesh(Grid):
    """A torus without wrap-around: Mesh(), Mesh(4, 4), Mesh(2, 2, 2).

    Places at the border have fewer neighbours, so uniform weights would bias the mean: weights.py
    takes Metropolis-Hastings. A prime number of places is a line. Fits any number.
    """

    wraps: ClassVar[bool] = False

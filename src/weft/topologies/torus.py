"""A grid whose opposite borders are joined."""

from dataclasses import dataclass
from typing import ClassVar

from weft.topologies.grid import Grid


@dataclass(frozen=True, init=False)
class Torus(Grid):
    """Torus() is 2-D, as square as the number of places allows; Torus(2, 4) and Torus(2, 2, 2) are given.

    Every place has two neighbours along each side of 3 or more, one along a side of 2. A prime
    number of places is a ring. Fits any number; mixing slows with size (spectrum.py shows the gap).
    """

    wraps: ClassVar[bool] = True
    prime_shape: ClassVar[str] = "a ring"

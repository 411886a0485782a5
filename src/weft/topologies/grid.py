"""What torus and mesh share: the sides of a grid, and how they fit a number of places."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from weft.core.errors import ConfigError
from weft.core.graph import Graph
from weft.topologies.topology import Topology, written


@dataclass(frozen=True, init=False)
class Grid(Topology):
    """Places in rows (row-major): the last side is the one whose neighbours differ by 1.

    No sides given: two, as equal as the number of places allows (a prime has only 1 x N).
    """

    sides: tuple[int, ...]
    wraps: ClassVar[bool] = False
    prime_shape: ClassVar[str] = "a line"

    def __init__(self, *sides: int) -> None:
        object.__setattr__(self, "sides", sides)
        for side in sides:
            if not isinstance(side, int) or side < 1:
                example = written(type(self).__name__, ("2", "4"))
                raise ConfigError(
                    f"topology '{self}' has a side of {side!r}, but a side is 1, 2, 3 or more places.\n"
                    f"  Use for example '{example}', or '{self._bare}' to let Weft choose the sides."
                )

    def build(self, num_places: int) -> Graph:
        sides = self.sides or near_equal_sides(num_places, 2)
        if prod(sides) != num_places:
            raise ConfigError(self._misfit(num_places))
        return Graph.undirected(num_places, grid_edges(sides, self.wraps), transitive=self.wraps)

    def __str__(self) -> str:
        return written(type(self).__name__, map(str, self.sides))

    @property
    def _bare(self) -> str:
        return written(type(self).__name__, ())

    def _misfit(self, num_places: int) -> str:
        has = f"topology '{self}' has {prod(self.sides)} places, but there are {num_places} workers.\n"
        fitting = near_equal_sides(num_places, len(self.sides))
        if len(fitting) > 1 and fitting[-1] == num_places:
            return has + (
                f"  {num_places} is prime: use {prod(self.sides)} workers, "
                f"or '{self._bare}', which is then {self.prime_shape} of {num_places}."
            )
        return has + f"  Use '{type(self)(*fitting)}', or '{self._bare}' to let Weft choose the sides."


def near_equal_sides(num_places: int, num_sides: int) -> tuple[int, ...]:
    """`num_places` as a product of `num_sides` sides, as equal as divisors allow, the shortest first."""
    sides: list[int] = []
    for num_left in range(num_sides, 0, -1):
        side = max(s for s in range(1, num_places + 1) if num_places % s == 0 and (s**num_left <= num_places))
        sides.append(side)
        num_places //= side
    return tuple(sides)


def grid_edges(sides: tuple[int, ...], wraps: bool) -> Iterator[tuple[int, int]]:
    """Every place with the next one along every side; the last with the first when the side wraps."""
    stride = prod(sides)
    num_places = stride
    for side in sides:
        stride //= side
        for place in range(num_places):
            if place // stride % side < side - 1:
                yield place, place + stride
            elif wraps:
                yield place, place - (side - 1) * stride

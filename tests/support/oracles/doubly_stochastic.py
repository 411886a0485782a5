"""Whether mixing weights keep what they mix: doubly stochastic matrices."""

from collections.abc import Sequence
from math import fsum


def is_doubly_stochastic(matrix: Sequence[Sequence[float]], tolerance: float = 1e-12) -> bool:
    """No weight is negative, and every row and every column adds up to 1."""
    square = all(len(row) == len(matrix) for row in matrix)
    return square and all(
        min(line) >= -tolerance and abs(fsum(line) - 1.0) <= tolerance
        for lines in (matrix, zip(*matrix, strict=True))
        for line in lines
    )

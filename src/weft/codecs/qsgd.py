"""QSGD: numbers become a few levels, by chance, so that the mean is right."""

from dataclasses import dataclass

from weft.codecs.ranges import check_block, check_whole
from weft.codecs.rounding import Rounding


@dataclass(frozen=True)
class QSGD(Rounding):
    """Stochastic levels (Alistarh et al. 2017), of the block's *maximum* norm rather than its 2-norm.

    Each number of a block becomes one of 2 levels + 1 multiples of largest / levels, the two nearest by chance, so that
    the mean of many draws is the number. A code has 2 bits for 1 level, 4 for up to 7, 8 for up to 127.
    """

    levels: int = 7
    block: int = 512

    def __post_init__(self) -> None:
        check_whole("qsgd", "levels", self.levels, 1, 127, usual=7)
        check_block("qsgd", self.block, usual=512)

    @property
    def num_levels(self) -> int:
        return self.levels

    @property
    def block_size(self) -> int:
        return self.block

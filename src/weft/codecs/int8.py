"""Whole numbers of 8 bits, rounded by chance."""

from dataclasses import dataclass

from weft.codecs.ranges import check_block
from weft.codecs.rounding import Rounding


@dataclass(frozen=True)
class Int8(Rounding):
    """Stochastic rounding (Gupta et al. 2015) to 255 levels, -127 to 127 times largest / 127 of each block."""

    block: int = 512

    def __post_init__(self) -> None:
        check_block("int8", self.block, usual=512)

    @property
    def num_levels(self) -> int:
        return 127

    @property
    def block_size(self) -> int:
        return self.block

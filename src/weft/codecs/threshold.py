"""Only numbers of some size, however many there are."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from weft.codecs.codec import Array, Form, Turn
from weft.codecs.picking import gather, sizes_of
from weft.codecs.ranges import check_above_zero
from weft.codecs.sparse import Picked, Sparsifier, take


@dataclass(frozen=True)
class Threshold(Sparsifier):
    """Numbers whose absolute value is t or more (Strom 2015), as they are; smaller ones add up until they are.

    The length of messages follows the gradients: choose t for each model.
    """

    t: float = 1e-3
    varies: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_above_zero("threshold", "t", self.t, usual=0.001)

    def most(self, form: Form, clock: int) -> int:
        return form.num_elements

    def pick(self, values: Array, residual: Array | None, form: Form, turn: Turn, given: Array | None) -> Picked:
        gathered, _ = gather(values, residual, form)
        least = np.array(self.t, form.dtype).view(f"i{form.itemsize}")
        return take(gathered.total, residual, np.flatnonzero(sizes_of(gathered) >= least), gathered.bad)

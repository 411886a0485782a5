"""1-bit SGD: signs, and two means for each block."""

from dataclasses import dataclass

import numpy as np

from weft.codecs.codec import Form, Payload
from weft.codecs.ranges import check_block
from weft.codecs.signs import Signs
from weft.core.errors import CodecError


@dataclass(frozen=True)
class OneBit(Signs):
    """One bit for each number and two means for each block (Seide et al. 2014).

    A number from 0 on becomes the mean of those of its block, one below 0 the mean of those. What that leaves
    out is kept and said later; feedback=False forgets it, and then training suffers: it is there to show that.
    32:1, plus the means.
    """

    block: int = 2048
    feedback: bool = True

    def __post_init__(self) -> None:
        check_block("onebit", self.block, usual=2048)

    @property
    def wants_feedback(self) -> bool:
        return self.feedback

    @property
    def block_size(self) -> int:
        return self.block

    def check(self, payload: Payload, form: Form, clock: int = 0) -> None:
        super().check(payload, form, clock)
        means = self._parts(payload, form)[0]
        wrong = np.flatnonzero(~np.isfinite(means))
        if wrong.size:
            raise CodecError(
                f"a mean of block {wrong[0] // 2} is {means[wrong[0]]}, but it is finite: the payload is broken, "
                "or of another codec."
            )

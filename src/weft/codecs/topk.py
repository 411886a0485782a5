"""The largest numbers, exactly as many as were asked for."""

from dataclasses import dataclass

from weft.codecs.codec import Array, Form, Turn
from weft.codecs.picking import gather, take_of_blocks
from weft.codecs.ranges import check_fraction, check_whole
from weft.codecs.sparse import Picked, Sparsifier, kept, take
from weft.core.errors import ConfigError

USUAL = 0.01
"""The fraction that is kept unless told otherwise."""


@dataclass(frozen=True)
class TopK(Sparsifier):
    """The largest of all numbers: a `fraction` of them, at least one; ties go to the first. What is left is said later.

    With k_of_block, that many of each block instead (SparCML, Renggli et al. 2018): topk(k_of_block=16, block=512).
    """

    fraction: float = USUAL
    k_of_block: int | None = None
    block: int = 512

    def __post_init__(self) -> None:
        check_fraction("topk", self.fraction, usual=USUAL)
        check_whole("topk", "block", self.block, 1, 65536, usual=512)
        if self.k_of_block is None:
            return
        if self.fraction != USUAL:
            raise ConfigError(
                f"'topk' got both fraction={self.fraction} and k_of_block={self.k_of_block}, but wants one.\n"
                f"  Use 'topk({self.fraction})' or 'topk(k_of_block={self.k_of_block}, block={self.block})'."
            )
        if not 1 <= self.k_of_block <= self.block:
            raise ConfigError(
                f"k_of_block of 'topk' is {self.k_of_block}, but it is from 1 to block, which is {self.block}.\n"
                "  Use 'topk(k_of_block=16, block=512)'."
            )

    def most(self, form: Form, clock: int) -> int:
        if self.k_of_block is None:
            return kept(self.fraction, form)
        whole, rest = divmod(form.num_elements, self.block)
        return whole * self.k_of_block + min(rest, self.k_of_block)

    def pick(self, values: Array, residual: Array | None, form: Form, turn: Turn, given: Array | None) -> Picked:
        if self.k_of_block is not None:
            return take_of_blocks(gather(values, residual, form)[0], residual, form, self.k_of_block, self.block)
        gathered, places = gather(values, residual, form, largest=kept(self.fraction, form))
        return take(gathered.total, residual, places, gathered.bad)

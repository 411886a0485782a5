"""Numbers as float16."""

from dataclasses import dataclass
from typing import Any, ClassVar

from weft.codecs.casts import HALF, Cast
from weft.codecs.codec import ANYTHING
from weft.core.names import Carries

INFINITY = 0x7C00


@dataclass(frozen=True)
class FP16(Cast):
    """16 bits for each number, right to 11 binary digits.

    Each block of 4,096 numbers is multiplied by a power of two that brings its largest between 2^11 and 2^15, as
    loss scaling does: small gradients keep their digits, large parameters do not become infinite. If the power of
    the block before does that, it is taken again.
    """

    carries: ClassVar[frozenset[Carries]] = ANYTHING
    kind: ClassVar[int] = HALF

    @property
    def wants_feedback(self) -> bool:
        return False

    def _are_numbers(self, doubles: Any, octets: Any) -> bool:
        return bool(((doubles & INFINITY) != INFINITY).all())

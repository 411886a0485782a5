"""Numbers as bfloat16."""

from dataclasses import dataclass
from typing import Any, ClassVar

from weft.codecs.casts import BRAIN, Cast
from weft.codecs.codec import ANYTHING
from weft.core.names import Carries

INFINITY = 0x7F80


@dataclass(frozen=True)
class BF16(Cast):
    """16 bits for each number, right to 8 binary digits, in the range of float32: beyond it, the largest is taken."""

    carries: ClassVar[frozenset[Carries]] = ANYTHING
    kind: ClassVar[int] = BRAIN
    has_powers: ClassVar[bool] = False

    @property
    def wants_feedback(self) -> bool:
        return False

    def _are_numbers(self, doubles: Any, octets: Any) -> bool:
        return bool(((doubles & INFINITY) != INFINITY).all())

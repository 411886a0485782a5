"""Numbers of 8 bits."""

from dataclasses import dataclass
from typing import Any, ClassVar

from weft.codecs.casts import EIGHT, Cast

NOT_A_NUMBER = 0x7F


@dataclass(frozen=True)
class FP8(Cast):
    """8 bits for each number (e4m3), right to 4 binary digits: a sign, 4 bits of exponent, 3 of mantissa.

    Each block of 512 numbers is multiplied by a power of two that brings its largest between 224 and 448, where the
    format ends. It leaves much out, so it wants feedback.
    """

    kind: ClassVar[int] = EIGHT
    block: ClassVar[int] = 512
    code_size: ClassVar[int] = 1

    def _are_numbers(self, doubles: Any, octets: Any) -> bool:
        return bool(((octets & NOT_A_NUMBER) != NOT_A_NUMBER).all())

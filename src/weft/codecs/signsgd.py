"""signSGD: nothing but signs, which are put to a vote."""

from dataclasses import dataclass
from typing import ClassVar

from weft.codecs.signs import Signs
from weft.core.names import Carries

BLOCK = 2048


@dataclass(frozen=True)
class SignSGD(Signs):
    """One bit for each number and no scale (Bernstein et al. 2018, algorithm 3): it stands for 1 or -1; 0 counts as 1.

    The sum of the workers' signs is their vote. The length of a step is the optimizer's alone.
    """

    carries: ClassVar[frozenset[Carries]] = frozenset({Carries.GRADIENT})
    votes: ClassVar[bool] = True
    has_means: ClassVar[bool] = False

    @property
    def wants_feedback(self) -> bool:
        return False

    @property
    def block_size(self) -> int:
        return BLOCK

"""Multiplies an optimizer's learning rates while drivers have their say; the script and its scheduler see their own."""

from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from typing import Any

from weft.core.pace import LearningRatePace

LR = "lr"


@contextmanager
def paced(pace: LearningRatePace, step: int, groups: Sequence[MutableMapping[str, Any]]) -> Iterator[None]:
    """The learning rates of a step meanwhile; what somebody else sets in the meantime stays."""
    factor = pace.factor(step)
    if factor == 1:
        yield
        return
    before = [(group, group[LR]) for group in groups if LR in group]
    for group, own in before:
        group[LR] = own * factor
    try:
        yield
    finally:
        for group, own in before:
            if group[LR] == own * factor:
                group[LR] = own

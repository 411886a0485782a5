"""Multiplies an optimizer's learning rates while a step is made; the script and its scheduler see their own rates."""

from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from typing import Any

from weft.core.pace import LearningRatePace

LR = "lr"


@contextmanager
def paced(pace: LearningRatePace, step: int, groups: Sequence[MutableMapping[str, Any]]) -> Iterator[None]:
    """A context in which the groups' learning rates are multiplied by the pace of `step`.

    At its end the old rates are restored, except where the rate was changed meanwhile.
    """
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

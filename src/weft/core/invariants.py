"""An invariant that a strategy promises: the name of the check that audits it, and what that check is told.

Strategies are audited by `weft fuzz`, which they do not know: they name checks, and fuzz/promises.py finds them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum


class Codecs(IntEnum):
    """With which codecs an invariant still holds; each includes those before it."""

    NONE = 0
    """Only while nothing is coded."""
    EXACT = 1
    """Also with a codec that sends numbers as they are, now or later: topk, randomk, threshold, dgc."""
    ANY = 2
    """Also with a codec that changes numbers: qsgd, onebit, fp8."""


@dataclass(frozen=True)
class Invariant:
    """What must hold in every run of a recipe, whatever goes wrong."""

    check: str
    """'module.function' in src/weft/fuzz/checks/."""
    told: Mapping[str, object]
    """The check's parameters besides the evidence."""
    codecs: Codecs = Codecs.NONE


def holds(check: str, codecs: Codecs = Codecs.NONE, **told: object) -> Invariant:
    """`holds("staleness.stays_within", Codecs.ANY, bound=3)`."""
    return Invariant(check, told, codecs)

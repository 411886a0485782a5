"""Collectives lowered to messages: any strategy runs over any of them."""

from weft.collectives.butterfly import butterfly
from weft.collectives.halving_doubling import halving_doubling
from weft.collectives.hierarchical import hierarchical
from weft.collectives.lowering import Lowered
from weft.collectives.partitioned_linear import partitioned_linear
from weft.collectives.ring import ring
from weft.collectives.tree import tree
from weft.core.schedule import Flat

__all__ = [
    "Flat",
    "Lowered",
    "butterfly",
    "halving_doubling",
    "hierarchical",
    "partitioned_linear",
    "ring",
    "tree",
]

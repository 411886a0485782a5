"""Collectives lowered to messages: any strategy runs over any of them."""

from weft.collectives.butterfly import butterfly
from weft.collectives.halving_doubling import halving_doubling
from weft.collectives.lowering import Lowered
from weft.collectives.ring import ring
from weft.collectives.tree import tree

__all__ = ["Lowered", "butterfly", "halving_doubling", "ring", "tree"]

"""Connections that broke between two workers whose processes live: neither hears the other, so one is given up."""

from collections import Counter
from collections.abc import Collection

from weft.engines.real import timeouts

Pair = tuple[int, int]


class BrokenLinks:
    """The pairs of members whose connection broke, until one of the two is lost. Mostly one is dead, and that is known
    a moment later."""

    def __init__(self) -> None:
        self._since_s: dict[Pair, float] = {}

    def tell(self, rank: int, other: int, now_s: float) -> None:
        """Worker `rank` says that its connection to `other` broke; `other` may say the same."""
        self._since_s.setdefault((min(rank, other), max(rank, other)), now_s)

    def lose(self, rank: int) -> None:
        """Worker `rank` is lost: its connections are nobody's any more."""
        self._since_s = {pair: since_s for pair, since_s in self._since_s.items() if rank not in pair}

    def to_give_up(self, living: Collection[int], now_s: float) -> dict[int, str]:
        """Workers without which the connections of all others are whole, and why; none while one of a pair may turn out
        dead.

        Of a pair that is the one that more connections broke to, as when its network failed; else the higher rank.
        """
        broken = {pair: since_s for pair, since_s in self._since_s.items() if set(pair) <= set(living)}
        given_up: dict[int, str] = {}
        while due := [pair for pair, since_s in broken.items() if now_s - since_s > timeouts.LINK_BROKEN_S]:
            num_broken = Counter(rank for pair in broken for rank in pair)
            worst = max({rank for pair in due for rank in pair}, key=lambda rank: (num_broken[rank], rank))
            others = sorted(sum(pair) - worst for pair in broken if worst in pair)
            given_up[worst] = f"its connection to {' and '.join(f'worker {other}' for other in others)} broke"
            broken = {pair: since_s for pair, since_s in broken.items() if worst not in pair}
        return given_up

"""Asynchronous SGD on a parameter server: nobody waits for anybody."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from weft.core.strategy import Entry
from weft.strategies.ssp import StaleSync


@dataclass(frozen=True)
class AsyncSGD(StaleSync):
    """Asynchronous SGD on a parameter server (Agarwal & Duchi, NIPS 2011): `ssp` without a bound.

    Every push is applied when it comes, however old the parameters are on which it was computed, and answered at
    once. No worker waits for another; the price is that a gradient is about as many versions old as there are workers.
    `late` can make up for that. A newcomer gets the parameters from the servers, as in `ssp`.
    """

    entry = Entry(
        "asgd",
        "asynchronous SGD (Agarwal & Duchi 2011)",
        "every gradient is applied when it comes and answered at once; `late` rejects, damps or compensates old ones",
    )

    staleness: int | None = None

    @classmethod
    def example_parameters(cls, rng: Random) -> Mapping[str, object]:
        return {"servers": rng.randint(1, 3)}

"""For tests of strategies, Weft's own and others': peers told by events, small simulated worlds, and the fuzzer.

`import weft` does not import it.
"""

from weft.testing.campaigns import fuzz, story
from weft.testing.peers import (
    G0,
    G1,
    IN0,
    IN1,
    ONE,
    P0,
    P1,
    TWO,
    WITH_STATE,
    bodiless,
    is_plain,
    members,
    peer_of,
    received,
    refusal,
    returned,
    tell,
)
from weft.testing.worlds import Ran, pull, simulate_arrays, taking, training

__all__ = [
    "G0",
    "G1",
    "IN0",
    "IN1",
    "ONE",
    "P0",
    "P1",
    "TWO",
    "WITH_STATE",
    "Ran",
    "bodiless",
    "fuzz",
    "is_plain",
    "members",
    "peer_of",
    "pull",
    "received",
    "refusal",
    "returned",
    "simulate_arrays",
    "story",
    "taking",
    "tell",
    "training",
]

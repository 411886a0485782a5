"""Strategies: one published method per file, each a pure protocol; what several are built of is in parts/.

`__all__` is the only list of them: the registry, `weft.__all__`, the fuzzer, `weft strategies`, the README's table and
docs/strategies.md follow it, in its order.
"""

from weft.strategies.allreduce import AllReduce
from weft.strategies.asgd import AsyncSGD
from weft.strategies.async_gossip import AsyncGossip
from weft.strategies.bmuf import BMUF
from weft.strategies.dc_asgd import DelayCompensated
from weft.strategies.diloco import DiLoCo
from weft.strategies.downpour import Downpour
from weft.strategies.easgd import EASGD
from weft.strategies.ensemble import Ensemble
from weft.strategies.gossip import Gossip
from weft.strategies.gossip_grad import GossipGrad
from weft.strategies.hogwild import Hogwild
from weft.strategies.local_sgd import LocalSGD
from weft.strategies.neighbours import Neighbours
from weft.strategies.population import Population
from weft.strategies.push_sum import PushSum
from weft.strategies.quorum import Quorum
from weft.strategies.sandblaster import Sandblaster
from weft.strategies.slowmo import SlowMo
from weft.strategies.ssp import ParameterServer, StaleSync

__all__ = [  # noqa: RUF022 - by families, as listings show them
    "AllReduce",
    "ParameterServer",
    "StaleSync",
    "AsyncSGD",
    "DelayCompensated",
    "Quorum",
    "Downpour",
    "Neighbours",
    "Gossip",
    "AsyncGossip",
    "PushSum",
    "GossipGrad",
    "LocalSGD",
    "DiLoCo",
    "BMUF",
    "SlowMo",
    "EASGD",
    "Hogwild",
    "Ensemble",
    "Sandblaster",
    "Population",
]

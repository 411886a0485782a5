"""Strategies: one published method per file, each a pure protocol."""

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

__all__ = [
    "BMUF",
    "EASGD",
    "AllReduce",
    "AsyncGossip",
    "AsyncSGD",
    "DelayCompensated",
    "DiLoCo",
    "Downpour",
    "Ensemble",
    "Gossip",
    "GossipGrad",
    "Hogwild",
    "LocalSGD",
    "Neighbours",
    "ParameterServer",
    "Population",
    "PushSum",
    "Quorum",
    "Sandblaster",
    "SlowMo",
    "StaleSync",
]

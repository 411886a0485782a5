"""Weft: train one model on many workers, in whatever order, topology and precision suits the machines.

Importing weft imports no framework; `weft.join` brings in the one that the script uses.
"""

from weft.adapters.joining import join, once
from weft.core.errors import (
    CheckpointError,
    CodecError,
    ConfigError,
    Deadlock,
    IllegalAction,
    NodeLost,
    ProtocolError,
    TransportError,
    UnexpectedMessage,
    WeftError,
)
from weft.core.rules import SGD, AdaGrad, Adam, Momentum
from weft.strategies import (
    AllReduce,
    AsyncGossip,
    AsyncSGD,
    DelayCompensated,
    Downpour,
    Ensemble,
    Gossip,
    GossipGrad,
    Hogwild,
    LocalSGD,
    Neighbours,
    ParameterServer,
    Population,
    PushSum,
    Quorum,
    Sandblaster,
    StaleSync,
)

__version__ = "0.1.0"

__all__ = [
    "SGD",
    "AdaGrad",
    "Adam",
    "AllReduce",
    "AsyncGossip",
    "AsyncSGD",
    "CheckpointError",
    "CodecError",
    "ConfigError",
    "Deadlock",
    "DelayCompensated",
    "Downpour",
    "Ensemble",
    "Gossip",
    "GossipGrad",
    "Hogwild",
    "IllegalAction",
    "LocalSGD",
    "Momentum",
    "Neighbours",
    "NodeLost",
    "ParameterServer",
    "Population",
    "ProtocolError",
    "PushSum",
    "Quorum",
    "Sandblaster",
    "StaleSync",
    "TransportError",
    "UnexpectedMessage",
    "WeftError",
    "join",
    "once",
]

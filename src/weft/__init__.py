"""Weft: train one model on many workers, in whatever order, topology and precision suits the machines.

Importing weft imports no framework; `weft.join` brings in the one that the script uses.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from weft import strategies
from weft.adapters.join import join, once
from weft.core.errors import (
    CheckpointError,
    CodecError,
    ConfigError,
    Deadlock,
    IllegalAction,
    IllegalCall,
    NodeLost,
    ProtocolError,
    TransportError,
    UnexpectedMessage,
    WeftError,
)
from weft.core.rules import SGD, AdaGrad, Adam, Momentum
from weft.core.seat import Seat, join_by
from weft.strategies import *  # noqa: F403 - one list of methods is enough: strategies.__all__

if TYPE_CHECKING:
    from weft.codecs import (
        BF16,
        DGC,
        FP8,
        FP16,
        QSGD,
        Factors,
        Int8,
        OneBit,
        PowerSGD,
        RandomK,
        SignSGD,
        TernGrad,
        Threshold,
        TopK,
    )
    from weft.engines.run_api import run, simulate
    from weft.engines.run_outcome import RunOutcome as Outcome

__version__ = "0.1.0"

__all__ = [
    "BF16",
    "DGC",
    "FP8",
    "FP16",
    "QSGD",
    "SGD",
    "AdaGrad",
    "Adam",
    "CheckpointError",
    "CodecError",
    "ConfigError",
    "Deadlock",
    "Factors",
    "IllegalAction",
    "IllegalCall",
    "Int8",
    "Momentum",
    "NodeLost",
    "OneBit",
    "Outcome",
    "PowerSGD",
    "ProtocolError",
    "RandomK",
    "SignSGD",
    "TernGrad",
    "Threshold",
    "TopK",
    "TransportError",
    "UnexpectedMessage",
    "WeftError",
    "join",
    "once",
    "run",
    "simulate",
]
__all__ += strategies.__all__

_STARTING = {
    "Outcome": ("weft.engines.run_outcome", "RunOutcome"),
    "run": ("weft.engines.run_api", "run"),
    "simulate": ("weft.engines.run_api", "simulate"),
}


def _find_seat() -> Seat | None:
    """A seat for a script that another engine than Weft's own has started, if one has."""
    from weft.engines.hosts.join_hook import find_seat

    return find_seat()


join_by(_find_seat)


def __getattr__(name: str) -> Any:
    """Codecs, and what starts runs, are imported when they are named: scripts without them need not wait for it."""
    if name not in __all__:
        raise AttributeError(f"module 'weft' has no attribute '{name}'")
    if name in _STARTING:
        module, inner = _STARTING[name]
        return getattr(import_module(module), inner)
    from weft import codecs

    return getattr(codecs, name)

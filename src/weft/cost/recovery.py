"""What a lost worker costs: the times that pass until the others go on, and until a new one takes its place."""

from dataclasses import dataclass


@dataclass(frozen=True)
class RecoveryTimes:
    """The times of one loss and one replacement, for simulations: [recovery] of a cluster file.

    The defaults are of the network of `weft bench recovery` (4 workers on 2 cores). Over 40 kills each, with these it
    foretold the goodput of allreduce (99.0 %) and of async_gossip (99.1 %) to a tenth of a point. Scripts that load
    much before their loop have a `start_s` of their own.
    """

    notice_s: float = 0.02
    """From a death until the others are told a view without the dead: a pidfd, then decision 0041's freeze and cut,
    for which that record has 5 to 20 ms."""
    start_s: float = 0.1
    """From the fork of a new process until it asks to come in: its script's beginning, in seconds of a core. Five new
    processes had used 0.05 s of CPU when they had joined, and 0.10 to 0.13 s when they took their first batch."""
    rest_s: float = 0.08
    """How long all stand still for a newcomer, after the slowest has ended its step: decision 0042, 2 to 5. Medians of
    40 joins each, the step before included, were 0.11 s (allreduce) and 0.06 s (async_gossip)."""

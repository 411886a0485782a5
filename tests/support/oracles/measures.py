"""What tests measure in a recording of events and actions, independent of any peer's own bookkeeping."""

from collections.abc import Iterator

from weft.core.actions import Compute
from weft.core.events import Received
from weft.core.recorder import Recording
from weft.core.world import World


def leads(recording: Recording, world: World) -> Iterator[int]:
    """By how many steps each Compute(step) is ahead of the slowest push that has arrived at its server.

    A worker that starts step t has a lead of t minus the number of steps that the slowest worker has
    pushed, over all buckets.
    """
    arrived = {(worker, bucket): 0 for worker in world.workers for bucket in world.trainable}
    for _, node, event, actions in recording.entries:
        if isinstance(event, Received) and event.kind == "push" and node in world.servers:
            arrived[event.source, event.bucket] = event.clock + 1
        for action in actions:
            if isinstance(action, Compute):
                yield action.step - min(arrived.values())


def lead_max(recording: Recording, world: World) -> int:
    """The longest lead of a run."""
    return max(leads(recording, world))

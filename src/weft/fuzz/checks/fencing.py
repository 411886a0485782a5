"""7. Fencing: one committing membership for each view; a zombie with an old view can never write."""

from collections.abc import Iterator

import numpy as np

from weft.core.events import GradientReady, MembersChanged, Received, Started
from weft.core.names import NodeId
from weft.fuzz.evidence import Evidence, Violation


def hears_members_only(evidence: Evidence) -> Iterator[Violation]:
    """Nobody hears from a node that is not of its view, and a view has one membership."""
    views: dict[int, tuple[NodeId, ...]] = {}
    members: dict[NodeId, tuple[NodeId, ...]] = {}
    everybody = tuple(range(evidence.world.num_nodes))
    for now_ns, node, event, _ in evidence.recording.entries:
        if isinstance(event, Started):
            members[node] = everybody
        elif isinstance(event, MembersChanged):
            members[node] = event.members
            if views.setdefault(event.view, event.members) != event.members:
                yield Violation(7, f"view {event.view} has two memberships: {views[event.view]} and {event.members}")
        elif isinstance(event, Received) and event.source not in members[node]:
            yield Violation(
                7,
                f"{evidence.world.name(node)} received '{event.kind}' from {evidence.world.name(event.source)}, "
                f"which is not of its view, at {now_ns / 1e9:.6f} s",
            )


def takes_nothing_from_the_fenced(evidence: Evidence) -> Iterator[Violation]:
    """What a worker computed after all members had heard that it was out is in no member's replica.

    A gradient is computed when its first bucket is ready: it may be reduced before its step is told. Where all write
    one memory nobody can be kept out of it but by ending its process.
    """
    if evidence.recipe.shares_replica:
        return
    heard_ns = {event.view: now for now, _, event, _ in evidence.recording.entries if isinstance(event, MembersChanged)}
    known_ns = {life: heard_ns.get(after.number, after.since_ns) for life, after in evidence.ends}
    ready_ns: dict[tuple[int, int], int] = {}
    for (now_ns, _, event, _), life in zip(evidence.recording.entries, evidence.simulation.lives):
        if isinstance(event, GradientReady):
            ready_ns.setdefault((life, event.step), now_ns)
    late = [key for key, at_ns in ready_ns.items() if known_ns.get(key[0], at_ns) < at_ns]
    places = [evidence.scenario.book.place(*key) for key in late]
    for node in evidence.views[-1].members:
        for bucket in evidence.world.trainable:
            if np.any(evidence.final(node)[bucket][places]):
                yield Violation(7, f"{evidence.world.name(node)} holds a gradient of a worker that was already out")
                return

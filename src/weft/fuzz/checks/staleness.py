"""3. Staleness never exceeds its bound; 0 for sync."""

from collections.abc import Callable, Iterator

from weft.core.actions import Compute
from weft.core.events import Event, GradientReady, MembersChanged, Started, StepFinished
from weft.core.names import NodeId
from weft.fuzz.evidence import Evidence, Violation


def stays_within(evidence: Evidence, bound: int) -> Iterator[Violation]:
    """A worker begins step t when every member has finished step t - 1 - bound."""
    return _leads(evidence, bound, lambda event: type(event) is StepFinished)


def stays_in_step(evidence: Evidence) -> Iterator[Violation]:
    """A worker begins step t when every member has computed its gradient of step t - 1."""
    return _leads(evidence, 0, lambda event: type(event) is GradientReady)


def _leads(evidence: Evidence, bound: int, is_counted: Callable[[Event], bool]) -> Iterator[Violation]:
    num_done = dict.fromkeys(evidence.world.workers, 0)
    begun = set(evidence.world.workers)
    members: dict[NodeId, tuple[NodeId, ...]] = {}
    for (now_ns, node, event, actions), life in zip(evidence.recording.entries, evidence.simulation.lives):
        if isinstance(event, Started):
            members[node] = evidence.world.workers
        elif isinstance(event, MembersChanged):
            members[node] = event.members
        elif isinstance(event, GradientReady | StepFinished) and is_counted(event):
            num_done[node] = event.step + 1
        for action in actions:
            if type(action) is Compute and life not in begun:  # a newcomer begins where the others are
                begun.add(life)
                num_done[node] = action.step
            if type(action) is not Compute or (node in num_done and evidence.is_out(life, now_ns)):
                continue
            for other in evidence.members_at(now_ns):
                if other in num_done and other in members[node] and num_done[other] < action.step - bound:
                    yield Violation(
                        3,
                        f"worker {node} began step {action.step} at {now_ns / 1e9:.6f} s, when worker {other} had "
                        f"done {num_done[other]} steps: more than {bound} behind",
                    )
                    return

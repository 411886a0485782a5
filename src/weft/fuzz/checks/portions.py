"""9. Each sample is used exactly once per epoch: a pass counts every portion once, in each bucket."""

from collections.abc import Iterator, Sequence

from weft.core.actions import Action, Apply, Combine
from weft.core.events import Event, Received, Started
from weft.core.names import INBOX
from weft.fuzz.evidence import Evidence, Violation


def are_counted_once(evidence: Evidence) -> Iterator[Violation]:
    """In one incarnation of a coordinator, each portion is summed once in each pass, and all are when it steps."""
    for server in evidence.world.servers:
        entries = [(event, actions) for _, node, event, actions in evidence.recording.entries if node == server]
        yield from _of_coordinator(entries)


def _of_coordinator(entries: Sequence[tuple[Event, Sequence[Action]]]) -> Iterator[Violation]:
    counted: dict[tuple[int, int], set[object]] = {}
    num_portions: dict[int, object] = {}
    for event, actions in entries:
        if isinstance(event, Started):
            counted.clear()
        if not isinstance(event, Received) or event.data is None:
            continue
        if "portions" in event.data:
            num_portions[event.clock] = event.data["portions"]
        if any(_sums(action) for action in actions):
            portion, portions = event.data["portion"], counted.setdefault((event.clock, event.bucket), set())
            if portion in portions:
                yield Violation(9, f"portion {portion} counted twice in bucket {event.bucket} of pass {event.clock}")
            portions.add(portion)
        for action in actions:
            if isinstance(action, Apply):
                num_counted = len(counted[event.clock, action.into.bucket])
                if num_counted != num_portions[event.clock]:
                    yield Violation(
                        9, f"pass {event.clock} ended with {num_counted} of {num_portions[event.clock]} portions"
                    )


def _sums(action: Action) -> bool:
    return isinstance(action, Combine) and action.add is not None and action.add.slot == INBOX

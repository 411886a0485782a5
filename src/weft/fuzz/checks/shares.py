"""2. A push that is applied alone counts by its samples: by their share of the last step that a server has whole."""

from collections.abc import Iterator, Mapping, Sequence

from weft.core.actions import Action, Apply, Note
from weft.core.events import Event, MembersChanged, Received, Started
from weft.core.names import NodeId
from weft.fuzz.evidence import TOLERANCE, Evidence, Violation

PUSH = "push"


class Steps:
    """The steps that one incarnation of a server has of a bucket."""

    def __init__(self, members: Sequence[NodeId], first: Mapping[NodeId, int]) -> None:
        self.members = members
        self._first = dict(first)
        """With which step members that came to this incarnation began: earlier ones are whole without them."""
        self._samples: dict[int, dict[NodeId, float]] = {}
        """By step and worker, of the steps that are not whole yet."""
        self.whole: list[float] = []
        """The samples of each step that every member has pushed here, and that had some."""

    def push(self, worker: NodeId, step: int, samples: float) -> None:
        self._samples.setdefault(step, {})[worker] = samples
        self.look()

    def enter(self, newcomer: NodeId, first: int) -> None:
        """A newcomer makes the steps from its first on, also those that its predecessor had pushed."""
        self._first[newcomer] = first
        for step, samples in self._samples.items():
            if step >= first:
                samples.pop(newcomer, None)

    def look(self) -> None:
        """Find the steps that are whole by now."""
        for step, samples in sorted(self._samples.items()):
            if samples.keys() >= {member for member in self.members if self._first.get(member, 0) <= step}:
                del self._samples[step]
                self.whole += [sum(samples.values())] * any(samples.values())


def follow_from_whole_steps(evidence: Evidence, is_damped: bool) -> Iterator[Violation]:
    """The scale of every update is the push's share of a step; an equal share before one is whole.

    `is_damped`: or a whole number of times less. Where members have left a moved server, which steps it has whole
    depends on what they had pushed to the one before: there any of its steps will do.
    """
    for server in evidence.world.servers:
        entries = [(event, actions) for _, node, event, actions in evidence.recording.entries if node == server]
        for found in _of_server(evidence, entries, is_damped):
            yield Violation(2, f"{evidence.world.name(server)}, {found}")
            return


def _of_server(evidence: Evidence, entries: Sequence[tuple[Event, Sequence[Action]]], is_damped: bool) -> Iterator[str]:
    is_moved = has_lost = False
    members: Sequence[NodeId] = evidence.world.workers
    buckets: dict[int, Steps] = {}
    first: dict[NodeId, int] = {}
    for event, actions in entries:
        if isinstance(event, Started):
            is_moved, has_lost, buckets, first = event.view > evidence.world.view, False, {}, {}
            members = evidence.world.workers
        elif isinstance(event, MembersChanged):
            before, members = members, [node for node in event.members if node < evidence.world.num_workers]
            has_lost = has_lost or (bool(buckets) and not set(before) <= set(members))
            came = {node: step for (node, view), step in evidence.first_steps.items() if view == event.view}
            first.update(came)
            for steps in buckets.values():
                steps.members = members
                for newcomer, step in came.items():
                    steps.enter(newcomer, step)
                steps.look()
        elif isinstance(event, Received) and event.kind == PUSH and _takes(actions):
            steps = buckets.setdefault(event.bucket, Steps(members, first))
            steps.push(event.source, event.clock, event.weight)
            equal = event.weight * len(members)
            usual = steps.whole[-1:] or [equal]
            samples = [*steps.whole, equal] if is_moved and has_lost else usual
            for scale in [action.scale for action in actions if isinstance(action, Apply)]:
                if not any(_is_share(scale, event.weight / of if of else 0.0, is_damped) for of in samples):
                    yield (
                        f"bucket {event.bucket}, applied step {event.clock} of worker {event.source} with weight "
                        f"{scale:.6g}, but its {event.weight:g} samples are of {usual[-1]:g}"
                    )


def _takes(actions: Sequence[Action]) -> bool:
    """A push was counted: not put aside, nor only answered again."""
    return any(isinstance(a, Apply) or (isinstance(a, Note) and a.name == "rejected") for a in actions)


def _is_share(scale: float, share: float, is_damped: bool) -> bool:
    times = round(share / scale) if is_damped and scale else 1
    return times >= 1 and abs(scale * times - share) < TOLERANCE

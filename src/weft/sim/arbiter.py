"""The views of a run in virtual time: who is a member, one view after another."""

from collections.abc import Iterable
from dataclasses import dataclass

from weft.core.names import NodeId


@dataclass(frozen=True)
class View:
    """One committed membership."""

    number: int
    since_ns: int
    members: tuple[NodeId, ...]
    reason: str


class Arbiter:
    """Keeps the views of a run; the last one is in force."""

    def __init__(self, members: Iterable[NodeId], first: int) -> None:
        self.views = [View(first, 0, tuple(members), "the run began")]

    @property
    def view(self) -> View:
        return self.views[-1]

    def members_of(self, number: int) -> tuple[NodeId, ...]:
        """The members of a view that was decided."""
        return self.views[number - self.views[0].number].members

    def decide(self, now_ns: int, leaving: Iterable[NodeId], reason: str, joining: Iterable[NodeId] = ()) -> View:
        """Commit the next view: the members of the last without those that leave, with those that join."""
        members = tuple(sorted(set(self.view.members).difference(leaving).union(joining)))
        view = View(self.view.number + 1, now_ns, members, reason)
        self.views.append(view)
        return view

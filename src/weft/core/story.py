"""A node's story: its last events and the actions that answered them, for people to read."""

from collections import deque
from collections.abc import Sequence

from weft.core.actions import Action
from weft.core.events import Event

CHAPTERS_MAX = 12


class Story:
    """Keeps the last events and actions of one node; telling it is rare, keeping it is cheap."""

    def __init__(self) -> None:
        self.chapters: deque[tuple[float, Event, Sequence[Action]]] = deque(maxlen=CHAPTERS_MAX)
        """(time, event, actions), appended by whoever handles events."""

    def tell(self, node: str) -> str:
        """The story as indented lines, oldest first."""
        if not self.chapters:
            return f"  {node} has seen nothing yet."
        lines = [f"  the last that {node} saw and did:"]
        for now, event, actions in self.chapters:
            lines.append(f"    {now:.6f} s  {event}")
            lines += [f"        -> {action}" for action in actions]
        return "\n".join(lines)

"""A change of view in one process: its peers hear what had been sent before, then who the members are.

Between `Freeze` and the new view nothing leaves this process: what its peers send comes back to them after the change
(`Returned`), and their reductions never happened (decision 0017). Peers go on hearing their own script.

| state  | entered by | frames that come        | left when                                                |
|--------|------------|-------------------------|----------------------------------------------------------|
| steady |            | are told                | `Freeze` comes; `Frozen` says what was sent to each      |
| frozen | `freeze`   | are kept                | `ViewTold` comes: all have frozen                        |
| cut    | `cut`      | are told, up to the cut | these have come and nothing is put off: the view is told |

A worker may die during a change. When frozen, another `Freeze` with a higher view replaces the first. After the cut,
the view is told first: others may have told it already.
"""

from dataclasses import dataclass, field
from typing import Any

from weft.core.actions import Send
from weft.core.events import Returned
from weft.core.names import INBOX, Buffer, NodeId
from weft.runtime.messages import Freeze, ViewTold


@dataclass(frozen=True)
class Unsent:
    """What a node sent while the view was changing: it comes back after the change."""

    node: NodeId
    view: int
    action: Send
    payload: Any
    hyper: Any

    @property
    def event(self) -> Returned:
        """What tells its sender so."""
        sent = self.action
        body = None if sent.body is None else Buffer(INBOX, sent.body.bucket, sent.body.part)
        return Returned(sent.to, sent.kind, sent.clock, sent.bucket, body, sent.weight, sent.data, self.view)


@dataclass
class ViewChange:
    """Where this process stands in a change of view."""

    view: int = 0
    """The view that its peers have been told last."""
    is_on: bool = False
    """It is frozen, or cut."""
    told: ViewTold | None = None
    """The view that is to be told, once it is cut."""
    next: Freeze | None = None
    """A further change, which begins when this one is told."""
    unsent: list[Unsent] = field(default_factory=list)

    def end(self) -> list[Unsent]:
        """The view is told from now on; returns what comes back."""
        assert self.told is not None
        unsent, self.unsent = self.unsent, []
        self.view, self.is_on, self.told = self.told.view, False, None
        return unsent

"""A change of view in one process: its peers hear what had been sent before, then who the members are.

Between `Freeze` and the new view nothing leaves this process: what its peers send comes back to them after the change
(`Returned`), and their reductions never happened (decision 0017). Peers go on hearing their own script.

| state  | entered by | frames that come        | left when                                                |
|--------|------------|-------------------------|----------------------------------------------------------|
| steady |            | are told                | `Freeze` comes; `Frozen` says what was sent to each      |
| frozen | `freeze`   | are kept                | `ViewTold` comes: all have frozen                        |
| cut    | `cut`      | are told, up to the cut | these have come and nothing is put off: the view is told |

A newcomer's process sends nothing, and keeps what comes, until it is told the view that it comes in with.

A worker that leaves in order freezes, too. It is in no view that is told, and what it has sent is before the cut.

A worker may die during a change. When frozen, another `Freeze` with a higher view replaces the first. After the cut,
the view is told first: others may have told it already.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weft.core.actions import Send
from weft.core.events import MembersChanged, Returned, Started
from weft.core.names import INBOX, Buffer, NodeId
from weft.runtime.mailbox import Mailbox
from weft.runtime.view_messages import Freeze, ViewTold

if TYPE_CHECKING:  # the driver makes this
    from weft.runtime.driver import Driver


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


class ViewChange:
    """The changes of view of one process, whose nodes `driver` drives."""

    def __init__(self, driver: "Driver", mailbox: Mailbox) -> None:
        self._driver = driver
        self._mailbox = mailbox
        self._view = 0
        """The view that its peers have been told last."""
        self.is_on = False
        """It is frozen, or cut."""
        self._told: ViewTold | None = None
        """The view that is to be told, once it is cut."""
        self._next: Freeze | None = None
        """A further change, which begins when this one is told."""
        self._unsent: list[Unsent] = []
        self.on_frozen: Callable[[Freeze, dict[int, int]], None] = lambda order, sent: None
        """Called when this process has frozen, with the number of frames that it has sent to each other process."""
        self.on_unreached: Callable[[list[int]], None] = lambda newcomers: None
        """Called with newcomers to which this process cannot connect."""
        self.on_view: Callable[[ViewTold], None] = lambda told: None
        """Called before a new view is told to the peers."""

    def freeze(self, order: Freeze) -> None:
        """A view is to come: from now on nothing leaves this process. `on_frozen` is told what has left it."""
        self._lose(order.lost)
        if self._told is not None:
            self._next = order
            return
        self.is_on = True
        self._mailbox.close()
        self._mailbox.renew(order.newcomers)
        unreached = self._mailbox.reconnect(order.ports, order.view)
        if unreached:
            self.on_unreached(unreached)
        self.on_frozen(order, dict(self._mailbox.sent))

    def _lose(self, lost: Sequence[int]) -> None:
        self._mailbox.lose(lost)
        if self._driver.shared_params is not None:
            self._driver.shared_params.lose(lost)

    def keep(self, node: NodeId, action: Send, payload: Any, hyper: Any) -> None:
        """A node sends something while the view changes: it comes back after the change."""
        self._unsent.append(Unsent(node, self._view, action, payload, hyper))

    def cut(self, told: ViewTold) -> None:
        """All have frozen: the view is told as soon as all that was sent before has come."""
        self._told = told

    def enter(self, told: ViewTold) -> None:
        """This process is a newcomer: tell its peers the view, which is their first."""
        self._mailbox.places = list(told.places)
        self._mailbox.lose([worker for worker in self._driver.world.workers if worker not in told.processes])
        self._mailbox.reconnect(told.ports, told.view)
        self._tell(told)

    def progress(self) -> bool:
        """Tell the peers what comes before the cut, and, when that is all, the view; False if nothing could be told."""
        driver, told = self._driver, self._told
        moved = self._mailbox.poll()
        if told is None:
            return moved
        before = self._mailbox.num_kept
        has_all = self._mailbox.take_up_to(told.cut)
        moved = moved or self._mailbox.num_kept < before
        if driver.reduce is not None and driver.reduce.settle(driver.reduced):
            return True
        if driver.deliver_local():
            return True
        if has_all and not driver.worker.put_off:
            self._tell(told)
            return True
        return moved

    def _tell(self, told: ViewTold) -> None:
        """Tell all peers who the members are, and return to each what it has sent since this process froze."""
        driver = self._driver
        self._lose([rank for rank in driver.world.workers if rank not in told.processes])  # with those that have left
        self.on_view(told)
        unsent, self._unsent, before = self._unsent, [], tuple(driver.nodes.values())
        self._view, self.is_on, self._told = told.view, False, None
        driver.worker.has_left = driver.worker.id not in told.members
        if driver.reduce is not None and not driver.worker.has_left:
            driver.reduce.change_members(told.members, told.view)
        if driver.shared_params is not None:
            driver.shared_params.change_members(told.members, told.view)
        here = [
            node
            for node in self._mailbox.move_servers(told.processes)
            if self._mailbox.places[node] == driver.worker.id
        ]
        moved = [driver.host(server, told.view) for server in here]
        self._mailbox.open_again({id: node.store for id, node in driver.nodes.items()}, told.view)
        changed = MembersChanged(told.view, (*told.members, *driver.world.servers), told.reason)
        for node in before:
            driver.deliver(node, changed)
        for node in moved:
            driver.deliver(node, Started(told.view))
            driver.deliver(node, changed)
        for one in unsent:
            driver.receive(driver.nodes[one.node], one.event, one.payload, one.hyper)
        order, self._next = self._next, None
        if order is not None:
            self.freeze(order)

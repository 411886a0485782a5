"""Processes whose members change, over wires: the real supervisor's part, without its processes."""

from collections.abc import Callable, Sequence

import numpy as np

from support.network.loopback import Processes
from support.peers.puppets import Puppet, Puppets
from weft.core.actions import Action
from weft.core.events import Event, MembersChanged, Received
from weft.core.names import Bucket
from weft.engines.real.views import Views
from weft.runtime.driver import Driver
from weft.runtime.messages import Message
from weft.runtime.view_messages import Freeze, Frozen, ViewTold

BUCKETS = (Bucket(4), Bucket(6, 8))
Answer = Callable[[Puppet, Event], list[Action] | None]


class Changing:
    """Processes whose members change: the messages of their supervisor wait until a test lets them be heard."""

    def __init__(self, num_workers: int, answer: Answer = lambda peer, event: None, num_servers: int = 0) -> None:
        self.world = Processes(Puppets(answer, num_servers, welcomes_itself=True), num_workers, BUCKETS)
        self.drivers = self.world.drivers
        self.views = Views(num_workers, lambda *said: self.said.append(said))
        self.said: list[tuple[int, Message]] = []
        self.frozen: list[tuple[int, Frozen]] = []
        for rank, driver in enumerate(self.drivers):
            self._listen(rank, driver)
        self.world.start()
        self.progress(*range(num_workers))

    def _listen(self, rank: int, driver: Driver) -> None:
        def say(order: Freeze, sent: dict[int, int]) -> None:
            places = list(self.world.posts[rank].places) if order.newcomers else []
            self.frozen.append((rank, Frozen(order.view, sent, places)))

        driver.view_change.on_frozen = say

    def send(self, source: int, *actions: Action) -> None:
        driver = self._home(source)
        driver._perform(driver.nodes[source], actions, 0)

    def progress(self, *ranks: int) -> None:
        """Until nothing is left to do for these processes."""
        while sum(self.drivers[rank].progress() for rank in ranks):
            pass

    def hear(self, *ranks: int) -> None:
        """These processes hear what the supervisor has said to them, and the supervisor hears their answers."""
        heard, self.said = self.said, []
        for rank, message in heard:
            if rank not in ranks:
                self.said.append((rank, message))
            elif isinstance(message, Freeze):
                self.drivers[rank].view_change.freeze(message)
            elif isinstance(message, ViewTold) and rank in message.newcomers:
                self.drivers[rank].view_change.enter(message)
            elif isinstance(message, ViewTold):
                self.drivers[rank].view_change.cut(message)
        frozen, self.frozen = self.frozen, []
        for rank, answer in frozen:
            self.views.hear(rank, answer)

    def freeze_without(self, *lost: int) -> None:
        """All others have frozen; nobody has heard the view."""
        for rank in lost:
            self.views.lose(rank, f"worker {rank} died")
        self.hear(*self.views.members)

    def go_on_without(self, *lost: int) -> None:
        self.freeze_without(*lost)
        self.hear(*self.views.members)
        self.progress(*self.views.members)

    def freeze_with(self, newcomer: int) -> None:
        """A new process is there for a lost one, and all others have frozen; nobody has heard the view."""
        self.world.start_anew(newcomer, self.views.view + 1)
        self._listen(newcomer, self.drivers[newcomer])
        self.views.welcome([newcomer], f"worker {newcomer} joined")
        self.hear(*(rank for rank in self.views.members if rank != newcomer))

    def _home(self, node: int) -> Driver:
        """The process of a node: a living one, if the node was moved."""
        homes = [rank for rank, driver in enumerate(self.drivers) if node in driver.nodes]
        return self.drivers[max(homes, key=self.views.members.__contains__)]

    def peer(self, node: int) -> Puppet:
        peer = self._home(node).nodes[node].peer
        assert isinstance(peer, Puppet)
        return peer

    def seen(self, node: int) -> list[Event]:
        """What a node was told after it had started."""
        return [event for _, event in self.peer(node)._seen][1:]

    def params(self, node: int) -> np.ndarray:
        params: np.ndarray = self.world.stores[node].replica.array("params", 0)
        return params


def word(source: int, clock: int) -> Received:
    return Received(source, "word", clock, 0, None, 1.0, None)


def joined(view: int, members: Sequence[int], newcomer: int) -> MembersChanged:
    return MembersChanged(view, tuple(members), f"worker {newcomer} joined")


def changed(view: int, members: Sequence[int], lost: int) -> MembersChanged:
    return MembersChanged(view, tuple(members), f"worker {lost} died")

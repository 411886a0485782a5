"""How servers agree, after a change of members, on the step that was closed last.

The first server closes steps, so it knows; it says so, and whom the last close named, and a server that missed that
close makes up for it. A moved first server asks the others for their clocks and takes the newest it hears of, from
them or from the workers' copies. Until there is agreement pushes are put aside.
"""

from collections.abc import Mapping
from random import Random

from weft.core.actions import Send
from weft.core.events import Data, MembersChanged, Received, Started
from weft.core.names import Carries, NodeId
from weft.core.peer import Actions
from weft.core.world import World
from weft.strategies.parts.shards import ASK, ShardServer, lost_updates

CLOSED = "closed"
CLOCK = "clock"
AGREEMENT_KINDS: Mapping[str, Carries] = dict.fromkeys((CLOSED, CLOCK), Carries.NOTHING)

UNKNOWN: Data = {}
"""Whom the last close named, when nobody is left who knows."""


class AgreeingServer(ShardServer):
    """A server whose clock counts steps that all servers close alike."""

    def __init__(self, me: NodeId, world: World, rng: Random) -> None:
        super().__init__(me, world, rng)
        keepers = [server for server in world.servers if world.buckets_of(server)]
        self._first = keepers[0] if keepers else me
        self._others = [server for server in keepers if server != me]
        self.clock = 0
        """How many steps were closed."""
        self.floor = 0
        """Pushes of older clocks were settled before the last change of members: they are answered at once."""
        self.last: Data = {"members": "0", "carried": "0"}
        """Whom the last close named: whose gradients were of that step, and whose of an older one."""
        self.is_unsure = False
        """Members changed, and it does not know yet which step was closed last."""
        self.agreed: tuple[int, Data] | None = None
        """What the first server has said: how many steps were closed, and whom the last of them named."""
        self.clocks: dict[NodeId, int] = {}
        """What the other servers told a first server that was moved."""
        self.is_asked = False
        """A moved first server waits to hear of its clock."""

    @property
    def is_ready(self) -> bool:
        return not (self.is_empty or self.is_unsure)

    @property
    def is_first(self) -> bool:
        return self.me == self._first

    def make_up(self, last: Data) -> Actions:
        """Apply the close that was missed, if all that it named is still here."""
        raise NotImplementedError

    def begin_again(self) -> None:
        """Forget the open step: what it had is pushed again."""
        raise NotImplementedError

    def on_started(self, event: Started) -> Actions:
        actions = super().on_started(event)
        if self.is_empty:
            self.clock = -1
        return actions

    def on_members_changed(self, event: MembersChanged) -> Actions:
        self.is_unsure = self.is_unsure or self.is_empty or not self.is_first
        self.is_asked, self.agreed = False, None
        self.clocks.clear()
        actions = super().on_members_changed(event)
        if self.is_first and self.is_unsure:
            actions += [Send(server, ASK, 0, 0) for server in self._others]
        return actions

    def regroup(self) -> Actions:
        return [] if self.is_unsure else self._settle(self.clock, self.last)

    def recover(self) -> Actions:
        newest = max(self.versions.values())
        if newest > self.clock:
            self.clock, self.last = newest, UNKNOWN
        return self._tell_clock() + self._agree()

    def on_other(self, event: Received) -> Actions:
        from_first = event.source == self._first
        if event.kind == ASK and from_first:
            self.is_asked = True
            return self._tell_clock()
        if event.kind == CLOSED and from_first and event.data is not None:
            self.agreed = (event.clock, event.data)
            return self._agree()
        if event.kind == CLOCK and self.is_first and event.data is not None:
            self.clocks[event.source] = event.clock
            if event.clock > self.clock or (event.clock == self.clock and not self.last):
                self.clock, self.last = event.clock, event.data
            return self._agree()
        raise self.unexpected(event)

    def _tell_clock(self) -> Actions:
        """Tell a moved first server how many steps were closed, once that is known here."""
        if not self.is_asked or self.is_empty:
            return []
        return [Send(self._first, CLOCK, self.clock, 0, data=self.last)]

    def _agree(self) -> Actions:
        """Go on once it is known, here and at all servers, how many steps were closed."""
        if self.is_empty:
            return []
        if self.is_first:
            is_known = len(self.clocks) == len(self._others)
            return self._settle(self.clock, self.last) + self.ask_again() if is_known else []
        if self.agreed is None:
            return []
        clock, last = self.agreed
        actions = self.make_up(last) if self.clock == clock - 1 and last else []
        return actions + self._settle(clock, last) + self.ask_again()

    def _settle(self, clock: int, last: Data) -> Actions:
        """Begin the step of this clock anew; what was closed and is not here is lost."""
        lost = clock - min(self.versions.values())
        self.clock = self.floor = clock
        self.last = last
        self.is_unsure = False
        self.versions = dict.fromkeys(self._mine, clock)
        self.begin_again()
        tell = self._others if self.is_first else ()
        return lost_updates(lost) + [Send(server, CLOSED, clock, 0, data=last) for server in tell]

    def waiting_for(self) -> str:
        if self.is_unsure and not self.is_empty:
            return "the servers to agree on the step that was closed last"
        return super().waiting_for()

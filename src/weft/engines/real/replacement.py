"""Lost workers are replaced: newcomers are started, the world comes to rest, and a view takes the newcomers in (0040).

| phase     | entered when                        | then                                                        |
|-----------|-------------------------------------|-------------------------------------------------------------|
| none      |                                     | lost workers are started anew, unless that has failed often |
| resting   | a newcomer has laid out             | all are brought to rest (rest.py)                           |
| welcoming | nothing is under way any more       | the view with the newcomers is told                         |
| none      | all newcomers have stopped, too     | all go on (`GoOn`)                                          |

A member that is lost, or a script that ends, breaks this off: the members go on, and newcomers that are members already
are killed.
"""

from collections.abc import Callable

from weft.engines.real import timeouts
from weft.engines.real.rest import RunRest, Send
from weft.engines.real.views import Views
from weft.runtime.view_messages import HandedOver, PieceAsked, PieceHanded

TIMES_MAX = 3
"""How often a worker is started anew within `timeouts.REPLACED_OFTEN_S`."""


CAME_IN = "it was coming in when another was lost"
CAME_IN_AS_ONE_LEFT = "it was coming in when another left"
CAME_IN_AT_END = "it was coming in when no worker was to be replaced any more"
LATE = f"it had not come in when all others had stood still for {timeouts.REST_S:.0f} s"
"""Why a newcomer is ended."""


class Replacement:
    """The newcomers of a run. `start` forks one, `end` kills it for a cause, and `tell` tells the user."""

    def __init__(
        self,
        views: Views,
        rest: RunRest,
        send: Send,
        start: Callable[[int], None],
        end: Callable[[int, str], None],
        tell: Callable[[str], None],
    ) -> None:
        self._views, self._rest = views, rest
        self._send = send
        self._start, self._end = start, end
        self._tell = tell
        self._wanted: list[int] = []
        """Lost workers that are to be started anew."""
        self.coming: set[int] = set()
        """Newcomers whose processes live and that are no members yet."""
        self._ready: set[int] = set()
        """Those that have laid out."""
        self._joining: list[int] = []
        """The newcomers of the view that is being told, until all go on."""
        self._began_s: dict[int, list[float]] = {}
        """When each worker was started anew."""
        self.is_off = False
        """No worker is replaced any more."""
        self._handed_s = 0.0
        """When a newcomer was last handed something."""
        self.on_replaced: Callable[[list[int]], None] = lambda ranks: None
        """Called when newcomers are there and all go on."""

    def lose(self, rank: int) -> None:
        """A member is lost."""
        self.break_off(CAME_IN)
        self.want(rank)

    def want(self, rank: int) -> None:
        """Worker `rank` is no member any more, and is to be replaced."""
        if not self.is_off and rank not in self._wanted:
            self._wanted.append(rank)

    def fail(self, rank: int, why: str) -> None:
        """The process of a newcomer that was no member yet has ended."""
        self.coming.discard(rank)
        self._ready.discard(rank)
        if not self._ready and not self._joining:
            self.break_off(CAME_IN)
        self._tell(f"worker {rank} could not be replaced: {why}")
        self._wanted.append(rank)

    def lay_out(self, rank: int) -> None:
        """A newcomer has laid out, and wants to come in."""
        if rank in self.coming:
            self._ready.add(rank)

    def turn(self, now_s: float, *, is_ending: bool) -> None:
        """Do what can be done now; `is_ending`: scripts have ended, and nobody is replaced any more."""
        if is_ending:
            self.give_up()
        elif not self._rest.is_on and self._views.is_settled:
            if self._wanted and not self.is_off:
                self._start_next(now_s)
            elif self._ready:
                self._rest.begin(self)
        elif self._rest.is_for(self) and self._rest.has_stopped_all and self._is_late(now_s):
            self._tell("newcomers did not come in while all others stood still, and are ended")
            for rank in sorted(self.coming & self._ready):
                self._end(rank, LATE)
            self.break_off(LATE)

    def _is_late(self, now_s: float) -> bool:
        return now_s - max(self._rest.moved_s, self._handed_s) > timeouts.REST_S

    @property
    def joining(self) -> list[int]:
        """The newcomers that come in now: members, or about to be, that have not begun."""
        return self._joining

    def _start_next(self, now_s: float) -> None:
        rank = self._wanted.pop(0)
        if self.may_start(rank, now_s):
            self.coming.add(rank)
            self._start(rank)

    def may_start(self, rank: int, now_s: float) -> bool:
        """Whether worker `rank` is started anew once more; tells the user if it was too often."""
        lately = self._began_s.setdefault(rank, [])
        lately[:] = [began_s for began_s in lately if now_s - began_s < timeouts.REPLACED_OFTEN_S]
        if len(lately) >= TIMES_MAX:
            self._tell(f"worker {rank} was started anew {len(lately)} times within a minute, and is not again")
            return False
        lately.append(now_s)
        return True

    def give_up(self, why: str = "") -> None:
        """Replace nobody any more."""
        self.is_off = True
        self._wanted.clear()
        if why:
            self._tell(f"lost workers are not replaced: {why}")
        self.break_off(CAME_IN_AT_END)
        for rank in sorted(self.coming):
            self._end(rank, CAME_IN_AT_END)
        self.coming.clear()
        self._ready.clear()

    def break_off(self, cause: str) -> None:
        """The rest is over before newcomers have come in; those that are members already are killed for this cause."""
        if not self._rest.is_for(self):
            return
        for rank in self._joining:
            self._end(rank, cause)
        if self._views.is_freezing and not self.is_off:  # they never become members
            self._wanted += self._joining
        self._joining = []
        self._rest.end()

    def hand_over(self, message: HandedOver, now_s: float) -> None:
        """The newcomers' sponsor hands over where its script is."""
        self._handed_s = now_s
        for newcomer in self._joining:
            self._send(newcomer, message)

    def pass_on(self, message: PieceAsked | PieceHanded, now_s: float) -> None:
        """A newcomer brings over what its sponsor, on another host, has handed over."""
        self._handed_s = now_s
        if message.newcomer in self._joining:
            self._send(message.sponsor if isinstance(message, PieceAsked) else message.newcomer, message)

    def rest_refused(self, why: str) -> None:
        """A script has stopped where no newcomer could begin."""
        self.give_up(why)

    def rest_still(self) -> None:
        """Nothing is under way: begin a view with the newcomers."""
        self._joining = sorted(self._ready)
        self._ready.clear()
        self.coming.difference_update(self._joining)
        names = " and ".join(f"worker {rank}" for rank in self._joining)
        self._views.welcome(self._joining, f"{names} joined")

    def rest_all_there(self) -> None:
        """The newcomers have stopped, too: all go on."""
        replaced, self._joining = self._joining, []
        self._rest.end()
        self.on_replaced(replaced)

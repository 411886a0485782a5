"""Lost workers are replaced: newcomers are started, all scripts rest, and a view takes the newcomers in (0040).

| phase     | entered when                             | then                                                        |
|-----------|------------------------------------------|-------------------------------------------------------------|
| none      |                                          | lost workers are started anew, unless that has failed often |
| asking    | a newcomer has laid out                  | members are asked at which step they are (`RestAsked`)      |
| stopping  | all have answered (`RestTold`)           | all are told where to stop (`RestAt`)                       |
| looking   | all have stopped (`Resting`)             | all are asked what they have sent and received              |
| welcoming | twice the same, and nothing is under way | the view with the newcomers is told                         |
| none      | all newcomers have stopped, too          | all go on (`GoOn`)                                          |

A member that is lost, or a script that ends, breaks this off: the members go on, and newcomers that are members already
are killed. Where steps are not in common, a member may wait in its step for one that has stopped: those that have
stopped then make one more.
"""

from collections.abc import Callable
from enum import Enum

from weft.engines.real import timeouts
from weft.engines.real.views import Views
from weft.runtime.messages import Message
from weft.runtime.view_messages import GoOn, HandedOver, LookAsked, LookTold, RestAsked, RestAt, Resting, RestTold

TIMES_MAX = 3
"""How often a worker is started anew within `timeouts.REPLACED_OFTEN_S`."""
ToReplacement = RestTold | Resting | LookTold | HandedOver


class ReplacementPhase(Enum):
    """Where a replacement is; see above."""

    NONE = "none"
    ASKING = "asking"
    STOPPING = "stopping"
    LOOKING = "looking"
    WELCOMING = "welcoming"


class Replacement:
    """The newcomers of a run. `start` forks one, `end` kills it, and `tell` tells the user."""

    def __init__(
        self,
        views: Views,
        send: Callable[[int, Message], None],
        start: Callable[[int], None],
        end: Callable[[int], None],
        tell: Callable[[str], None],
    ) -> None:
        self._views = views
        self._send = send
        self._start, self._end = start, end
        self._tell = tell
        self._phase = ReplacementPhase.NONE
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
        self._rest = 0
        """The number of the last rest."""
        self._told: dict[int, RestTold] = {}
        self._resting: dict[int, Resting] = {}
        self._rested_s = 0.0
        """When a member last stopped, or a newcomer was handed something."""
        self._patience_s = timeouts.STANDS_STILL_S
        self._look = 0
        self._looked: dict[int, LookTold] = {}
        self._seen: dict[int, tuple[dict[int, int], dict[int, int]]] = {}
        """What all had sent and received when it was last looked."""
        self.on_replaced: Callable[[list[int]], None] = lambda ranks: None
        """Called when newcomers are there and all go on."""

    def lose(self, rank: int) -> None:
        """A member is lost."""
        self.break_off()
        if not self.is_off and rank not in self._wanted:
            self._wanted.append(rank)

    def fail(self, rank: int, why: str) -> None:
        """The process of a newcomer that was no member yet has ended."""
        self.coming.discard(rank)
        self._ready.discard(rank)
        if not self._ready and not self._joining:
            self.break_off()
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
        elif self._phase is ReplacementPhase.NONE and self._views.is_settled:
            if self._wanted and not self.is_off:
                self._start_next(now_s)
            elif self._ready:
                self._ask()
        elif self._phase is ReplacementPhase.STOPPING and now_s - self._rested_s > self._patience_s:
            self._let_one_more_step(now_s)
        elif self._all_rest and now_s - self._rested_s > timeouts.REST_S:
            self._tell("newcomers did not come in while all others stood still, and are ended")
            for rank in sorted(self.coming & self._ready):
                self._end(rank)
            self.break_off()

    @property
    def joining(self) -> list[int]:
        """The newcomers that come in now: members, or about to be, that have not begun."""
        return self._joining

    @property
    def _all_rest(self) -> bool:
        """All members stand still, and wait for newcomers."""
        return self._phase in (ReplacementPhase.LOOKING, ReplacementPhase.WELCOMING)

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
            self._tell(f"worker {rank} was lost {len(lately)} times within a minute, and is not replaced again")
            return False
        lately.append(now_s)
        return True

    def give_up(self, why: str = "") -> None:
        """Replace nobody any more."""
        self.is_off = True
        self._wanted.clear()
        if why:
            self._tell(f"lost workers are not replaced: {why}")
        self.break_off()
        for rank in sorted(self.coming):
            self._end(rank)
        self.coming.clear()
        self._ready.clear()

    def break_off(self) -> None:
        """The rest is over before newcomers have come in; those that are members already are killed."""
        if self._phase is ReplacementPhase.NONE:
            return
        for rank in self._joining:
            self._end(rank)
        if self._views.is_freezing and not self.is_off:  # they never become members
            self._wanted += self._joining
        self._go_on()

    def _go_on(self) -> None:
        self._phase = ReplacementPhase.NONE
        self._joining = []
        for member in self._views.members:
            self._send(member, GoOn())

    def _ask(self) -> None:
        self._phase = ReplacementPhase.ASKING
        self._rest += 1
        self._told.clear()
        self._resting.clear()
        self._seen = {}
        for member in self._views.members:
            self._send(member, RestAsked(self._rest))

    def hear(self, rank: int, message: ToReplacement, now_s: float) -> None:
        """Take a worker's message."""
        if isinstance(message, HandedOver):
            self._rested_s = now_s
            for newcomer in self._joining:
                self._send(newcomer, message)
        elif isinstance(message, RestTold):
            if self._phase is not ReplacementPhase.ASKING or message.rest != self._rest:
                return
            self._told[rank] = message
            if self._told.keys() == set(self._views.members):
                self._stop(now_s)
        elif isinstance(message, Resting):
            if self._phase is not ReplacementPhase.NONE and message.rest in (self._rest, 0):
                self._stand(rank, message, now_s)
        elif isinstance(message, LookTold) and self._phase is ReplacementPhase.LOOKING and message.number == self._look:
            self._looked[rank] = message
            if self._looked.keys() == set(self._views.members):
                self._judge()

    def _stop(self, now_s: float) -> None:
        """All stop before the next step of whoever is furthest ahead, or each before its own next one."""
        sponsor = self._told[min(self._told)]
        furthest = max(told.step for told in self._told.values())
        step = (furthest // sponsor.period + 1) * sponsor.period if sponsor.period else 0
        self._phase, self._rested_s, self._patience_s = ReplacementPhase.STOPPING, now_s, timeouts.STANDS_STILL_S
        for member in self._views.members:
            self._send(member, RestAt(self._rest, step))

    def _stand(self, rank: int, message: Resting, now_s: float) -> None:
        if message.refusal and self._phase is ReplacementPhase.STOPPING:
            self.give_up(message.refusal)
            return
        self._resting[rank] = message
        self._rested_s = now_s
        if not set(self._views.members) <= self._resting.keys():
            return
        if self._phase is ReplacementPhase.STOPPING:
            self._have_stopped()
        elif self._phase is ReplacementPhase.WELCOMING:
            replaced = self._joining
            self._go_on()
            self.on_replaced(replaced)

    def _have_stopped(self) -> None:
        """All have stopped between two batches. If a batch has several steps, that may be between two meetings of the
        strategy: then they go on to the next one."""
        period, furthest = self._told[min(self._told)].period, max(resting.step for resting in self._resting.values())
        if period and furthest % period:
            self._resting.clear()
            for member in self._views.members:
                self._send(member, RestAt(self._rest, (furthest // period + 1) * period))
            return
        self._phase = ReplacementPhase.LOOKING
        self._look_again()

    def _let_one_more_step(self, now_s: float) -> None:
        """Who has not stopped may wait for steps of those who have; not where all stop before the same one."""
        if self._told[min(self._told)].period or not self._resting:
            return
        stopped, self._resting, self._rested_s = self._resting, {}, now_s
        self._patience_s *= 2  # the others may only be slow
        for rank, resting in stopped.items():
            self._send(rank, RestAt(self._rest, resting.step + 1))

    def _look_again(self) -> None:
        self._look += 1
        self._looked.clear()
        for member in self._views.members:
            self._send(member, LookAsked(self._look))

    def _judge(self) -> None:
        """Nothing is under way if, twice, all had received what was sent to them, and nothing had come in between."""
        seen = {rank: (told.sent, told.received) for rank, told in self._looked.items()}
        all_here = all(
            sent.get(other, 0) == seen[other][1].get(rank, 0) for rank, (sent, _) in seen.items() for other in seen
        )
        is_still = all_here and all(told.is_idle for told in self._looked.values()) and seen == self._seen
        self._seen = seen
        if not is_still or not self._views.is_settled:
            self._look_again()
            return
        self._phase = ReplacementPhase.WELCOMING
        self._joining = sorted(self._ready)
        self._ready.clear()
        self.coming.difference_update(self._joining)
        names = " and ".join(f"worker {rank}" for rank in self._joining)
        self._views.welcome(self._joining, f"{names} joined")

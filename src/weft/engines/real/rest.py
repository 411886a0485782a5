"""Brings the world to rest (0040): all scripts stop between two batches, and nothing is under way between processes.

| phase    | entered when                             | then                                           |
|----------|------------------------------------------|------------------------------------------------|
| none     |                                          |                                                |
| asking   | somebody wants it (`begin`)              | members are asked where they are (`RestAsked`) |
| stopping | all have answered (`RestTold`)           | all are told where to stop (`RestAt`)          |
| looking  | all have stopped (`Resting`)             | all are asked what they have sent and received |
| still    | twice the same, and nothing is under way | whoever wanted it does what it wanted it for   |
| none     | that is done, or is given up (`end`)     | all go on (`GoOn`)                             |

Where steps are not in common, a member may wait in its step for one that has stopped: those that have stopped then make
one more.
"""

from collections.abc import Callable
from enum import Enum
from typing import Protocol

from weft.engines.real import timeouts
from weft.engines.real.views import Views
from weft.runtime.messages import Message
from weft.runtime.view_messages import GoOn, LookAsked, LookTold, RestAsked, RestAt, Resting, RestTold

ToRest = RestTold | Resting | LookTold
Send = Callable[[int, Message], None]
"""Takes a message to a worker."""


class RunRestPhase(Enum):
    """Where a rest is; see above."""

    NONE = "none"
    ASKING = "asking"
    STOPPING = "stopping"
    LOOKING = "looking"
    STILL = "still"


class WantsRest(Protocol):
    """Whoever has a rest begun."""

    def rest_refused(self, why: str) -> None:
        """A script has stopped where what the rest is for is not possible."""

    def rest_still(self) -> None:
        """All have stopped, and nothing is under way."""

    def rest_all_there(self) -> None:
        """All who are members by now have stopped; called once more for each that comes after `rest_still`."""


class RunRest:
    """One rest after another, for newcomers or for a checkpoint."""

    def __init__(self, views: Views, send: Send) -> None:
        self._views = views
        self._send = send
        self.phase = RunRestPhase.NONE
        self._for: WantsRest
        self._number = 0
        """The number of the last rest."""
        self._told: dict[int, RestTold] = {}
        self._resting: dict[int, Resting] = {}
        self.moved_s = 0.0
        """When a member last stopped."""
        self._patience_s = timeouts.STANDS_STILL_S
        self._look = 0
        self._looked: dict[int, LookTold] = {}
        self._seen: dict[int, tuple[dict[int, int], dict[int, int]]] = {}
        """What all had sent and received when it was last looked."""

    @property
    def is_on(self) -> bool:
        return self.phase is not RunRestPhase.NONE

    @property
    def has_stopped_all(self) -> bool:
        """All members stand still."""
        return self.phase in (RunRestPhase.LOOKING, RunRestPhase.STILL)

    def holds_all(self, now_s: float) -> bool:
        """Whether all members stand still because they were asked to, and what is under way still comes in."""
        is_coming_in = self.phase is RunRestPhase.LOOKING and now_s - self.moved_s < timeouts.REST_S
        return is_coming_in or self.phase is RunRestPhase.STILL

    @property
    def steps(self) -> dict[int, int]:
        """The number of steps that each member had made when it stopped."""
        return {rank: resting.step for rank, resting in self._resting.items()}

    def is_for(self, who: WantsRest) -> bool:
        """Whether a rest is on that `who` has begun."""
        return self.is_on and self._for is who

    def begin(self, who: WantsRest, *, is_for_checkpoint: bool = False) -> None:
        """Bring all members to rest for `who`."""
        self.phase, self._for = RunRestPhase.ASKING, who
        self._number += 1
        self._told.clear()
        self._resting.clear()
        self._seen = {}
        for member in self._views.members:
            self._send(member, RestAsked(self._number, is_for_checkpoint))

    def end(self) -> None:
        """All go on."""
        self.phase = RunRestPhase.NONE
        for member in self._views.members:
            self._send(member, GoOn())

    def turn(self, now_s: float) -> None:
        """Do what can be done now."""
        if self.phase is RunRestPhase.STOPPING and now_s - self.moved_s > self._patience_s:
            self._let_one_more_step(now_s)

    def hear(self, rank: int, message: ToRest, now_s: float) -> None:
        """Take a worker's message."""
        if isinstance(message, RestTold):
            if self.phase is not RunRestPhase.ASKING or message.rest != self._number:
                return
            self._told[rank] = message
            if self._told.keys() == set(self._views.members):
                self._stop(now_s)
        elif isinstance(message, Resting):
            if self.is_on and message.rest in (self._number, 0):
                self._stand(rank, message, now_s)
        elif self.phase is RunRestPhase.LOOKING and message.number == self._look:
            self._looked[rank] = message
            if self._looked.keys() == set(self._views.members):
                self._judge()

    @property
    def _period(self) -> int:
        """All stop after the same number of steps, a multiple of this; 0: each after its own."""
        return self._told[min(self._told)].period

    def _next_meeting(self, step: int) -> int:
        return -(-step // self._period) * self._period if self._period else 0

    def _stop(self, now_s: float) -> None:
        """All stop when whoever is furthest ahead has made the step that it is making, or each after its own."""
        furthest = max(told.step + (not told.has_stopped) for told in self._told.values())
        self.phase, self.moved_s, self._patience_s = RunRestPhase.STOPPING, now_s, timeouts.STANDS_STILL_S
        for member in self._views.members:
            self._send(member, RestAt(self._next_meeting(furthest)))

    def _stand(self, rank: int, message: Resting, now_s: float) -> None:
        self._resting[rank] = message
        if message.refusal and self.phase is RunRestPhase.STOPPING:
            self._for.rest_refused(message.refusal)
            return
        self.moved_s = now_s
        if not set(self._views.members) <= self._resting.keys():
            return
        if self.phase is RunRestPhase.STOPPING:
            self._have_stopped()
        elif self.phase is RunRestPhase.STILL:
            self._for.rest_all_there()

    def _have_stopped(self) -> None:
        """All have stopped between two batches. If a batch has several steps, that may be between two meetings of the
        strategy: then they go on to the next one."""
        furthest = max(self.steps.values())
        if self._period and furthest % self._period:
            self._resting.clear()
            for member in self._views.members:
                self._send(member, RestAt(self._next_meeting(furthest)))
            return
        self.phase = RunRestPhase.LOOKING
        self._look_again()

    def _let_one_more_step(self, now_s: float) -> None:
        """Who has not stopped may wait for steps of those who have; not where all stop before the same one."""
        if self._period or not self._resting:
            return
        stopped, self._resting, self.moved_s = self.steps, {}, now_s
        self._patience_s *= 2  # the others may only be slow
        for rank, step in stopped.items():
            self._send(rank, RestAt(step + 1))

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
        self.phase = RunRestPhase.STILL
        self._for.rest_still()

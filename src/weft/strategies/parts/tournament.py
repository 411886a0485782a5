"""Tournaments: after every few epochs all workers tell their scores, and workers ask better ones for what they have."""

from collections.abc import Mapping
from random import Random
from typing import Protocol

from weft.core.actions import Compute, Send
from weft.core.events import Data, EpochFinished, MembersChanged, Received, Returned, StepFinished
from weft.core.names import Buffer, NodeId
from weft.core.peer import Actions, Peer, number
from weft.core.score import Score, check_reported
from weft.core.world import World
from weft.strategies.parts.arrivals import Arrivals
from weft.strategies.parts.local_step import apply_gradient

SCORE = "score"
ASK = "ask"
INTRODUCE = "introduce"
"""Asks a worker to welcome a newcomer."""

Told = dict[str, float]
"""What a worker tells of itself; `badness` is its score, smaller is better."""


class Tournament(Protocol):
    """What a worker in tournaments needs to know of its strategy."""

    @property
    def period(self) -> int: ...

    @property
    def score(self) -> str: ...

    @property
    def spread(self) -> float: ...


class TournamentPeer(Peer):
    """A worker that trains alone between tournaments.

    The user's `report` does not return before the tournament of its epoch is over here: everybody's score is known, and
    whoever was asked has answered. Answers are given at once, with what was kept when the score was told, so nobody
    waits in a circle. Who leaves is out of the tournament; those who asked it choose again.

    Newcomers come when no tournament is under way, and take over what the best worker has; they are in tournaments
    once they have made a step.
    """

    def __init__(self, period: int, score: str, me: NodeId, world: World, rng: Random) -> None:
        super().__init__(me, world, rng)
        self._period = period
        self._by = score
        self.score = Score(score)
        self.told: dict[int, dict[NodeId, Told]] = {}
        """By epoch and worker."""
        self.clock: int | None = None
        """The epoch of the tournament under way here."""
        self.arrivals = Arrivals()
        self.standings: dict[NodeId, float] = {}
        """The score that each member told last."""
        self.closed = -1
        """The epoch of the last tournament that ended here."""
        self.source: NodeId | None = None
        """Whose answer is awaited."""
        self.missing: set[int] = set()
        """The buckets of it that have not come yet."""

    # What a method makes of tournaments.

    def enter(self, clock: int) -> tuple[Actions, Told]:
        """A tournament begins for this worker: what to keep for those who ask, and what to tell besides the score."""
        return [], {}

    def choose(self, told: Mapping[NodeId, Told]) -> NodeId | None:
        """Whom to ask, by what all members have told: one that is better, or nobody."""
        raise NotImplementedError

    def go_on_alone(self) -> Actions:
        """Nobody was chosen."""
        return []

    def wanted(self) -> set[int]:
        """The buckets of an answer."""
        raise NotImplementedError

    def answer(self, to: NodeId, clock: int) -> Actions:
        """Send these buckets to a worker that asked."""
        raise NotImplementedError

    def take(self, bucket: int, body: Buffer) -> Actions:
        """Take one of them; the worker's own stay as they are until all have come."""
        raise NotImplementedError

    def make_use(self, source: NodeId) -> Actions:
        """All have come."""
        raise NotImplementedError

    # How a tournament goes.

    @property
    def holds_user(self) -> bool:
        return self.clock is not None or super().holds_user

    def on_step_finished(self, event: StepFinished) -> Actions:
        self.step = event.step + 1
        self.score.remember(event.loss)
        return [*apply_gradient(self.world, event.samples), Compute(self.step)]

    def on_epoch_finished(self, event: EpochFinished) -> Actions:
        check_reported("population", self._by, event.numbers)
        self.score.report(event.numbers)
        rivals = self._rivals
        if (event.epoch + 1) % self._period or self.me not in rivals:
            return []
        self.clock = event.epoch
        actions, traits = self.enter(event.epoch)
        told = {"badness": self.score.badness, **traits}
        self.standings[self.me] = self.score.badness
        self.told.setdefault(event.epoch, {})[self.me] = told
        actions += [Send(to, SCORE, event.epoch, 0, data=told) for to in rivals if to != self.me]
        return actions + self._decide()

    @property
    def _rivals(self) -> tuple[NodeId, ...]:
        """The workers in a tournament before the next step."""
        return self.arrivals.are_compared(self.workers, self.step)

    def on_received(self, event: Received) -> Actions:
        if event.kind == SCORE:
            assert event.data is not None
            if event.clock <= self.closed:
                return []
            told = {name: value for name, value in event.data.items() if isinstance(value, float)}
            self.standings[event.source] = told["badness"]
            self.told.setdefault(event.clock, {})[event.source] = told
            return self._decide() if event.clock == self.clock else []
        if event.kind == ASK:
            return self.answer(event.source, event.clock)
        if event.kind == INTRODUCE and event.data is not None:
            return super().welcome(number(event.data, "newcomer"))
        is_awaited = (event.source, event.clock) == (self.source, self.clock) and event.bucket in self.missing
        if not is_awaited or event.body is None:
            raise self.unexpected(event)
        self.missing.discard(event.bucket)
        actions = self.take(event.bucket, event.body)
        return actions if self.missing else actions + self.make_use(event.source) + self._close()

    def _decide(self) -> Actions:
        """Once all members have told: ask whoever is chosen, or go on."""
        assert self.clock is not None
        told, rivals = self.told[self.clock], self._rivals
        if any(worker not in told for worker in rivals):
            return []
        self.source = self.choose({worker: told[worker] for worker in rivals})
        self.missing = set() if self.source is None else self.wanted()
        if self.source is None:
            return self.go_on_alone() + self._close()
        return [Send(self.source, ASK, self.clock, 0)]

    def _close(self) -> Actions:
        assert self.clock is not None
        del self.told[self.clock]
        self.closed, self.clock, self.source = self.clock, None, None
        return [Compute(self.step)]

    # When members come and go.

    def on_joined(self, event: MembersChanged, newcomers: tuple[NodeId, ...]) -> Actions:
        self.arrivals.note(newcomers, self.step)
        return super().on_joined(event, newcomers)

    def welcome(self, newcomer: NodeId) -> Actions:
        """Have the best member welcome it: by the last scores that this worker knows, which may itself be new."""
        best = min(self.standings, key=lambda worker: (self.standings[worker], worker), default=self.me)
        if best == self.me:
            return super().welcome(newcomer)
        return [Send(best, INTRODUCE, self.step, 0, data={"newcomer": newcomer})]

    def hand_over(self) -> Data:
        return {**super().hand_over(), "closed": self.closed}

    def take_over(self, handed: Data) -> Actions:
        actions = super().take_over(handed)
        self.closed = number(handed, "closed")
        self.arrivals.note([self.me], self.step)
        return actions

    def on_members_changed(self, event: MembersChanged) -> Actions:
        """What was asked is asked again: neither question nor answer outlives the view."""
        self.standings = {worker: badness for worker, badness in self.standings.items() if worker in self.workers}
        return [] if self.clock is None else self._decide()

    def on_returned(self, event: Returned) -> Actions:
        """A score is still wanted in the new view."""
        if event.kind == SCORE and event.target in self.workers:
            return [Send(event.target, SCORE, event.clock, event.bucket, data=event.data)]
        return super().on_returned(event)

    def waiting_for(self) -> str:
        if self.clock is None:
            return super().waiting_for()
        if self.source is not None:
            return f"what it asked of worker {self.source} after epoch {self.clock}"
        silent = [worker for worker in self._rivals if worker not in self.told[self.clock]]
        return f"the score of epoch {self.clock} from worker {', '.join(map(str, silent))}"

"""Election of the best replica: all tell their scores, all restart from the winner's parameters."""

from weft.core.actions import Compute, Note, Send, copy
from weft.core.errors import UnexpectedMessage
from weft.core.events import EpochFinished, Received
from weft.core.names import Buffer, Carries, NodeId
from weft.core.peer import Actions
from weft.core.score import WORST, check_reported, sign
from weft.core.world import World
from weft.strategies.parts.arrivals import Arrivals

SCORE = "score"
BEST = "best"
WANT = "want"
ELECTION = {SCORE: Carries.NOTHING, BEST: Carries.STATE, WANT: Carries.NOTHING}
BEST_SLOT = "election.best"
"""Where the winner's parameters wait until all have come: it may leave before."""


class Election:
    """One worker's part in the elections after every `period` epochs.

    The user's `report` does not return while `is_open`, so that the next iteration reads the winner's
    parameters; Compute is emitted again when the election ends. Ties go to the lowest rank. A worker
    that has no score stands last. The winner's parameters may overtake another worker's score.

    When members leave, the best of those who stay wins. It may have ended the election already, with the
    replica of a winner that has left since; so who decides after a change asks the winner for what it holds (`want`).

    Newcomers, who come when no election is open, stand in one once they have made a step; in the one before it, if
    there is any, they neither win nor are waited for, and go on with what they have.
    """

    def __init__(self, me: NodeId, world: World, period: int | None, score: str) -> None:
        self._me = me
        self._world = world
        self._workers = world.workers
        self._period = period
        self._score = score
        self._sign = sign(score)
        self.arrivals = Arrivals()
        self.losses: list[float] = []
        self.scores: dict[int, dict[NodeId, float]] = {}
        self.winner: NodeId | None = None
        """Whose parameters are awaited, once it is known."""
        self.missing: set[int] = set()
        """Buckets of the winner that have not come yet."""
        self.asks = False
        """Members changed during this election: the winner may not know that it has to send anything."""
        self.clock: int | None = None
        """The epoch of the election under way here."""
        self.closed = -1
        """The epoch of the last election that ended here."""

    @property
    def is_open(self) -> bool:
        return self.clock is not None

    def remember(self, loss: float | None) -> None:
        """Note a training loss; their mean over the epoch is the score when none is reported."""
        if self._period is not None and loss is not None:
            self.losses.append(loss)

    def on_epoch_finished(self, event: EpochFinished, step: int) -> Actions:
        if self._period is None or (event.epoch + 1) % self._period or self._me not in self._standing(step):
            return []
        losses, self.losses = self.losses, []
        score = event.numbers.get(self._score)
        check_reported("election", self._score, event.numbers)
        if score is None and self._score == "loss" and losses:
            score = sum(losses) / len(losses)
        badness = WORST if score is None or score != score else self._sign * score
        self.clock = event.epoch
        self.scores.setdefault(event.epoch, {})[self._me] = badness
        actions: Actions = [Send(to, SCORE, event.epoch, 0, data={"badness": badness}) for to in self._others(step)]
        return actions + self._decide(step)

    def _standing(self, step: int) -> tuple[NodeId, ...]:
        return self.arrivals.are_compared(self._workers, step)

    def _others(self, step: int) -> list[NodeId]:
        return [worker for worker in self._standing(step) if worker != self._me]

    def on_received(self, event: Received, step: int) -> Actions:
        if event.kind == WANT:
            return self._best(event.clock, [event.source]) if event.clock <= self.closed else []
        if event.kind == SCORE:
            return self._hear(event, step)
        if event.clock <= self.closed:
            return []
        if event.clock == self.clock and self.winner is None:
            self._await(event.source)
        if event.source != self.winner or event.body is None or event.bucket not in self.missing:
            raise UnexpectedMessage(
                f"worker {self._me} received the best replica of epoch {event.clock} (bucket {event.bucket}) "
                f"from worker {event.source}, but awaits that of epoch {self.clock}."
            )
        self.missing.discard(event.bucket)
        if self.missing:
            return [copy(Buffer(BEST_SLOT, event.bucket), event.body)]
        params = self._world.params
        whole = [copy(params[b], Buffer(BEST_SLOT, b)) for b in range(len(params)) if b != event.bucket]
        return [*whole, copy(params[event.bucket], event.body), *self._close(step)]

    def _hear(self, event: Received, step: int) -> Actions:
        assert event.data is not None
        badness = event.data["badness"]
        assert isinstance(badness, float)
        if event.clock <= self.closed:
            return []
        self.scores.setdefault(event.clock, {})[event.source] = badness
        return self._decide(step) if self.clock == event.clock else []

    def on_members_changed(self, workers: tuple[NodeId, ...], step: int) -> Actions:
        """Those who have left neither win nor are waited for."""
        self._workers = workers
        for scores in self.scores.values():
            for worker in [worker for worker in scores if worker not in workers]:
                del scores[worker]
        if self.winner not in workers:
            self.winner, self.missing = None, set()
        if self.clock is None or self.winner is not None:
            return []
        self.asks = True
        return self._decide(step)

    def on_joined(self, workers: tuple[NodeId, ...], newcomers: tuple[NodeId, ...], step: int) -> None:
        self._workers = workers
        self.arrivals.note(newcomers, step)

    def take_over(self, closed: int, step: int) -> None:
        """This worker is a newcomer, and begins with this step."""
        self.closed = closed
        self.arrivals.note([self._me], step)

    def _decide(self, step: int) -> Actions:
        """Once all scores are in: the winner sends its parameters, the others await them."""
        assert self.clock is not None
        scores = self.scores[self.clock]
        if len(scores) < len(self._standing(step)) or self.winner is not None:
            return []
        winner = min(scores, key=lambda worker: (scores[worker], worker))
        if winner == self._me:
            return [*self._best(self.clock, self._others(step)), *self._close(step)]
        self._await(winner)
        return [Send(winner, WANT, self.clock, 0)] if self.asks else []

    def _await(self, winner: NodeId) -> None:
        self.winner, self.missing = winner, set(range(len(self._world.buckets)))

    def _best(self, clock: int, targets: list[NodeId]) -> Actions:
        params = self._world.params
        return [Send(to, BEST, clock, b, params[b]) for to in targets for b in range(len(params))]

    def _close(self, step: int) -> Actions:
        assert self.clock is not None
        del self.scores[self.clock]
        self.closed = self.clock
        self.clock = self.winner = None
        self.asks = False
        return [Note("elected", 1.0), Compute(step)]

    def waiting_for(self, step: int) -> str | None:
        if self.clock is None:
            return None
        if self.missing:
            return f"the best replica of epoch {self.clock} ({len(self.missing)} buckets to go)"
        silent = [w for w in self._standing(step) if w not in self.scores[self.clock]]
        return f"the score of epoch {self.clock} from worker {', '.join(map(str, silent))}"

"""Election of the best replica: all tell their scores, all restart from the winner's parameters."""

from weft.core.actions import Compute, Note, Send, copy
from weft.core.errors import ConfigError, UnexpectedMessage, did_you_mean
from weft.core.events import EpochFinished, Received
from weft.core.names import NodeId
from weft.core.peer import Actions
from weft.core.world import World

SCORE = "score"
BEST = "best"
WORST = float("inf")
SMALLER_IS_BETTER = ("loss", "error", "perplexity")


class Election:
    """One worker's part in the elections after every `period` epochs.

    The user's `report` does not return while `is_open`, so that the next iteration reads the winner's
    parameters; Compute is emitted again when the election ends. Ties go to the lowest rank. A worker
    that has no score stands last. The winner's parameters may overtake another worker's score.
    """

    def __init__(self, me: NodeId, world: World, period: int | None, score: str) -> None:
        self._me = me
        self._world = world
        self._period = period
        self._score = score
        self._sign = 1.0 if any(word in score for word in SMALLER_IS_BETTER) else -1.0
        self.losses: list[float] = []
        self.scores: dict[int, dict[NodeId, float]] = {}
        self.missing: set[int] = set()
        """Buckets of the winner that have not come yet."""
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
        if self._period is None or (event.epoch + 1) % self._period:
            return []
        losses, self.losses = self.losses, []
        score = event.numbers.get(self._score)
        if score is None and self._score != "loss" and event.numbers:
            raise ConfigError(
                f"the election goes by '{self._score}', which the script does not report.\n"
                f"  {did_you_mean(self._score, event.numbers)}"
            )
        if score is None and self._score == "loss" and losses:
            score = sum(losses) / len(losses)
        badness = WORST if score is None or score != score else self._sign * score
        self.clock = event.epoch
        self.scores.setdefault(event.epoch, {})[self._me] = badness
        others = [worker for worker in self._world.workers if worker != self._me]
        actions: Actions = [Send(to, SCORE, event.epoch, 0, data={"badness": badness}) for to in others]
        return actions + self._decide(step)

    def on_received(self, event: Received, step: int) -> Actions:
        if event.kind == SCORE:
            assert event.data is not None
            badness = event.data["badness"]
            assert isinstance(badness, float)
            if event.clock <= self.closed:
                return []
            self.scores.setdefault(event.clock, {})[event.source] = badness
            return self._decide(step) if self.clock == event.clock else []
        if event.clock == self.clock and not self.missing:
            self.missing = set(range(len(self._world.buckets)))
        if event.clock != self.clock or event.body is None or event.bucket not in self.missing:
            raise UnexpectedMessage(
                f"worker {self._me} received the best replica of epoch {event.clock} (bucket {event.bucket}) "
                f"from worker {event.source}, but awaits that of epoch {self.clock}."
            )
        self.missing.discard(event.bucket)
        actions: Actions = [copy(self._world.params[event.bucket], event.body)]
        return actions if self.missing else [*actions, *self._close(step)]

    def _decide(self, step: int) -> Actions:
        """Once all scores are in: the winner sends its parameters, the others await them."""
        assert self.clock is not None
        scores = self.scores[self.clock]
        if len(scores) < self._world.num_workers:
            return []
        winner = min(scores, key=lambda worker: (scores[worker], worker))
        buckets = range(len(self._world.buckets))
        if winner != self._me:
            self.missing = self.missing or set(buckets)
            return []
        actions: Actions = [
            Send(to, BEST, self.clock, b, self._world.params[b])
            for to in self._world.workers
            if to != self._me
            for b in buckets
        ]
        return [*actions, *self._close(step)]

    def _close(self, step: int) -> Actions:
        assert self.clock is not None
        del self.scores[self.clock]
        self.closed = self.clock
        self.clock = None
        return [Note("elected", 1.0), Compute(step)]

    def waiting_for(self) -> str | None:
        if self.clock is None:
            return None
        if self.missing:
            return f"the best replica of epoch {self.clock} ({len(self.missing)} buckets to go)"
        silent = [w for w in self._world.workers if w not in self.scores[self.clock]]
        return f"the score of epoch {self.clock} from worker {', '.join(map(str, silent))}"

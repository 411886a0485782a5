"""A replacement of lost workers that is talked to by a test, in place of members and newcomers."""

from collections.abc import Callable

from weft.data.share_records import HandedShares, Reached
from weft.engines.real.replacement import Replacement
from weft.engines.real.rest import RunRest
from weft.engines.real.views import Views
from weft.runtime.messages import Message
from weft.runtime.view_messages import (
    Freeze,
    Frozen,
    HandedOver,
    LookAsked,
    LookTold,
    RestAsked,
    Resting,
    RestTold,
    ViewTaken,
)

Said = list[tuple[int, Message]]
HANDED = HandedOver(2, HandedShares(0, 0, 0, [0, 1, 2], [], {}, {}, 0, 0), 0, 0, 0, b"")


class Talk:
    """The newcomers of a run, and what was sent, started, killed and told."""

    def __init__(self, num_workers: int = 3) -> None:
        self._sent: Said = []
        self.started: list[int] = []
        self.killed: list[int] = []
        self.causes: list[str] = []
        self.words: list[str] = []
        self.joining: list[int] = []
        self.replaced: list[list[int]] = []
        self.views = Views(num_workers, lambda *said: self._sent.append(said))
        self.bringing_to_rest = RunRest(self.views, lambda *said: self._sent.append(said))
        self.replacement = Replacement(
            self.views,
            self.bringing_to_rest,
            lambda *said: self._sent.append(said),
            self.started.append,
            self._kill,
            self.words.append,
        )
        self.replacement.on_replaced = self.replaced.append
        self.now_s = 0.0
        self.rest = 0
        """The number of the rest that was last asked for."""
        self.look = 0
        """The number of the look that was last asked for."""

    def _kill(self, rank: int, cause: str) -> None:
        self.killed.append(rank)
        self.causes.append(cause)

    def said(self) -> Said:
        sent, self._sent = self._sent, []
        for _, message in sent:
            if isinstance(message, RestAsked):
                self.rest = message.rest
            elif isinstance(message, LookAsked):
                self.look = message.number
            elif isinstance(message, Freeze):
                self.joining = list(message.newcomers) or self.joining
        return sent

    def lose(self, rank: int) -> Said:
        self.replacement.lose(rank)
        self.views.lose(rank, f"worker {rank} died")
        return self.said()

    def freeze(self) -> Said:
        """All members that were there before freeze, and the view is told."""
        for rank in self.views.members:
            if rank not in self.joining:
                self.views.hear(rank, Frozen(self.views.view, {}))
        return self.said()

    def settle(self) -> Said:
        """All members take the view, and all is dealt."""
        self.freeze()
        for rank in self.views.members:
            self.views.take(rank, ViewTaken(self.views.view, Reached(1, {0: 3}), {}))
        assert self.views.is_settled
        return self.said()

    def turn(self, *, is_ending: bool = False) -> Said:
        self.bringing_to_rest.turn(self.now_s)
        self.replacement.turn(self.now_s, is_ending=is_ending)
        return self.said()

    def lay_out(self, rank: int) -> None:
        self.views.lay_out(rank)
        self.replacement.lay_out(rank)

    def hear(self, rank: int, message: RestTold | Resting | LookTold | HandedOver) -> Said:
        if isinstance(message, HandedOver):
            self.replacement.hand_over(message, self.now_s)
        else:
            self.bringing_to_rest.hear(rank, message, self.now_s)
        return self.said()

    def hear_all(self, told: Callable[[int], RestTold | Resting | LookTold]) -> Said:
        """What is answered when all members have spoken; before, nothing is."""
        answers = [self.hear(rank, told(rank)) for rank in list(self.views.members)]
        assert not any(answers[:-1])
        return answers[-1]

    def come(self, *ranks: int) -> None:
        """These are lost, and newcomers have laid out in their places."""
        for rank in ranks:
            self.lose(rank)
        self.settle()
        for rank in ranks:
            self.turn()
            assert self.started[-1] == rank
        for rank in ranks:
            self.lay_out(rank)

    def tell_steps(self, period: int = 1) -> Said:
        return self.hear_all(lambda rank: RestTold(self.rest, 4, period))

    def stop(self, refusal: str = "") -> Said:
        return self.hear_all(lambda rank: Resting(self.rest, 5, refusal))

    def look_on(self) -> Said:
        """All tell that nothing is under way."""
        return self.hear_all(lambda rank: LookTold(self.look, {}, {}, True))


PHASES = ["asking", "stopping", "looking", "welcoming"]


def at(phase: str, talk: Talk | None = None) -> Talk:
    """Workers of which the second is lost and its newcomer has laid out; they rest as far as `phase`."""
    if talk is None:
        talk = Talk()
        talk.come(1)
    talk.turn()
    steps: list[Callable[[], Said]] = [lambda: talk.tell_steps(), lambda: talk.stop(), talk.look_on]
    for reached, go_on in zip(PHASES[1:], steps, strict=True):
        if PHASES.index(reached) <= PHASES.index(phase):
            go_on()
    if phase == "welcoming":
        talk.look_on()
        assert talk.joining
    return talk

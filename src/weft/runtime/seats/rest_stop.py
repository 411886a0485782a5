"""Where a worker's script stops so that newcomers can come in, or a checkpoint be taken (decisions 0040 and 0043)."""

from collections.abc import Callable

from weft.runtime.checkpoint_messages import CheckpointDue, TakePart
from weft.runtime.view_messages import Resting, RestTold


class RestStop:
    """One worker's part in a rest. Called by the thread that drives.

    | state    | entered by            | the script                                           | left by            |
    |----------|-----------------------|------------------------------------------------------|--------------------|
    | off      |                       | goes on                                              | `ask`, `ask_itself` |
    | asked    | `ask`, `ask_itself`   | stops before its next batch                          | `stop_at`, `go_on` |
    | on       | `stop_at`             | stops there when so many steps are made, and says so | `stop_at`, `go_on` |

    Between two batches all that a script does after a step is done, too: schedulers and averages have made theirs.

    A newcomer's is on from the beginning: its script stops where its loop begins (`come_in`).
    """

    def __init__(
        self,
        send: Callable[[RestTold | Resting | CheckpointDue], object],
        refusal: Callable[[], str],
        is_dealing: Callable[[], bool],
        *,
        is_newcomer: bool,
    ) -> None:
        """`refusal` says why a newcomer's script cannot begin where this one is stopped; nothing if it can. While
        samples are dealt (`is_dealing`), a script that has stopped does not go on."""
        self._send = send
        self._refusal, self._is_dealing = refusal, is_dealing
        self.is_asked = self._is_coming_in = is_newcomer
        self.number = 0
        self._at: int | None = 0 if is_newcomer else None
        self.has_asked_itself = False
        """The script stops, or is about to, before its next step."""
        self._stopped: int | None = None
        """The number of steps that the script has made, while it is stopped."""
        self.afterwards: Callable[[], None] = lambda: None
        """Called when the rest is over."""
        self.order: TakePart | None = None
        """A part of a checkpoint that is to be copied."""
        self.take: Callable[[TakePart], None] = lambda order: None
        """Copies it; called by the script's thread."""

    def ask(self, told: RestTold) -> None:
        """A rest begins; `told` says where the script is."""
        self.is_asked, self._at, self.number = True, None, told.rest
        self._send(told)

    def ask_itself(self, *, is_in_step: bool) -> None:
        """A checkpoint is due here: the script stops until the engine has answered, if it is not asked to already."""
        if not self.is_asked:
            self.is_asked = self.has_asked_itself = True
            self._at = None
            self._send(CheckpointDue(is_in_step))

    def stop_at(self, step: int) -> None:
        """The script stops when it has made `step` steps."""
        self._at = step
        self._say()

    def go_on(self) -> None:
        """The rest is over."""
        self.is_asked, self._at, self._is_coming_in = False, None, False
        afterwards, self.afterwards = self.afterwards, lambda: None
        afterwards()

    def come_in(self, step: int, wait: Callable[[Callable[[], bool]], None]) -> None:
        """A newcomer begins after `step` steps: says so, and waits until all go on with it. A rest that begins right
        then does not hold it here, before its share, where no other newcomer could begin, but in its share."""
        self._send(Resting(self.number, step))
        wait(lambda: not self._is_coming_in and not self._is_dealing())

    def stop(self, step: int, wait: Callable[[Callable[[], bool]], None]) -> None:
        """The script has made `step` steps: `wait` here as long as it is to rest."""
        if self.is_asked:
            self._stopped = step
            self._say()
            while self._holds(step) or self._is_dealing():
                wait(lambda: self.order is not None or (not self._holds(step) and not self._is_dealing()))
                self.take_part()
            self._stopped, self.has_asked_itself = None, False

    def take_part(self) -> None:
        """Copy a part of a checkpoint, if that is ordered."""
        order, self.order = self.order, None
        if order is not None:
            self.take(order)

    def is_due(self, step: int) -> bool:
        """Whether the script is to stop when it has made `step` steps."""
        return self._at is not None and self._holds(step)

    def _holds(self, step: int) -> bool:
        return self.is_asked and (self._at is None or step >= self._at)

    def _say(self) -> None:
        if self._stopped is not None and self.is_due(self._stopped):
            self._send(Resting(self.number, self._stopped, self._refusal()))

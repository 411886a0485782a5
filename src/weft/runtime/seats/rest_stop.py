"""Where a worker's script stops so that newcomers can come in (decision 0040)."""

from collections.abc import Callable

from weft.runtime.view_messages import Resting, RestTold


class RestStop:
    """One worker's part in a rest. Called by the thread that drives.

    | state    | entered by            | the script                                           | left by            |
    |----------|-----------------------|------------------------------------------------------|--------------------|
    | off      |                       | goes on                                              | `ask`              |
    | asked    | `ask`                 | stops after its step                                 | `stop_at`          |
    | on       | `stop_at`             | stops when so many steps are made, and says so       | `stop_at`, `go_on` |

    A newcomer's is on from the beginning: its script stops before its first step.
    """

    def __init__(
        self, send: Callable[[RestTold | Resting], object], refusal: Callable[[], str], *, is_newcomer: bool
    ) -> None:
        """`refusal` says why a newcomer's script cannot begin where this one is stopped; nothing if it can."""
        self._send = send
        self._refusal = refusal
        self._is_asked = is_newcomer
        self._number = 0
        self._at: int | None = 0 if is_newcomer else None
        self._stopped: int | None = None
        """The number of steps that the script has made, while it is stopped."""
        self.afterwards: Callable[[], None] = lambda: None
        """Called when the rest is over."""

    def ask(self, told: RestTold) -> None:
        """A rest begins; `told` says where the script is."""
        self._is_asked, self._at, self._number = True, None, told.rest
        self._send(told)

    def stop_at(self, step: int) -> None:
        """The script stops when it has made `step` steps."""
        self._at = step
        self._say()

    def go_on(self) -> None:
        """The rest is over."""
        self._is_asked, self._at = False, None
        afterwards, self.afterwards = self.afterwards, lambda: None
        afterwards()

    def stop(self, step: int, wait: Callable[[Callable[[], bool]], None]) -> None:
        """The script has made `step` steps: `wait` here as long as it is to rest."""
        if self._is_asked:
            self._stopped = step
            self._say()
            wait(lambda: not self._holds(step))
            self._stopped = None

    def _holds(self, step: int) -> bool:
        return self._is_asked and (self._at is None or step >= self._at)

    def _say(self) -> None:
        if self._stopped is not None and self._at is not None and self._holds(self._stopped):
            self._send(Resting(self._number, self._stopped, self._refusal()))

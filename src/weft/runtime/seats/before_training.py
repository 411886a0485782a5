"""What a seat asks while it waits, before there is a WorkerRuntime: nothing is to be driven yet."""

from weft.runtime.measure.metrics import Metrics
from weft.runtime.seats.engine_seat import OTHERS_TO_JOIN


class IdleDriver:
    """The driver of no nodes."""

    next_due_s: float | None = None

    def progress(self) -> bool:
        return False

    def hurry(self) -> bool:
        return False

    def may_move(self) -> bool:
        return True


class BeforeTraining:
    """Answers for the WorkerRuntime until the tensors are laid out. One object per seat, replaced once."""

    keeps_step = True

    def __init__(self) -> None:
        self.driver = IdleDriver()

    def check_alive(self) -> None:
        """Nothing to do: no reduction is under way."""

    def tell_counters(self, metrics: Metrics) -> None:
        """Nothing to do: nothing was sent."""

    def waiting_for(self) -> str:
        return OTHERS_TO_JOIN

"""A worker process as its supervisor sees it: what it has said, and whether it lives."""

from weft.observe.records.status import Status
from weft.runtime.messages import Failed, Halted


class WorkerRecord:
    """One worker process, on this host or another."""

    def __init__(self, rank: int, host: str, pid: int) -> None:
        self.rank = rank
        self.host = host
        """The host's name."""
        self.pid = pid
        self.exit_code: int | None = None
        """None while the process lives, and on other hosts, where only its launcher (torchrun, srun) learns it."""
        self.lost = ""
        """Why nothing is known of the worker any more, such as the loss of its host; empty otherwise."""
        self.is_quarantined = False
        """It is ended because its gradients are not finite."""
        self.status: Status | None = None
        self.num_notices = 0
        """How many of the notices in its statuses have been shown."""
        self.failed: Failed | None = None
        self.halted: Halted | None = None
        self.step_told: int | None = None
        self.is_alive = True
        self.has_joined = False
        """Its script has called weft.join."""
        self.has_ended = False
        """Its script has ended without an error."""
        self.has_finished = False

    @property
    def moment(self) -> str:
        """Where the script was when the worker was last heard of."""
        if self.has_ended:
            return "after its script had ended"
        if not self.has_joined:
            return "before it had joined"
        return "after it had joined" if self.status is None else f"at step {self.status.step}"

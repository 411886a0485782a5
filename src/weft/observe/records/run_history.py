"""What a real run has shown so far: the curve of its loss, and its reports."""

from collections.abc import Mapping

from weft.observe.records.status import Status

CURVE_POINTS_MAX = 4096
"""When the loss curve has this many points, every other one is dropped."""


class RunHistory:
    """The curve and the reports of one run; `wall_s` is since the run began."""

    def __init__(self) -> None:
        self.curve: list[dict[str, float | None]] = []
        self.reports: list[dict[str, float | None]] = []

    def add_status(self, status: Status, samples: float, wall_s: float) -> None:
        """A worker's status, when all workers together have used so many samples."""
        self.curve.append({"wall_s": wall_s, "samples": samples, "loss": status.loss})
        if len(self.curve) >= CURVE_POINTS_MAX:
            self.curve = self.curve[::2]

    def add_report(self, epoch: int, numbers: Mapping[str, float], consensus: float | None, wall_s: float) -> None:
        """What was reported at the end of an epoch, and the consensus distance if it was measured."""
        self.reports.append({**numbers, "epoch": epoch, "wall_s": wall_s, "consensus": consensus})

"""How well a worker does, by what it tells of itself: by this the best of several is found."""

from collections.abc import Mapping

from weft.core.errors import ConfigError, did_you_mean
from weft.core.names import NodeId

WORST = float("inf")
SMALLER_IS_BETTER = ("loss", "error", "perplexity")


def sign(name: str) -> float:
    """1 where the smaller number is the better one, else -1."""
    return 1.0 if any(word in name for word in SMALLER_IS_BETTER) else -1.0


class Score:
    """One worker's score: the number of this name that it reported last.

    As long as none of that name was reported it is the mean training loss since the last report, or of the
    time before it when there was no step since.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._sign = sign(name)
        self.reported: float | None = None
        self.before: float | None = None
        """The mean training loss up to the last report."""
        self.losses = 0.0
        self.num_losses = 0

    def remember(self, loss: float | None) -> None:
        """Note the training loss of a step."""
        if loss is not None:
            self.losses += loss
            self.num_losses += 1

    def report(self, numbers: Mapping[str, float]) -> None:
        """Note what the worker reported."""
        if self._name in numbers:
            self.reported = self._sign * numbers[self._name]
        self.before = self._mean()
        self.losses, self.num_losses = 0.0, 0

    def _mean(self) -> float | None:
        return self.losses / self.num_losses if self.num_losses else self.before

    @property
    def badness(self) -> float:
        """The same for all names: smaller is better, and infinite is what is not known or not a number."""
        known = self._mean() if self.reported is None else self.reported
        return WORST if known is None or known != known else known


def check_reported(who: str, name: str, numbers: Mapping[str, float]) -> None:
    """Refuse a script that reports numbers, but not the one that a strategy goes by."""
    if name not in numbers and name != "loss" and numbers:
        raise ConfigError(
            f"the {who} goes by '{name}', which the script does not report.\n  {did_you_mean(name, numbers)}"
        )


def best(badness: Mapping[NodeId, float]) -> NodeId:
    """The worker with the best score; ties go to the lowest rank, and worker 0 is best when nobody has told one."""
    return min(badness, key=lambda worker: (badness[worker], worker), default=0)

"""The words for how data is shared, and what is decided about it in one place for all workers of a run."""

from collections.abc import Callable

from weft.core.errors import ConfigError, did_you_mean
from weft.core.strategy import Strategy
from weft.data.proportional import EVERY, Fractions
from weft.data.stealing import Queues

STATIC = "static"
"""Every global batch is split evenly."""
PROPORTIONAL = "proportional"
"""Every global batch is cut by what workers can do in equal time."""
STEALING = "stealing"
"""Workers take batches from one queue, each when it has time."""
SHARES = (STATIC, PROPORTIONAL, STEALING)


class Shares:
    """How the data of one run is shared: the fractions and the queues that its workers ask for."""

    def __init__(self, num_workers: int, share: str = STATIC, every: int = EVERY) -> None:
        self.every = every if share == PROPORTIONAL else None
        """After how many steps of a share its fractions may change; None: there are none."""
        self.steals = share == STEALING
        self.fractions = Fractions(num_workers, every)
        self.queues = Queues()
        self._num_samples: dict[int, tuple[int, int]] = {}
        """By share: who came to it first, and with how many samples."""

    def check(self, worker: int, share: int, num_samples: int) -> None:
        """Refuse a worker that comes to a share with other data than the first: samples would be lost or used twice."""
        first, known = self._num_samples.setdefault(share, (worker, num_samples))
        if num_samples != known:
            raise ConfigError(
                f"worker {worker} came to share {share + 1} with {num_samples} samples, but worker {first} with "
                f"{known}.\n  Let every worker call worker.share alike: on the same data, equally often; read what "
                "only one of them needs without it."
            )


def check_share(share: str) -> None:
    """Refuse a word that is none of SHARES."""
    if share not in SHARES:
        raise ConfigError(f"share '{share}' is not known.\n  {did_you_mean(share, SHARES)}")


def check_sharing(strategy: Strategy, name: str, share: str) -> None:
    """Refuse shares that a strategy cannot work with."""
    if share == STATIC:
        return
    if strategy.deals_portions:
        raise ConfigError(
            f"'{name}' hands out the data itself, so --share {share} has nothing to say there.\n  Leave it out."
        )
    if share == STEALING and strategy.keeps_step:
        raise ConfigError(
            f"the workers of '{name}' wait for each other's steps, but with --share stealing each makes as many as it "
            f"can.\n  Use --share proportional, which keeps the steps of all equal, or a strategy whose workers do not "
            "wait: 'async_gossip', 'ssp(staleness=None)' or 'hogwild'."
        )


def objection(share: str) -> Callable[[Strategy, str], None]:
    """What is to be said against a strategy when data shall be shared so."""
    check_share(share)
    return lambda strategy, name: check_sharing(strategy, name, share)


def with_share(label: str, share: str) -> str:
    """How tables call a run whose data is shared so."""
    return label if share == STATIC else f"{label} share={share}"

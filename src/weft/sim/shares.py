"""Shares of data in virtual time: what simulated workers ask for is decided at once, with virtual seconds."""

from collections.abc import Iterator, Sequence
from functools import partial

from weft.data.proportional import EVERY, Done, parts_of
from weft.data.shares import STATIC, Shares
from weft.sim.facts import Facts


class VirtualShares(Shares):
    """The shares of all workers of one simulation."""

    def __init__(self, num_workers: int, share: str = STATIC, every: int = EVERY) -> None:
        super().__init__(num_workers, share, every)
        self.facts: Facts | None = None
        """Of the simulation, once it has begun."""

    def ask(self, worker: int, share: int, num_samples: int, block: int) -> Sequence[float]:
        """What part of its global batches each worker takes in a block, by what has been measured until now."""
        self.check(worker, share, num_samples)
        if self.facts is not None and not self.fractions.is_decided(share, block):
            facts = self.facts
            for each, done in enumerate(zip(facts.steps, facts.samples_of, facts.stepped_s, strict=True)):
                self.fractions.tell(each, Done(*done))
        return self.fractions.ask(share, block)

    def take(self, worker: int, share: int, num_samples: int, num_portions: int) -> int | None:
        """The next portion of a share; None when all are taken."""
        self.check(worker, share, num_samples)
        return self.queues.take(worker, share, num_portions)

    def sizes(self, worker: int, share: int, spans: Sequence[tuple[int, int]]) -> Iterator[int]:
        """The samples of one worker's batches of a share, each decided when it is drawn.

        `spans` are the portions if workers steal, else the global batches.
        """
        num_samples = spans[-1][1]
        if self.steals:
            while (portion := self.take(worker, share, num_samples, len(spans))) is not None:
                start, stop = spans[portion]
                yield stop - start
        else:
            assert self.every is not None
            for start, stop in parts_of(spans, worker, self.every, partial(self.ask, worker, share, num_samples)):
                yield stop - start

"""A model that is a ledger: what its numbers are says which gradients were applied, and with what weight.

The gradient of a worker's life l at its step s is the unit vector of the pair (l, s), in every bucket, and the
optimizer adds it: so the parameters of any replica, however they came about, hold at (l, s) the weight of that
contribution. The first life of worker w is l = w; each newcomer, also one that replaces a lost worker, is one more. The
first number is 1 from the start, in all replicas: the ground. Everything that is linear can be read off exactly.

Where messages are coded a contribution has several places: a codec that says little says some of them later.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from math import isqrt, nan
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.names import GIVEN, GRADIENT, PARAMS, Bucket, NodeId, Tensors
from weft.sim.program import BackwardDone, PortionWanted, ReportDone, Request, StepDone

Array = NDArray[np.float64]

GROUND = 0
STATE_ELEMENTS = 3
"""The size of a bucket that is not trained."""
TUNED_ELEMENTS = 2
"""How many hyper-parameters a strategy that tunes may change."""


@dataclass(frozen=True)
class Book:
    """How a ledger is laid out: a place for each step of each life."""

    owners: tuple[NodeId, ...]
    """The worker whose life each is."""
    num_steps: int
    num_trained: int = 1
    has_state: bool = False
    has_tuned: bool = False
    width: int = 1
    """How many places a contribution has."""

    @property
    def num_elements(self) -> int:
        return 1 + len(self.owners) * self.num_steps * self.width

    def place(self, life: int, step: int) -> int:
        """The first place of a contribution."""
        return 1 + (life * self.num_steps + step) * self.width

    def places(self, life: int, step: int) -> slice:
        """All its places."""
        return slice(self.place(life, step), self.place(life, step) + self.width)

    def contribution(self, place: int) -> tuple[int, int]:
        """The (life, step) of a place after the ground."""
        return divmod((place - 1) // self.width, self.num_steps)

    def name(self, place: int) -> str:
        """What stands at a place."""
        return "the ground" if place == GROUND else "step {1} of {0}".format(*self.named(place))

    def named(self, place: int) -> tuple[str, int]:
        """Whose step stands at a place after the ground, and which."""
        life, step = self.contribution(place)
        owner = self.owners[life]
        return f"worker {owner}" if life == owner else f"worker {owner} (life {life})", step

    @property
    def buckets(self) -> tuple[Bucket, ...]:
        state = (Bucket(STATE_ELEMENTS, 8, trainable=False),) * self.has_state
        tuned = (Bucket(TUNED_ELEMENTS, 8, trainable=False, tuned=True),) * self.has_tuned
        return (Bucket(self.num_elements, 8, tensors=self._tensors),) * self.num_trained + state + tuned

    @property
    def _tensors(self) -> Tensors:
        """Wide books are for codecs, some of which want a matrix: the largest square one after the ground."""
        side = isqrt(self.num_elements - 1)
        return ((GROUND + 1, (side, side)),) if self.width > 1 else ()


class LedgerReplica:
    """A replica whose optimizer adds gradients as they are, times the scale."""

    num_optimizers = 1

    def __init__(self, book: Book, *, is_empty: bool = False, params: Sequence[Array] | None = None) -> None:
        self.buckets = book.buckets
        self._arrays = {
            PARAMS: [np.zeros(kind.num_elements) for kind in self.buckets] if params is None else list(params),
            GRADIENT: [np.zeros(kind.num_elements) for kind in self.buckets],
        }
        self._arrays[GIVEN] = self._arrays[GRADIENT]
        if params is None and not is_empty:
            for kind, array in zip(self.buckets, self._arrays[PARAMS], strict=True):
                array[: kind.num_elements if kind.tuned else GROUND + 1] = 1.0

    def names(self, bucket: int) -> Sequence[str]:
        return ["the book"]

    def array(self, slot: str, bucket: int) -> Array:
        return self._arrays[slot][bucket]

    def steps(self, bucket: int) -> bool:
        return True

    @property
    def params(self) -> list[Array]:
        """The memory itself."""
        return self._arrays[PARAMS]

    def apply(self, gradients: Mapping[int, Any], scale: float, hyper: Any | None) -> None:
        for bucket, gradient in gradients.items():
            self._arrays[PARAMS][bucket] += scale * gradient

    def hyper(self) -> Any:
        return None

    def give_up_momentum(self) -> float:
        """There is none."""
        return 0.0


class LedgerProgram:
    """A worker's script: writes its contribution down, step after step, and reports now and then.

    `samples` says how many each of its steps has.
    With `num_portions` its steps are those of shares of so many portions, which are handed out.
    """

    def __init__(
        self,
        life: int,
        replica: LedgerReplica,
        book: Book,
        samples: Sequence[float],
        epoch_steps: int,
        num_steps: int,
        not_finite: frozenset[int],
        seed: int,
        num_portions: int | None = None,
    ) -> None:
        self.life = life
        self.first_step = 0
        self.has_begun = False
        self._replica, self._book = replica, book
        self._samples, self._not_finite = samples, not_finite
        self._rng = Random(f"losses/{seed}/{life}")
        if num_portions is None:
            self._requests = self._run(epoch_steps, num_steps)
        else:
            self._requests = self._take(num_portions, num_steps)

    def begin_at(self, step: int) -> None:
        self.first_step = step

    def resume(self) -> Request | None:
        self.has_begun = True
        return next(self._requests, None)

    def _step(self, step: int) -> Generator[Request, None, None]:
        replica = self._replica
        for bucket, kind in enumerate(replica.buckets):
            if kind.trainable:
                gradient = replica.array(GRADIENT, bucket)
                gradient[:] = 0.0
                gradient[self._book.places(self.life, step)] = nan if step in self._not_finite else 1.0
        yield BackwardDone(self._samples[step])
        yield StepDone(self._samples[step], self._rng.random())

    def _run(self, epoch_steps: int, num_steps: int) -> Generator[Request, None, None]:
        for step in range(self.first_step, num_steps):
            yield from self._step(step)
            if (step + 1) % epoch_steps == 0:
                yield ReportDone(step // epoch_steps, {"loss": self._rng.random()})

    def _take(self, num_portions: int, num_steps: int) -> Generator[Request, None, None]:
        """As many shares as have so many portions in all; ends earlier after as many steps of its own.

        A newcomer's first step has the number of the share that is under way.
        """
        step = self.first_step
        for epoch in range(self.first_step, self._book.num_steps // num_portions):
            while True:
                wanted = PortionWanted(epoch, num_portions)
                yield wanted
                if wanted.portion is None:
                    break
                yield from self._step(step)
                step += 1
                if step >= num_steps:
                    return
            yield ReportDone(epoch, {"loss": self._rng.random()})

"""A tiny network that keeps the promises of decision 0017: workers that reduce, some of which are lost on the way."""

from collections import deque
from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from support.simulated.reducers import ReduceOnce
from weft.config.registry import lowered
from weft.core.actions import Action, Combine, Compute, Send
from weft.core.events import Event, MembersChanged, Received, Returned, Started, StepFinished
from weft.core.names import INBOX, PARAMS, Bucket, Buffer, Role, Roles
from weft.core.recorder import node_rng
from weft.core.world import World
from weft.store.numpy import NumpyStore

Array = NDArray[Any]

WEIGHTS = (2.0, 1.0, 0.5, 5.0, 3.0, 4.0)


class Arrays:
    """A replica of nothing but parameters."""

    def __init__(self, buckets: Sequence[Bucket]) -> None:
        self._params = [np.zeros(bucket.num_elements) for bucket in buckets]

    def array(self, slot: str, bucket: int) -> Array:
        assert slot == PARAMS
        return self._params[bucket]


class MessageInFlight(NamedTuple):
    """A message under way."""

    number: int
    view: int
    to: int
    action: Send
    payload: Array | None


class Crew:
    """Workers, two on each host, that reduce `num_steps` times.

    Whatever can happen next happens in an order drawn from a seed.
    """

    def __init__(
        self,
        collective: str,
        num_workers: int,
        num_buckets: int = 1,
        num_steps: int = 2,
        seed: int = 0,
    ) -> None:
        strategy = lowered(ReduceOnce(), collective)
        buckets = tuple(Bucket(5 + b, 8) for b in range(num_buckets))
        hosts = tuple(worker // 2 for worker in range(num_workers))
        self.world = World(Roles(num_workers), buckets, hosts=hosts)
        slots = [slot.name for slot in strategy.slots(Role.WORKER, self.world)]
        self.peers: Any = [strategy.peer(w, self.world, node_rng(seed, w)) for w in self.world.workers]
        self.stores: Any = [NumpyStore(Arrays(buckets), slots, {}) for _ in self.peers]  # type: ignore[arg-type]
        self.num_steps = num_steps
        self.views: list[tuple[int, ...]] = [self.world.workers]
        self.at_view = [0] * num_workers
        self.computes: list[int | None] = [None] * num_workers
        self.results: list[dict[tuple[int, int], Array]] = [{} for _ in self.peers]
        self.channels: dict[tuple[int, int], deque[MessageInFlight]] = {}
        self.num_sent = 0
        self._rng = Random(seed)
        for worker in self.world.workers:
            self.tell(worker, Started(0))

    @property
    def alive(self) -> tuple[int, ...]:
        return self.views[-1]

    def gives(self, worker: int, step: int, bucket: int) -> Array:
        """What a worker contributes: different for each element of each step."""
        size = self.world.buckets[bucket].num_elements
        return np.arange(size) + 10.0 * worker + 100.0 * step + 1000.0 * bucket

    def tell(self, worker: int, event: Event, payload: Array | None = None) -> None:
        store = self.stores[worker]
        store.receive(getattr(event, "body", None), payload, None)
        self._perform(worker, list(self.peers[worker].handle(event, 0.0)))
        store.receive(None, None, None)

    def _perform(self, worker: int, actions: list[Action]) -> None:
        for place, action in enumerate(actions, 1):
            if isinstance(action, Combine):
                self.stores[worker].combine(action)
            elif isinstance(action, Send):
                payload = None if action.body is None else self.stores[worker].capture(action.body)
                message = MessageInFlight(self.num_sent, self.at_view[worker], action.to, action, payload)
                self.channels.setdefault((worker, action.to), deque()).append(message)
                self.num_sent += 1
            else:
                assert isinstance(action, Compute)
                assert place == len(actions)
                self.computes[worker] = action.step

    def moves(self) -> list[tuple[Any, ...]]:
        """What can happen next."""
        moves: list[tuple[Any, ...]] = []
        for worker in self.alive:
            if self.at_view[worker] < len(self.views) - 1:
                moves.append((self.change, worker))
            if self.computes[worker] is not None:
                moves.append((self.compute, worker))
        for source, target in sorted(self.channels):
            messages = self.channels[source, target]
            if messages and target in self.alive and messages[0].view == self.at_view[target]:
                moves.append((self.deliver, source, target))
        return moves

    def move(self) -> bool:
        """Let one thing happen; False if nothing can."""
        moves = self.moves()
        if moves:
            act, *arguments = self._rng.choice(moves)
            act(*arguments)
        return bool(moves)

    def change(self, worker: int) -> None:
        """Tell a worker its next view, and then what did not arrive in the one before."""
        self.at_view[worker] += 1
        view = self.at_view[worker]
        lost: list[MessageInFlight] = []
        for (source, _), messages in self.channels.items():
            if source == worker:
                lost += messages
                messages.clear()
        self.tell(worker, MembersChanged(view, self.views[view], "lost somebody"))
        self._give_back(worker, lost)

    def break_channel(self, source: int, target: int) -> None:
        """All that is under way on a channel comes back to its sender."""
        lost = list(self.channels[source, target])
        self.channels[source, target].clear()
        self._give_back(source, lost)

    def _give_back(self, worker: int, lost: list[MessageInFlight]) -> None:
        for _, view, _, sent, payload in sorted(lost, key=lambda message: message.number):
            body = None if sent.body is None else Buffer(INBOX, sent.bucket, sent.body.part)
            event = Returned(sent.to, sent.kind, sent.clock, sent.bucket, body, sent.weight, sent.data, view)
            self.tell(worker, event, payload)

    def deliver(self, source: int, target: int) -> None:
        _, _, _, sent, payload = self.channels[source, target].popleft()
        body = None if sent.body is None else Buffer(INBOX, sent.bucket, sent.body.part)
        event = Received(source, sent.kind, sent.clock, sent.bucket, body, sent.weight, sent.data)
        self.tell(target, event, payload)

    def compute(self, worker: int) -> None:
        """Let a script run: it looks at what was reduced and gives what is to be reduced next."""
        step, self.computes[worker] = self.computes[worker], None
        assert step is not None
        for bucket in range(len(self.world.buckets)):
            if step:
                self.results[worker][step - 1, bucket] = self._params(worker, bucket).copy()
            self._params(worker, bucket)[:] = self.gives(worker, step, bucket)
        self.stores[worker].forget_captured()
        if step < self.num_steps:
            self.tell(worker, StepFinished(step, WEIGHTS[worker], None))

    def _params(self, worker: int, bucket: int) -> Array:
        array: Array = self.stores[worker].replica.array(PARAMS, bucket)
        return array

    def lose(self, worker: int) -> None:
        """A worker dies; the others are told one by one, in a new view."""
        self.views.append(tuple(other for other in self.alive if other != worker))

    def run(self, num_moves: int | None = None) -> int:
        """Let so many things happen, or all; returns how many did."""
        done = 0
        while (num_moves is None or done < num_moves) and self.move():
            done += 1
        return done

    def mean(self, members: tuple[int, ...], step: int, bucket: int) -> Array:
        """What these workers' contributions amount to."""
        weights = [WEIGHTS[worker] for worker in members]
        return np.average([self.gives(worker, step, bucket) for worker in members], axis=0, weights=weights)

    def disagreements(self) -> list[str]:
        """Who has not ended all reductions, or not with the same bits: the mean over the members of some view."""
        num_all = self.num_steps * len(self.world.buckets)
        found = [
            f"worker {worker} waits for {self.peers[worker].waiting_for()}"
            for worker in self.alive
            if len(self.results[worker]) < num_all
        ]
        for (step, bucket), value in self.results[self.alive[0]].items():
            means = [self.mean(members, step, bucket) for members in self.views]
            if not any(np.allclose(value, mean, rtol=1e-12) for mean in means):
                found.append(f"step {step}, bucket {bucket}: {value} is nobody's mean")
            found += [
                f"step {step}, bucket {bucket}: worker {worker} has another value"
                for worker in self.alive
                if not np.array_equal(self.results[worker].get((step, bucket), 0.0), value)
            ]
        return found

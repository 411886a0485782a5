"""The worker runtime: memory, transport, peers and driver of a worker process, once its model's layout is known."""

from collections.abc import Callable, Sequence
from typing import Any

from weft.core.names import NodeId, Result
from weft.core.recorder import Recording, replay
from weft.core.strategy import Strategy
from weft.core.world import World
from weft.data.share_records import Reached
from weft.observe.records.status import CodingStatus, DeviceStatus, LinkStatus, in_all
from weft.runtime.driver import DrivenNode, Driver
from weft.runtime.mailbox import Mailbox
from weft.runtime.measure.metrics import Metrics
from weft.runtime.messages import Concluded, WorkerJob
from weft.runtime.reduce.device import DeviceReduce
from weft.store.arena import Arena
from weft.store.coded import told_by
from weft.store.result import ResultModel
from weft.transports.bells import Bells

REACHED = 4
"""The first of three words of a worker's own line in the arena: shares begun, the oldest that is open, its rounds."""
NONE = -1

Wait = Callable[[Callable[[], bool]], None]


class WorkerRuntime:
    """The strategy, world, driver and mailbox of one worker process while it trains."""

    def __init__(
        self,
        job: WorkerJob,
        strategy: Strategy,
        world: World,
        bells: Bells,
        driver: Driver,
        mailbox: Mailbox,
        arena: Arena,
    ) -> None:
        self._job = job
        self.strategy = strategy
        self.world = world
        self.bells = bells
        self.driver = driver
        self._mailbox = mailbox
        self._arena = arena
        self.recording: Recording | None = None
        self.prices_s: dict[str, float] = {}
        """Predicted seconds of all reductions of a step on the host and on devices; empty if no worker has a device."""

    @property
    def worker(self) -> DrivenNode:
        return self.driver.worker

    @property
    def keeps_step(self) -> bool:
        return self.strategy.keeps_step

    @property
    def needs_background(self) -> bool:
        """Whether messages may have to be answered while the script computes."""
        reduce = self.driver.reduce
        return reduce is None or reduce.needs_background or not self.strategy.keeps_replicas_equal

    def background_may_rest(self) -> bool:
        """Whether the background driver may sleep until the script's next call, or until a stranger connects: not if
        messages are unsent."""
        reduce, transport = self.driver.reduce, self._mailbox.transport
        if reduce is None or not reduce.may_rest() or not self.strategy.keeps_replicas_equal:
            return False
        assert transport is not None
        return not transport.outbox_bytes() and not transport.is_answering()

    @property
    def descriptors(self) -> list[int]:
        assert self._mailbox.transport is not None
        return self._mailbox.transport.fileno_set()

    @property
    def doors(self) -> list[int]:
        """Of these, what tells of strangers, which connect whatever the script does."""
        assert self._mailbox.transport is not None
        return self._mailbox.transport.door_set()

    def is_choked(self) -> bool:
        """Whether the outbox exceeds `outbox_bytes_max`, so that the script has to wait (backpressure)."""
        assert self._mailbox.transport is not None
        return self._mailbox.transport.outbox_bytes() > self._job.outbox_bytes_max

    def tell_counters(self, metrics: Metrics) -> None:
        """Let the metrics read the counters of driver and transport."""
        metrics.observe(self)

    def counters(self) -> tuple[int, int, int]:
        """Bytes that this process sent or summed in shared memory, copies made, and frames refused."""
        transport, reduce, params = self._mailbox.transport, self.driver.reduce, self.driver.shared_params
        assert transport is not None
        copies = transport.num_copies + sum(node.store.num_copies for node in self.driver.nodes.values())
        shared = (0, 0) if reduce is None else (reduce.bytes_shared, reduce.num_copies)
        copies += 0 if params is None else params.num_copies
        return transport.bytes_sent + shared[0], copies + shared[1], sum(transport.refused.values())

    def links(self) -> list[LinkStatus]:
        """What the TCP connections to other processes have carried; empty without sockets."""
        assert self._mailbox.transport is not None
        return [LinkStatus(rank, *one) for rank, one in sorted(self._mailbox.transport.traffic().items())]

    def device(self) -> DeviceStatus | None:
        """Bytes copied to and from this worker's device; None if the worker has none."""
        reduce = self.driver.reduce
        if not isinstance(reduce, DeviceReduce) or reduce.device is None:
            return None
        place = " and ".join(sorted(set(reduce.places), reverse=True))
        return DeviceStatus(reduce.device.bytes_in, reduce.device.bytes_out, place, self.prices_s)

    def coding(self) -> CodingStatus | None:
        """What the codecs have done so far; None if the strategy has none."""
        if not self.strategy.codecs():
            return None
        stores = [node.store for node in self.driver.nodes.values()]
        return in_all(told_by(store.meter, store.residual_norm()) for store in stores)

    def check_alive(self) -> None:
        """Raise Deadlock when this worker waits for one whose script has ended; not where the others then go on without
        that one, because a loss has given them more steps."""
        if self._job.survives and not self.strategy.keeps_replicas_equal:
            return
        if self.driver.reduce is not None:
            self.driver.reduce.check_alive()
        if self.driver.shared_params is not None:
            self.driver.shared_params.check_alive()

    def waiting_for(self) -> str:
        """A phrase for messages: what this worker waits for, and for which workers, as far as is known."""
        params = self.driver.shared_params
        if params is not None and (late := params.waits_for()):
            return f"the others' part of the update ({_names(late)})"
        late = [] if self.driver.reduce is None else self.driver.reduce.waits_for()
        return self.worker.peer.waiting_for() + (f" ({_names(late)})" if late else "")

    def traffic(self) -> tuple[dict[int, int], dict[int, int]]:
        """Number of frames that this process has sent to each other one, and received from it."""
        return dict(self._mailbox.sent), dict(self._mailbox.received)

    def places(self) -> list[int]:
        """The process of each node."""
        return list(self._mailbox.places)

    def say_ended(self) -> None:
        """Tell the other workers' reductions that this worker's script has ended."""
        if self.driver.reduce is not None:
            self.driver.reduce.say_ended()

    def publish(self, reached: Reached) -> None:
        """Write to the arena where this worker is in its shares: it is read there if this process dies."""
        share = min(reached.rounds, default=NONE)
        line, words = self._arena.worker_line(self._arena.local_rank) + REACHED, self._arena.words
        words[line], words[line + 1], words[line + 2] = reached.begun, share, reached.rounds.get(share, 0)

    def published(self, rank: int) -> Reached | None:
        """Where another worker is, or was when it died, as far as the oldest share that it had begun; None: it is on
        another host."""
        if rank not in self._arena.ranks:
            return None
        line = self._arena.worker_line(self._arena.ranks.index(rank)) + REACHED
        begun, share, num_rounds = self._arena.words[line : line + 3]
        return Reached(begun, {} if share == NONE else {share: num_rounds})

    def close(self) -> None:
        """Say goodbye on all connections and close them: from now on, this process and the others may end."""
        assert self._mailbox.transport is not None
        if self.driver.reduce is not None:
            self.driver.reduce.close()
        self._mailbox.transport.close()

    def result(self, wait: Wait, best: NodeId = 0) -> ResultModel:
        """The run's result as it is now; fetches parameters from other processes. `best` has the best score."""
        if self.strategy.result is not Result.REPLICA:
            nodes, buckets = [*self.world.workers, *self.world.servers], range(len(self.world.buckets))
            self._mailbox.fetch(self._job.rank, [(node, bucket) for node in nodes for bucket in buckets], wait)
            fetched, workers = (
                [_Fetched(self._mailbox, node) for node in nodes],
                self._mailbox.living(self.world.workers),
            )
            is_alone = (self.worker.computes or 0) < self.strategy.first_exchange
            which, lend = self.strategy.result, self.worker.store.lend
            there = best if best in workers else min(workers)  # the best may have been lost since it was told
            return ResultModel(which, self.world, fetched, lambda: there, lend, lambda: is_alone, workers)
        return ResultModel(Result.REPLICA, self.world, [self.worker.store.replica] * self.world.num_workers)

    def conclude(self, wait: Wait, distance: float | None, num_unused: int, *, with_consensus: bool) -> Concluded:
        """The worker's last message: the consensus distance, measured unless replicas are equal by design, and the
        differences of a replay, if the run was recorded."""
        is_looked_at = with_consensus and self.strategy.result is not Result.REPLICA
        consensus = self.result(wait).consensus() if is_looked_at else distance
        differences = None
        if self.recording is not None:
            differences = replay(self.recording, self.strategy, self.world, self._job.seed)
        return Concluded(consensus, differences, dict(self.driver.ages), num_unused)


def _names(workers: Sequence[int]) -> str:
    return ", ".join(f"worker {worker}" for worker in workers)


class _Fetched:
    """The fetched parameters of another node, in the form in which ResultModel reads replicas."""

    def __init__(self, mailbox: Mailbox, node: NodeId) -> None:
        self._mailbox = mailbox
        self._node = node

    def array(self, slot: str, bucket: int) -> Any:
        return self._mailbox.fetched(self._node, bucket)

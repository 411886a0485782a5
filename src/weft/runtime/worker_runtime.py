"""The worker runtime: memory, transport, peers and driver of a worker process, once its model's layout is known."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from weft.core.errors import ConfigError
from weft.core.names import PARAMS, Bucket, NodeId, Result, Role
from weft.core.recorder import Recording, replay
from weft.core.script_state import ScriptState
from weft.core.seat import Replica, ReplicaMemory, name_at
from weft.core.strategy import Strategy
from weft.core.world import World
from weft.cost.links import Link
from weft.cost.staging import prices_s
from weft.observe.records.status import CodingStatus, DeviceStatus, LinkStatus, in_all
from weft.runtime.connections import LOOPBACK, SHM, TORCH, Connections
from weft.runtime.driver import DrivenNode, Driver
from weft.runtime.mailbox import Mailbox, kinds_of, rank_of
from weft.runtime.measure.metrics import Metrics
from weft.runtime.measure.tracer import Tracer
from weft.runtime.messages import Concluded, WorkerJob
from weft.runtime.reduce.agreed import AgreedReduce, apart_memory
from weft.runtime.reduce.between_hosts import Plan
from weft.runtime.reduce.device import (
    DeviceReduce,
    all_speeds,
    chosen_places,
    have_all_told,
    measured,
    tell_speeds,
)
from weft.runtime.reduce.hosts import HostsReduce
from weft.runtime.reduce.shared import SharedReduce
from weft.runtime.shared_params import STEPPING, SharedParams
from weft.store.arena import Arena
from weft.store.building import build_store
from weft.store.coded import coded_bytes_max, told_by
from weft.store.devices import FakeDevice
from weft.store.live import LiveStore
from weft.store.preparing import ready_codecs
from weft.store.result import ResultModel
from weft.transports.bells import Bells
from weft.transports.frames import Layout
from weft.transports.summing import Summing

Wait = Callable[[Callable[[], bool]], None]


class WorkerRuntime:
    """The strategy, world, driver and mailbox of one worker process while it trains."""

    def __init__(
        self, job: WorkerJob, strategy: Strategy, world: World, bells: Bells, driver: Driver, mailbox: Mailbox
    ) -> None:
        self._job = job
        self.strategy = strategy
        self.world = world
        self.bells = bells
        self.driver = driver
        self._mailbox = mailbox
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
        """Whether the background driver may sleep until the script's next call: not if messages are unsent."""
        reduce, transport = self.driver.reduce, self._mailbox.transport
        if reduce is None or not reduce.may_rest() or not self.strategy.keeps_replicas_equal:
            return False
        assert transport is not None
        return not transport.outbox_bytes()

    @property
    def descriptors(self) -> list[int]:
        assert self._mailbox.transport is not None
        return self._mailbox.transport.fileno_set()

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
        """Raise Deadlock when this worker waits for one whose script has ended."""
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

    def say_ended(self) -> None:
        """Tell the other workers' reductions that this worker's script has ended."""
        if self.driver.reduce is not None:
            self.driver.reduce.say_ended()

    def close(self) -> None:
        """Say goodbye on all connections and close them: from now on, this process and the others may end."""
        assert self._mailbox.transport is not None
        if self.driver.reduce is not None:
            self.driver.reduce.close()
        self._mailbox.transport.close()

    def result(self, wait: Wait, best: NodeId = 0) -> ResultModel:
        """The run's result as it is now; fetches parameters from other processes. `best` has the best score."""
        if self.strategy.result is not Result.REPLICA:
            nodes = [*self.world.workers, *self.world.servers]
            buckets = range(len(self.world.buckets))
            self._mailbox.fetch(self._job.rank, [(node, bucket) for node in nodes for bucket in buckets], wait)
            fetched = [_Fetched(self._mailbox, node) for node in nodes]
            is_alone = (self.worker.computes or 0) < self.strategy.first_exchange
            which, lend = self.strategy.result, self.worker.store.lend
            return ResultModel(which, self.world, fetched, lambda: best, lend, lambda: is_alone)
        return ResultModel(Result.REPLICA, self.world, [self.worker.store.replica] * self.world.num_workers)

    def conclude(self, wait: Wait, distance: float | None, *, with_consensus: bool) -> Concluded:
        """The worker's last message: the consensus distance, measured unless replicas are equal by design, and the
        differences of a replay, if the run was recorded."""
        is_looked_at = with_consensus and self.strategy.result is not Result.REPLICA
        consensus = self.result(wait).consensus() if is_looked_at else distance
        differences = None
        if self.recording is not None:
            differences = replay(self.recording, self.strategy, self.world, self._job.seed)
        return Concluded(consensus, differences, dict(self.driver.ages))


def _names(workers: Sequence[int]) -> str:
    return ", ".join(f"worker {worker}" for worker in workers)


class _Fetched:
    """The fetched parameters of another node, in the form in which ResultModel reads replicas."""

    def __init__(self, mailbox: Mailbox, node: NodeId) -> None:
        self._mailbox = mailbox
        self._node = node

    def array(self, slot: str, bucket: int) -> Any:
        return self._mailbox.fetched(self._node, bucket)


def _wait_for_all_values(arena: Arena, bells: Bells, wait_words: Wait) -> None:
    """Block until all workers of the host have written the initial values to the replica that they share."""
    line, workers = arena.worker_line, range(arena.num_workers)
    arena.words[line(arena.local_rank) + STEPPING] = 1
    bells.ring_scripts()
    wait_words(lambda: all(arena.words[line(worker) + STEPPING] for worker in workers))


def _arena(job: WorkerJob, buckets: Sequence[Bucket]) -> Arena:
    has_devices, ranks = bool(job.on_devices), job.on_host
    return Arena(job.descriptors.arena, job.local_rank, len(ranks), buckets, has_devices=has_devices, ranks=ranks)


def _torch(job: WorkerJob, strategy: Strategy, replica: Replica) -> Summing | None:
    """Sums by torch.distributed for --transport torch, else None; raises ConfigError where they cannot be used."""
    is_native = job.transport == TORCH and not strategy.speaks_reductions
    if replica.device is not None and not (is_native and strategy.keeps_replicas_equal):
        raise ConfigError(
            f"the model is on '{replica.device}', where its gradients can be summed but nothing else can be shared.\n"
            "  Use --transport torch with a strategy like allreduce and no codec, or keep the model on the CPU."
        )
    if not is_native:
        return None
    if len(set(job.hosts)) > 1 and job.addresses and not (job.is_private or job.trusts_network):
        raise ConfigError(
            "with --transport torch, gradients would go from host to host unencrypted, to any process that answers.\n"
            "  Use --transport shm (TLS between hosts), or say --set network.trusted=true (WEFT_SET under "
            "torchrun) if nobody else is on it."
        )
    from weft.transports.torch_distributed import torch_sums

    host = job.addresses[job.rank] if job.addresses else LOOPBACK
    return torch_sums(job.rank, job.num_workers, host, replica.device)


def _lay_out(
    job: WorkerJob,
    strategy: Strategy,
    replica: Replica,
    order: Sequence[int],
    summing: Summing | None,
    *,
    in_place: bool,
    shares_params: bool,
) -> tuple[Arena, ReplicaMemory | None]:
    """Lay the replica out: in memory made for reductions if it is reduced `in_place` or shared, else in its own memory.

    Returns the arena, and the memory made for the replica (None if it stays in its own).
    """
    arenas: list[Arena] = []
    found: list[ReplicaMemory] = []

    def allocate(buckets: Sequence[Any]) -> ReplicaMemory:
        arenas.append(_arena(job, buckets))
        if strategy.shares_replica:
            found.append(arenas[0].common_memory())
        elif summing is not None:
            found.append(apart_memory(buckets, summing))
        else:
            found.append(arenas[0].replica_memory(shares_params=shares_params))
        return found[0]

    if in_place or strategy.shares_replica:
        replica.settle(order, allocate, job.bucket_bytes_max)
    else:
        replica.settle(order, None, job.bucket_bytes_max)
        if strategy.tunes:
            replica.share_tuned()
        arenas.append(_arena(job, replica.buckets))
    return arenas[0], found[0] if found else None


def _reduce_here(
    runtime: WorkerRuntime,
    job: WorkerJob,
    arena: Arena,
    store: LiveStore,
    wait_words: Wait,
    plan: Plan,
    *,
    is_given: bool,
    tracer: Tracer | None,
) -> SharedReduce:
    """The native reduction in shared memory, followed by one between hosts if there are several.

    With devices: measures this worker's copies and sums, publishes the speeds, and waits for the others' speeds, from
    which all workers choose the same places.
    """
    if job.hosts:
        return HostsReduce(
            arena,
            runtime.bells,
            store,
            gradient_is_given=is_given,
            tracer=tracer,
            hosts=job.hosts,
            mailbox=runtime._mailbox,
            plan=plan,
        )
    if not job.on_devices:
        return SharedReduce(arena, runtime.bells, store, gradient_is_given=is_given, tracer=tracer)
    device = None if job.device is None else FakeDevice(Link(*job.device))
    tell_speeds(arena, measured(device))
    runtime.bells.ring_scripts()
    wait_words(lambda: have_all_told(arena))
    speeds, sizes = all_speeds(arena), [bucket.num_bytes for bucket in arena.buckets]
    runtime.prices_s = prices_s(sizes, speeds)
    places = chosen_places(job.reduce_place, sizes, speeds)
    return DeviceReduce(
        arena,
        runtime.bells,
        store,
        gradient_is_given=is_given,
        tracer=tracer,
        device=device,
        on_devices=job.on_devices,
        places=places,
    )


def _world(job: WorkerJob, strategy: Strategy, buckets: tuple[Bucket, ...]) -> World:
    """The world of a run; a server is on the host of the worker process that hosts it."""
    world = World(strategy.roles(job.num_workers), buckets, strategy.graph(job.num_workers))
    if not job.hosts:
        return world
    return replace(world, hosts=tuple(job.hosts[rank_of(world, node)] for node in range(world.num_nodes)))


def _stores(
    job: WorkerJob,
    strategy: Strategy,
    world: World,
    replica: Replica,
    codecs: Mapping[str, Any],
    name: str,
    script: ScriptState | None,
) -> dict[NodeId, LiveStore]:
    """The stores of this process's nodes: its worker, and the servers that it hosts."""
    stores: dict[NodeId, LiveStore] = {}
    for node in range(world.num_nodes):
        if rank_of(world, node) != job.rank:
            continue
        is_server = world.role(node) is Role.SERVER
        stores[node] = build_store(
            LiveStore,
            strategy,
            world,
            node,
            replica.twin() if is_server else replica,
            codecs=codecs,
            seed=job.seed,
            name=name,
            script=None if is_server else script,
        )
        if strategy.averages_steps:
            stores[node].replica.expect_equal_steps(len(world.workers))
    return stores


def build(
    job: WorkerJob,
    strategy: Strategy,
    replica: Replica,
    order: Sequence[int],
    connections: Connections,
    ports: list[int],
    wait_words: Wait,
    plan: Plan,
    tracer: Tracer | None = None,
    name: str = "",
    script: ScriptState | None = None,
) -> WorkerRuntime:
    """Lay the replica out, connect to the other processes, and make stores, driver and reductions.

    `name` is the strategy's name in error messages; `script` is the state of this worker's script.
    """
    is_native = job.transport in (SHM, TORCH) and not strategy.speaks_reductions
    summing = _torch(job, strategy, replica)
    in_place = is_native and strategy.keeps_replicas_equal
    shares_params = in_place and replica.shares_update and job.transport == SHM and not job.on_devices
    arena, memory = _lay_out(job, strategy, replica, order, summing, in_place=in_place, shares_params=shares_params)
    lines = [arena.sleeping_line(local_rank) for local_rank in range(len(job.on_host))]
    bells = Bells(job.local_rank, arena.words, lines, job.descriptors.bells)
    if strategy.shares_replica:
        _wait_for_all_values(arena, bells, wait_words)
    world = _world(job, strategy, replica.buckets)
    kinds = kinds_of(strategy.all_kinds())
    codecs = ready_codecs(strategy, [replica])
    layout = Layout(len(kinds), world.num_nodes, replica.buckets, coded_bytes_max(codecs.values(), replica.buckets))
    transport = connections.connect(world, layout, bells, ports)
    mailbox = Mailbox(world, kinds, transport, codecs, tracer)
    stores = _stores(job, strategy, world, replica, codecs, name, script)
    recording = Recording() if job.checks_replay else None
    driver = Driver(strategy, world, stores, mailbox, job.seed, recording, tracer)
    if shares_params:
        views = [replica.array(PARAMS, bucket) for bucket in world.trainable]
        driver.shared_params = SharedParams(arena, bells, wait_words, views, partial(name_at, replica))
    runtime = WorkerRuntime(job, strategy, world, bells, driver, mailbox)
    store = stores[job.rank]
    if summing is not None:
        given = memory.given if in_place and memory is not None else ()
        driver.reduce = AgreedReduce(world, job.rank, mailbox, store, summing, bells.ring_own, given, tracer)
    elif is_native:
        driver.reduce = _reduce_here(runtime, job, arena, store, wait_words, plan, is_given=in_place, tracer=tracer)
    runtime.recording = recording
    return runtime

"""Builds what a worker process runs on: lays its replica out, connects it, makes its stores, driver and reductions."""

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from msgspec.structs import replace as replace_fields

from weft.core.errors import ConfigError
from weft.core.names import PARAMS, Bucket, NodeId, Role
from weft.core.recorder import Recording
from weft.core.script_state import ScriptState
from weft.core.seat import Replica, ReplicaMemory, name_at
from weft.core.strategy import Strategy, all_kinds
from weft.core.world import World
from weft.cost.links import Link
from weft.cost.staging import prices_s
from weft.runtime.connections import LOOPBACK, TCP, TORCH, Connections
from weft.runtime.driver import Driver
from weft.runtime.mailbox import Mailbox, kinds_of, rank_of
from weft.runtime.measure.tracer import Tracer
from weft.runtime.messages import WorkerJob
from weft.runtime.reduce.agreed import AgreedReduce, apart_memory
from weft.runtime.reduce.between_hosts import Planner
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
from weft.runtime.worker_runtime import Wait, WorkerRuntime
from weft.store.arena import Arena
from weft.store.building import build_store
from weft.store.coded import coded_bytes_max
from weft.store.devices import FakeDevice
from weft.store.live import LiveStore
from weft.store.preparing import ready_codecs
from weft.transports.bells import Bells
from weft.transports.frames import Layout
from weft.transports.summing import Summing


@contextmanager
def _alone(fd: int) -> Iterator[None]:
    """A context that holds an exclusive lock on the arena (lockf); the kernel releases it if this process dies."""
    fcntl.lockf(fd, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.lockf(fd, fcntl.LOCK_UN)


def _has_values(arena: Arena) -> bool:
    """Whether a worker of the host has written the initial values to the replica that all share."""
    return any(arena.words[arena.worker_line(worker) + STEPPING] for worker in range(arena.num_workers))


def _as_reduced(job: WorkerJob, strategy: Strategy) -> WorkerJob:
    """The job as reductions see it: where workers talk by sockets only, each is a host of its own to them."""
    if job.transport != TCP or not strategy.reduces or strategy.speaks_reductions:
        return job
    own = replace_fields(
        job.descriptors, arena=os.memfd_create("weft-arena"), bells=[job.descriptors.bells[job.local_rank]]
    )
    return replace_fields(job, hosts=list(range(job.num_workers)), descriptors=own)


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
            found.append(arenas[0].common_memory(is_new=_has_values(arenas[0])))
        elif summing is not None:
            found.append(apart_memory(buckets, summing))
        else:
            found.append(arenas[0].replica_memory(shares_params=shares_params, is_new=bool(job.first_view)))
        return found[0]

    if strategy.shares_replica:  # the first to come writes the values, so that nobody waits for one that dies meanwhile
        with _alone(job.descriptors.arena):
            replica.settle(order, allocate, job.bucket_bytes_max)
            arenas[0].words[arenas[0].worker_line(arenas[0].local_rank) + STEPPING] = 1
    elif in_place:
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
    planner: Planner,
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
            planner=planner,
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
    world = World(strategy.roles(job.num_workers), buckets, strategy.graph(job.num_workers), view=job.first_view)
    if not job.hosts:
        return world
    return replace(world, hosts=tuple(job.hosts[rank_of(world, node)] for node in range(world.num_nodes)))


def _maker_of_stores(
    job: WorkerJob,
    strategy: Strategy,
    world: World,
    replica: Replica,
    codecs: Mapping[str, Any],
    name: str,
    script: ScriptState | None,
) -> Callable[[NodeId], LiveStore]:
    """Makes the stores of this process's nodes: its worker, and the servers that it hosts."""

    def of(node: NodeId) -> LiveStore:
        is_server = world.role(node) is Role.SERVER
        store = build_store(
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
            store.replica.expect_equal_steps(len(world.workers))
        return store

    return of


def build(
    job: WorkerJob,
    strategy: Strategy,
    replica: Replica,
    order: Sequence[int],
    connections: Connections,
    ports: list[int],
    wait_words: Wait,
    planner: Planner,
    tracer: Tracer | None = None,
    name: str = "",
    script: ScriptState | None = None,
) -> WorkerRuntime:
    """Lay the replica out, connect to the other processes, and make stores, driver and reductions.

    `name` is the strategy's name in error messages; `script` is the state of this worker's script.
    """
    asked, job = job, _as_reduced(job, strategy)
    is_native = not strategy.speaks_reductions and (job.transport != TCP or strategy.reduces)
    summing = _torch(job, strategy, replica)
    in_place = is_native and strategy.keeps_replicas_equal
    shares_params = in_place and replica.shares_update and job.transport != TORCH and not job.on_devices
    arena, memory = _lay_out(job, strategy, replica, order, summing, in_place=in_place, shares_params=shares_params)
    if job is not asked:
        os.close(job.descriptors.arena)  # mapped by now
    lines = [arena.sleeping_line(local_rank) for local_rank in range(len(job.on_host))]
    bells = Bells(job.local_rank, arena.words, lines, job.descriptors.bells)
    world = _world(asked, strategy, replica.buckets)
    kinds = kinds_of(all_kinds(strategy))
    codecs = ready_codecs(strategy, [replica])
    layout = Layout(len(kinds), world.num_nodes, replica.buckets, coded_bytes_max(codecs.values(), replica.buckets))
    transport = connections.connect(world, layout, bells, ports)
    mailbox = Mailbox(world, kinds, transport, codecs, tracer)
    make_store = _maker_of_stores(job, strategy, world, replica, codecs, name, script)
    nodes = [node for node in range(world.num_nodes) if rank_of(world, node) == job.rank]
    if job.first_view:  # the servers of a lost process have been moved
        nodes = [job.rank]
        mailbox.close()
    stores = {node: make_store(node) for node in nodes}
    recording = Recording() if job.checks_replay else None
    driver = Driver(strategy, world, stores, mailbox, job.seed, recording, tracer)
    driver.make_store = make_store
    if shares_params:
        views = [replica.array(PARAMS, bucket) for bucket in world.trainable]
        sharing: Any = replica  # one that shares its update has `shared_update`
        survivor = sharing.shared_update if job.survives else None
        driver.shared_params = SharedParams(arena, bells, wait_words, views, partial(name_at, replica), survivor)
    runtime = WorkerRuntime(job, strategy, world, bells, driver, mailbox, arena)
    store = stores[job.rank]
    if summing is not None:
        given = memory.given if in_place and memory is not None else ()
        driver.reduce = AgreedReduce(world, job.rank, mailbox, store, summing, bells.ring_own, given, tracer)
    elif is_native and (strategy.reduces or not job.survives or not job.hosts):  # sums between hosts do not survive
        driver.reduce = _reduce_here(runtime, job, arena, store, wait_words, planner, is_given=in_place, tracer=tracer)
    runtime.recording = recording
    return runtime

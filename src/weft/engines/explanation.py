"""How a run will be done, and what alternatives would cost: the facts that --explain shows."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weft.codecs.codec import Form
from weft.config.compression import Compression
from weft.config.compression import prices_s as scheme_prices_s
from weft.core.names import Result
from weft.core.strategy import Strategy
from weft.cost.choice import Ground, prices_s
from weft.cost.links import Link
from weft.cost.staging import AUTO, DEVICE, HOST
from weft.runtime.connections import TCP, TORCH


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """The facts of a run before its first step; they do not influence it."""

    strategy: str
    """The strategy as a user would write it."""
    method: str
    place: str
    """Where the workers run, and over which transports they communicate."""
    num_workers: int
    servers: tuple[int, ...]
    """The worker whose process hosts each server, server by server."""
    num_partners: tuple[int, int] | None
    """The smallest and the largest number of a worker's neighbours, for strategies over a topology."""
    shares_replica: bool
    keeps_step: bool
    result: Result
    bucket_bytes: tuple[int, ...]
    reduces: bool
    collective: str | None
    """The collective whose messages carry out reductions; None: they are done natively."""
    native: str
    """How native reductions are done in this run."""
    link: Link
    """The latency and bandwidth that were assumed."""
    prices_s: Mapping[str, float]
    """Seconds that the reductions of one step would take with each collective."""
    coding: "CodecExplanation | None" = None
    why: str = ""
    """Why this collective was chosen, if it was neither asked for nor is the cheapest."""


@dataclass(frozen=True)
class CodecExplanation:
    """How a model is coded, and how coded tensors are reduced."""

    codec: str
    num_bytes: int
    """Approximate size of the whole model when it is coded."""
    scheme: str | None
    """The scheme by which coded tensors are reduced; None: they are sent from node to node."""
    prices_s: Mapping[str, float]
    """Seconds that the reductions of one step would take with each scheme."""
    sums_hosts: bool = False
    """The workers of a host sum theirs first, and what is coded is the host's."""


def coded(compress: str, compression: Compression, num_bytes: int, ground: Ground) -> CodecExplanation:
    """The facts of coding a model of `num_bytes` bytes."""
    codec, scheme = compression.codec, compression.scheme
    size = codec.size(Form(max(1, num_bytes // 4)), 1 << 40)
    prices = {}
    if scheme is not None:
        prices = scheme_prices_s(codec, num_bytes, compression.num_speakers(ground), ground.slowest)
    return CodecExplanation(compress, size, scheme, prices, compression.sums_hosts)


def explained(
    strategy: Strategy,
    name: str,
    place: str,
    native: str,
    bucket_bytes: Sequence[int],
    ground: Ground,
    collective: str | None,
    coding: CodecExplanation | None = None,
    why: str = "",
) -> Explanation:
    """The facts of a run."""
    num_workers = ground.size
    graph = strategy.graph(num_workers)
    partners = None if graph is None else [len(graph.everyone(worker)) for worker in range(num_workers)]
    return Explanation(
        strategy=name,
        method=(inspect.getdoc(type(strategy)) or name).splitlines()[0],
        place=place,
        num_workers=num_workers,
        servers=tuple(server % num_workers for server in range(strategy.roles(num_workers).num_servers)),
        num_partners=None if partners is None else (min(partners), max(partners)),
        shares_replica=strategy.shares_replica,
        keeps_step=strategy.keeps_step,
        result=strategy.result,
        bucket_bytes=tuple(bucket_bytes),
        reduces=strategy.reduces,
        collective=collective,
        native=native,
        link=ground.slowest,
        prices_s=prices_s(bucket_bytes, ground),
        coding=coding,
        why=why,
    )


def native(transport: str, num_hosts: int, *, is_on_gpus: bool = False) -> str:
    """A phrase that says how native reductions (not by messages of peers) are done."""
    if transport == TORCH:
        where = " (nccl), on the GPUs where the models are" if is_on_gpus else " (gloo)"
        return f"summed by torch.distributed{where}"
    if transport == TCP:
        return "summed over sockets, piece by piece, between where the gradients and the sums lie"
    if num_hosts > 1:
        return "summed in the shared memory of each host, then between the first workers of all hosts"
    return "summed in shared memory, where the gradients lie"


def native_with_devices(on_devices: Sequence[int], place: str) -> str:
    """A phrase that says how native reductions are done where some workers have devices."""
    who = f"worker{'s' if len(on_devices) > 1 else ''} {', '.join(map(str, on_devices))}"
    ways = {
        HOST: f"summed in shared memory; what is on the devices of {who} is copied there, and the sum back",
        DEVICE: f"summed on the devices of {who}; what is on the host is copied there, and the sum back",
        AUTO: f"summed in shared memory or on the devices of {who}, whatever the workers measure to be cheaper",
    }
    return ways[place]


def cut(num_bytes: int, bucket_bytes_max: int) -> tuple[int, ...]:
    """Approximate sizes of a model's buckets, before they are made."""
    num_buckets = max(1, -(-num_bytes // bucket_bytes_max))
    return tuple(num_bytes * (i + 1) // num_buckets - num_bytes * i // num_buckets for i in range(num_buckets))

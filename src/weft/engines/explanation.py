"""How a run will be done, and what else it could cost: facts for whoever asks with --explain."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weft.codecs.codec import Form
from weft.config.compression import codec as codec_of
from weft.config.compression import prices_s as scheme_prices_s
from weft.core.names import Result
from weft.core.strategy import Strategy
from weft.cost.choice import Ground, prices_s
from weft.cost.links import Link
from weft.cost.staging import AUTO, DEVICE, HOST
from weft.runtime.connections import SHM, TORCH


@dataclass(frozen=True)
class Explanation:
    """A run before its first step. Nothing here changes what is done."""

    strategy: str
    """As a user would write it."""
    method: str
    place: str
    """Where the workers run, and by what they talk."""
    num_workers: int
    servers: tuple[int, ...]
    """The workers with whom the servers sit, server by server."""
    num_partners: tuple[int, int] | None
    """The fewest and the most others that a worker talks to, for strategies over a topology."""
    shares_replica: bool
    keeps_step: bool
    result: Result
    bucket_bytes: tuple[int, ...]
    reduces: bool
    collective: str | None
    """By whose messages reductions are done; None: natively."""
    native: str
    """What that means here."""
    link: Link
    """What was assumed of a message."""
    prices_s: Mapping[str, float]
    """What the reductions of one step would take by each collective."""
    coding: "CodecExplanation | None" = None
    why: str = ""
    """Why this collective, where it was neither asked for nor taken because it is the cheapest."""


@dataclass(frozen=True)
class CodecExplanation:
    """What a codec makes of a model, and how what is coded is reduced."""

    codec: str
    num_bytes: int
    """About what the whole model has when it is coded."""
    scheme: str | None
    """None: it is sent from node to node."""
    prices_s: Mapping[str, float]
    """What the reductions of one step would take by each scheme."""


def coded(compress: str, scheme: str | None, num_bytes: int, ground: Ground) -> CodecExplanation:
    """The facts of coding a model of so many bytes."""
    codec = codec_of(compress)
    size = codec.size(Form(max(1, num_bytes // 4)), 1 << 40)
    prices = scheme_prices_s(codec, num_bytes, ground.size, ground.slowest) if scheme is not None else {}
    return CodecExplanation(compress, size, scheme, prices)


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
        name,
        (inspect.getdoc(type(strategy)) or name).splitlines()[0],
        place,
        num_workers,
        tuple(server % num_workers for server in range(strategy.roles(num_workers).num_servers)),
        None if partners is None else (min(partners), max(partners)),
        strategy.shares_replica,
        strategy.keeps_step,
        strategy.result,
        tuple(bucket_bytes),
        strategy.reduces,
        collective,
        native,
        ground.slowest,
        prices_s(bucket_bytes, ground),
        coding,
        why,
    )


def native(transport: str, num_hosts: int, *, is_on_gpus: bool = False) -> str:
    """How sums are made where nobody speaks them in messages."""
    if transport == TORCH:
        where = " (nccl), on the GPUs where the models are" if is_on_gpus else " (gloo)"
        return f"summed by torch.distributed{where}"
    if transport != SHM:
        return ""
    if num_hosts > 1:
        return "summed in the shared memory of each host, then between the first workers of all hosts"
    return "summed in shared memory, where the gradients lie"


def native_with_devices(on_devices: Sequence[int], place: str) -> str:
    """How sums are made where some workers are on devices."""
    who = f"worker{'s' if len(on_devices) > 1 else ''} {', '.join(map(str, on_devices))}"
    ways = {
        HOST: f"summed in shared memory; what is on the devices of {who} is copied there, and the sum back",
        DEVICE: f"summed on the devices of {who}; what is on the host is copied there, and the sum back",
        AUTO: f"summed in shared memory or on the devices of {who}, whatever the workers measure to be cheaper",
    }
    return ways[place]


def cut(num_bytes: int, bucket_bytes_max: int) -> tuple[int, ...]:
    """About how large the buckets of a model will be, before they are made."""
    num_buckets = max(1, -(-num_bytes // bucket_bytes_max))
    return tuple(num_bytes * (i + 1) // num_buckets - num_bytes * i // num_buckets for i in range(num_buckets))

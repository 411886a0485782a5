"""The same codecs in torch operations, written as well as they can be without a compiler.

Sparsifiers use the same trick as Weft: a sample brackets the threshold, `topk` decides among few candidates, which is
many times faster than `topk` of everything. Work that can be done in place is.
"""

from collections.abc import Callable
from typing import Any

import torch

from weft.bench.contenders.gradients import CodecCase, compete, gradients, job_of
from weft.bench.serving import Task, own_task

Tensor = torch.Tensor
Encode = Callable[[], Any]
Decode = Callable[[Any, Tensor], Tensor]
Pair = tuple[Encode, Decode]


def cast(values: Tensor, kind: torch.dtype) -> Pair:
    """Without powers: gradients fit."""
    return lambda: values.to(kind), lambda payload, out: out.copy_(payload)


def eight(values: Tensor, block: int = 512) -> Pair:
    """e4m3 with a power of two for each block, and feedback."""
    residual = torch.zeros_like(values)

    def encode() -> tuple[Tensor, Tensor]:
        total = residual.add_(values).view(-1, block)
        peaks = torch.maximum(total.amax(1), -total.amin(1))
        powers = torch.exp2(torch.floor(torch.log2(448.0 / peaks)))[:, None]
        codes = (total * powers).to(torch.float8_e4m3fn)
        total -= codes.to(torch.float32) / powers
        return codes, powers

    def decode(payload: tuple[Tensor, Tensor], out: Tensor) -> Tensor:
        codes, powers = payload
        blocks = out.view(-1, block)
        return blocks.copy_(codes).div_(powers).view(-1)

    return encode, decode


def rounding(values: Tensor, levels: int, block: int = 512) -> Pair:
    """int8 and, in 4 bits, qsgd."""
    blocks, packs = values.view(-1, block), levels == 7

    def encode() -> tuple[Tensor, Tensor]:
        steps = torch.maximum(blocks.amax(1), -blocks.amin(1))[:, None] / levels
        codes = torch.rand_like(blocks).add_(levels).addcdiv_(blocks, steps).clamp_(max=2 * levels).to(torch.uint8)
        if packs:
            codes = codes[:, ::2] | (codes[:, 1::2] << 4)
        return codes, steps

    def decode(payload: tuple[Tensor, Tensor], out: Tensor) -> Tensor:
        codes, steps = payload
        into = out.view(-1, block)
        if packs:
            into[:, ::2] = (codes & 15).to(torch.float32)
            into[:, 1::2] = (codes >> 4).to(torch.float32)
        else:
            into.copy_(codes)
        return into.sub_(levels).mul_(steps).view(-1)

    return encode, decode


def ternary(values: Tensor, clip: float = 2.5) -> Pair:
    """Four codes to a byte."""

    def encode() -> tuple[Tensor, Tensor]:
        limit = clip * torch.linalg.vector_norm(values) / values.numel() ** 0.5
        scale = torch.minimum(limit, torch.maximum(values.amax(), -values.amin()))
        codes = torch.rand_like(values).add_(1.0).add_(values.clamp(-scale, scale).div_(scale)).clamp_(max=2.0)
        four = codes.to(torch.uint8).view(-1, 4)
        return four[:, 0] | (four[:, 1] << 2) | (four[:, 2] << 4) | (four[:, 3] << 6), scale

    def decode(payload: tuple[Tensor, Tensor], out: Tensor) -> Tensor:
        codes, scale = payload
        into = out.view(-1, 4)
        for place in range(4):
            into[:, place] = ((codes >> 2 * place) & 3).to(torch.float32)
        return out.sub_(1.0).mul_(scale)

    return encode, decode


def pack(are_high: Tensor) -> Tensor:
    """Eight to a byte."""
    eights = are_high.view(torch.uint8).view(-1, 8)
    packed = eights[:, 0].clone()
    for place in range(1, 8):
        packed |= eights[:, place] << place
    return packed


def unpack(packed: Tensor) -> Tensor:
    """What `pack` packed."""
    places = torch.arange(8, dtype=torch.uint8)
    return ((packed[:, None] >> places) & 1).view(torch.bool).view(-1)


def onebit(values: Tensor, block: int = 2048) -> Pair:
    """Two means for each block, and feedback."""
    residual = torch.zeros_like(values)

    def encode() -> tuple[Tensor, Tensor, Tensor]:
        total = residual.add_(values).view(-1, block)
        are_high = total >= 0
        number = are_high.sum(1)
        high = total.clamp(min=0.0).sum(1) / number.clamp(min=1)
        low = total.clamp(max=0.0).sum(1) / (block - number).clamp(min=1)
        total -= torch.where(are_high, high[:, None], low[:, None])
        return pack(are_high), high, low

    def decode(payload: tuple[Tensor, Tensor, Tensor], out: Tensor) -> Tensor:
        packed, high, low = payload
        blocks = out.view(-1, block)
        torch.where(unpack(packed).view(-1, block), high[:, None], low[:, None], out=blocks)
        return out

    return encode, decode


def signs(values: Tensor) -> Pair:
    """Nothing but signs."""
    ones = torch.tensor(1.0), torch.tensor(-1.0)
    return lambda: pack(values >= 0), lambda packed, out: torch.where(unpack(packed), *ones, out=out)


def largest(total: Tensor, number: int) -> Tensor:
    """Where the largest are: a sample of 32,768 brackets them."""
    sizes = total.abs()
    expected = number * 32768 / total.numel()
    sample = sizes[torch.randint(total.numel(), (32768,))]
    least = torch.topk(sample, min(int(expected + 4 * expected**0.5 + 4), 32768), sorted=False).values.min()
    candidates = torch.nonzero(sizes >= least).view(-1)
    if len(candidates) < number:
        return torch.topk(sizes, number, sorted=False).indices
    return candidates[torch.topk(sizes[candidates], number, sorted=False).indices]


def sparse(values: Tensor, fraction: float, momentum: float | None = None) -> Pair:
    """topk, and dgc, which has a velocity."""
    residual, velocity = torch.zeros_like(values), torch.zeros_like(values)
    number = -int(-fraction * values.numel() // 1)

    def encode() -> tuple[Tensor, Tensor]:
        if momentum is None:
            residual.add_(values)
        else:
            residual.add_(velocity.mul_(momentum).add_(values))
        places = largest(residual, number)
        numbers = residual[places]
        residual[places] = 0.0
        if momentum is not None:
            velocity[places] = 0.0
        return places.to(torch.int32), numbers

    return encode, scatter


def blocks(values: Tensor, number: int, block: int) -> Pair:
    """The largest of each block."""
    residual, starts = torch.zeros_like(values), torch.arange(0, values.numel(), block)[:, None]

    def encode() -> tuple[Tensor, Tensor]:
        total = residual.add_(values).view(-1, block)
        within = torch.topk(total.abs(), number, sorted=False).indices
        numbers = total.gather(1, within)
        total.scatter_(1, within, 0.0)
        return (within + starts).view(-1).to(torch.int32), numbers.view(-1)

    return encode, scatter


def scatter(payload: tuple[Tensor, Tensor], out: Tensor) -> Tensor:
    """Numbers at their places, and zeros elsewhere."""
    places, numbers = payload
    return out.zero_().index_copy_(0, places.long(), numbers)


def pair_of(job: CodecCase, values: Tensor) -> Pair:
    """How a codec is said in torch."""
    made: dict[str, Callable[[], Pair]] = {
        "fp16": lambda: cast(values, torch.float16),
        "bf16": lambda: cast(values, torch.bfloat16),
        "fp8": lambda: eight(values),
        "int8": lambda: rounding(values, 127),
        "qsgd": lambda: rounding(values, 7),
        "terngrad": lambda: ternary(values),
        "onebit": lambda: onebit(values),
        "signsgd": lambda: signs(values),
        "topk": lambda: sparse(values, 0.01),
        "blocktopk": lambda: blocks(values, 16, 512),
        "dgc": lambda: sparse(values, 0.001, 0.9),
    }
    return made[job.codec]()


def main(task: Task) -> None:
    """One thread, as Weft's codecs have."""
    torch.set_num_threads(1)
    job = job_of(task.work)
    values = gradients(job.num_elements)
    encode, decode = pair_of(job, torch.from_numpy(values))
    out = torch.empty(job.num_elements)
    compete(task, job, values, encode, lambda payload: decode(payload, out).numpy())


if __name__ == "__main__":
    main(own_task())

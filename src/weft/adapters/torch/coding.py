"""Codecs in torch operations, for tensors that are on another device: payloads are those of codecs/, byte for byte.

Casts, signs and sparsifiers make the same bytes; means of `onebit` may differ in their last digit, since sums are added
up in another order; what is rounded by chance (`int8`, `qsgd`) is drawn by torch, and decodes alike.
"""

from collections.abc import Callable
from math import frexp
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from weft.codecs import BF16, FP16, Codec, Form, Threshold, TopK, Turn
from weft.codecs.casts import LARGEST, Cast, exponents
from weft.codecs.rounding import Rounding, step_max
from weft.codecs.signs import Signs
from weft.codecs.sparse import SPAN, Sparsifier
from weft.core.errors import ConfigError

SPARE = 2.0**11
"""A block of halves whose largest is from here to 2^15 keeps the power of the block before."""


class DevicePayload(NamedTuple):
    """A payload on the device of its values, and how many of those were not finite."""

    payload: Tensor
    num_not_finite: int


class Total(NamedTuple):
    """What there is to say: where it is not finite, only the residual."""

    numbers: Tensor
    is_bad: Tensor

    @property
    def finite(self) -> Tensor:
        """With 0 where something was not finite."""
        return self.numbers.masked_fill(self.is_bad, 0)


Said = tuple[list[Tensor], Tensor]
"""The parts of a payload, and what they say."""


def encode(codec: Codec, values: Tensor, residual: Tensor | None, form: Form, turn: Turn) -> DevicePayload:
    """The payload of values + residual; what it leaves out is in the residual then, if there is one."""
    left = torch.zeros_like(values) if residual is None else residual
    together = values + left
    is_bad = ~torch.isfinite(together)
    total = Total(torch.where(is_bad, left, together), is_bad)
    parts, said = _way(codec)[0](codec, total, form, turn)
    if residual is not None:
        residual.copy_(total.numbers - said)
    return DevicePayload(torch.cat([_bytes(part) for part in parts]), int(is_bad.sum()))


def add(codec: Codec, payload: Tensor, into: Tensor, scale: float, form: Form) -> None:
    """into += scale * what a payload says, for one that was checked."""
    into.add_(_way(codec)[1](codec, payload, into, form), alpha=scale)


def _bytes(part: Tensor) -> Tensor:
    return part.contiguous().view(torch.uint8).reshape(-1)


def _blocks(numbers: Tensor, size: int, filler: float = 0.0) -> Tensor:
    """A block in each row; the last one is filled up."""
    return pad(numbers, (0, -len(numbers) % size), value=filler).view(-1, size)


def _powers(codec: Cast, blocks: Tensor, form: Form) -> Tensor:
    """The power of two of each block, chosen as the kernels do."""
    low, high = exponents(codec.kind, form.itemsize)
    powers, power = [], 1.0
    for largest in blocks.abs().amax(1).tolist():
        if not SPARE <= largest * power < 2.0**15:
            power = 2.0 ** min(max(15 - frexp(largest)[1], low), high) if largest else 1.0
        powers.append(power)
    return torch.tensor(powers, dtype=blocks.dtype, device=blocks.device)


def _cast(codec: Codec, total: Total, form: Form, turn: Turn) -> Said:
    assert isinstance(codec, Cast)
    numbers, highest = total.finite, LARGEST[codec.kind]
    if not codec.has_powers:
        codes = numbers.clamp(-highest, highest).float().bfloat16()
        return [codes], codes.to(numbers.dtype)
    blocks = _blocks(numbers, codec.block)
    powers = _powers(codec, blocks, form)
    halves = (blocks * powers[:, None]).clamp(-highest, highest).float().half()
    said = (halves.to(numbers.dtype) / powers[:, None]).view(-1)[: len(numbers)]
    return [powers, halves.view(-1)[: len(numbers)]], said


def _uncast(codec: Codec, payload: Tensor, into: Tensor, form: Form) -> Tensor:
    assert isinstance(codec, Cast)
    if not codec.has_powers:
        return payload.clone().view(torch.bfloat16).to(into.dtype)
    end = form.itemsize * -(-form.num_elements // codec.block)
    powers, halves = payload[:end].clone().view(into.dtype), payload[end:].clone().view(torch.float16)
    return (_blocks(halves.to(into.dtype), codec.block) / powers[:, None]).view(-1)[: form.num_elements]


def _sign(codec: Codec, total: Total, form: Form, turn: Turn) -> Said:
    assert isinstance(codec, Signs)
    numbers = total.numbers
    are_high = numbers >= 0
    eights = pad(are_high.to(torch.uint8), (0, -len(numbers) % 8)).view(-1, 8)
    packed = torch.zeros(len(eights), dtype=torch.uint8, device=numbers.device)
    for place in range(8):
        packed |= eights[:, place] << place
    if not codec.has_means:
        return [packed], torch.where(are_high, 1.0, -1.0).to(numbers.dtype)
    blocks = _blocks(numbers.double(), codec.block_size)
    high, low = (_mean(kind, codec.block_size, blocks) for kind in (are_high, ~are_high))
    means = torch.stack([high, low], 1).to(numbers.dtype)
    return [means, packed], _spread(means, are_high, codec.block_size)


def _mean(are_it: Tensor, size: int, blocks: Tensor) -> Tensor:
    """Of those that are one kind, in each block."""
    kind = _blocks(are_it.double(), size)
    return (blocks * kind).sum(1) / kind.sum(1).clamp(min=1)


def _spread(means: Tensor, are_high: Tensor, size: int) -> Tensor:
    """The mean that stands for each number."""
    of_blocks = means.repeat_interleave(size, 0)[: len(are_high)]
    return torch.where(are_high, of_blocks[:, 0], of_blocks[:, 1])


def _unsign(codec: Codec, payload: Tensor, into: Tensor, form: Form) -> Tensor:
    assert isinstance(codec, Signs)
    num_means = 2 * -(-form.num_elements // codec.block_size) if codec.has_means else 0
    places = torch.arange(8, dtype=torch.uint8, device=payload.device)
    bits = (payload[num_means * form.itemsize :, None] >> places) & 1
    are_high = bits.view(-1)[: form.num_elements].bool()
    if not codec.has_means:
        return torch.where(are_high, 1.0, -1.0).to(into.dtype)
    means = payload[: num_means * form.itemsize].clone().view(into.dtype).view(-1, 2)
    return _spread(means, are_high, codec.block_size)


def _round(codec: Codec, total: Total, form: Form, turn: Turn) -> Said:
    assert isinstance(codec, Rounding)
    numbers, levels = total.finite, codec.num_levels
    blocks = _blocks(numbers, codec.block_size)
    longest = step_max(form.dtype, levels)
    steps = (blocks.abs().amax(1, keepdim=True) / levels).clamp(max=longest)
    generator = torch.Generator(numbers.device).manual_seed(turn.draw & (1 << 63) - 1)
    shares = torch.rand(blocks.shape, generator=generator, device=numbers.device, dtype=numbers.dtype)
    multiples = torch.where(steps > 0, blocks / steps, 0.0)
    codes = (multiples + shares).floor().clamp(-levels, levels)
    said = (codes * steps).view(-1)[: len(numbers)]
    flat = (codes + levels).to(torch.uint8).view(-1)[: len(numbers)]
    each = 8 // codec.width
    groups = pad(flat, (0, -len(flat) % each)).view(-1, each)
    packed = torch.zeros(len(groups), dtype=torch.uint8, device=numbers.device)
    for place in range(each):
        packed |= groups[:, place] << place * codec.width
    return [steps, packed], said


def _unround(codec: Codec, payload: Tensor, into: Tensor, form: Form) -> Tensor:
    assert isinstance(codec, Rounding)
    end, levels = form.itemsize * codec.num_blocks(form), codec.num_levels
    steps = payload[:end].clone().view(into.dtype)
    places = codec.width * torch.arange(8 // codec.width, dtype=torch.uint8, device=payload.device)
    codes = ((payload[end:, None] >> places) & ((1 << codec.width) - 1)).view(-1)[: form.num_elements]
    multiples = codes.clamp(max=2 * levels).to(into.dtype) - levels
    return multiples * steps.repeat_interleave(codec.block_size)[: form.num_elements]


def _are_kept(codec: Codec, total: Total, form: Form) -> Tensor:
    """Which numbers a sparsifier keeps; ties go to the first, what is not finite comes last."""
    sizes = total.numbers.abs().masked_fill(total.is_bad, -1)
    if isinstance(codec, Threshold):
        return sizes >= codec.t
    assert isinstance(codec, TopK)
    number, size = (codec.k_of_block, codec.block) if codec.k_of_block else (codec.most(form, 0), len(sizes))
    blocks = _blocks(sizes, size, filler=-2.0)
    order = torch.sort(blocks, dim=1, descending=True, stable=True).indices[:, :number]
    are = torch.zeros_like(blocks, dtype=torch.bool).scatter_(1, order, True)
    return are.view(-1)[: len(sizes)]


def _pick(codec: Codec, total: Total, form: Form, turn: Turn) -> Said:
    assert isinstance(codec, Sparsifier)
    are_kept, numbers = _are_kept(codec, total, form), total.finite
    places = torch.nonzero(are_kept).view(-1)
    counts = torch.bincount(places // SPAN, minlength=-(-form.num_elements // SPAN)).to(torch.int32)
    offsets = (places % SPAN).to(torch.int16)
    size = codec.places_size(form, len(places)) - 4 * len(counts) - 2 * len(offsets)
    padding = torch.zeros(size, dtype=torch.uint8, device=places.device)
    return [counts, offsets, padding, numbers[places]], torch.where(are_kept, numbers, 0.0)


def _unpick(codec: Codec, payload: Tensor, into: Tensor, form: Form) -> Tensor:
    assert isinstance(codec, Sparsifier)
    end = 4 * -(-form.num_elements // SPAN)
    counts = payload[:end].clone().view(torch.int32)
    number = int(counts.sum())
    offsets = payload[end : end + 2 * number].clone().view(torch.int16).long() & (SPAN - 1)
    starts = torch.arange(len(counts), device=payload.device).repeat_interleave(counts) * SPAN
    numbers = payload[codec.places_size(form, number) :].clone().view(into.dtype)
    return torch.zeros_like(into).index_copy_(0, starts + offsets, numbers)


Encode = Callable[[Codec, Total, Form, Turn], Said]
Decode = Callable[[Codec, Tensor, Tensor, Form], Tensor]
WAYS: dict[type[Codec], tuple[Encode, Decode]] = {
    FP16: (_cast, _uncast),
    BF16: (_cast, _uncast),
    Signs: (_sign, _unsign),
    Rounding: (_round, _unround),
    TopK: (_pick, _unpick),
    Threshold: (_pick, _unpick),
}


def _way(codec: Codec) -> tuple[Encode, Decode]:
    for kind, way in WAYS.items():
        if isinstance(codec, kind):
            return way
    raise ConfigError(
        f"'{type(codec).__name__.lower()}' is not made of torch operations.\n"
        "  Use fp16, bf16, onebit, signsgd, int8, qsgd, topk or threshold, or copy the tensor to the processor."
    )

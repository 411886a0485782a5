"""Which codec carries what: from a strategy and a codec to the strategy whose messages are coded.

Illegal pairs are refused here, before anything starts, with what to use instead.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from math import log2

from weft import codecs
from weft.codecs.codec import Codec, Form
from weft.codecs.sparse import Sparsifier
from weft.collectives.coded_messages import CodedMessages
from weft.collectives.gathered import Gathered
from weft.collectives.host_sums import HostSums
from weft.collectives.lowering import Lowered, Wire
from weft.collectives.phased import AT_END, AT_ONCE, NO_FEEDBACK, Phase, Phased, slot
from weft.collectives.two_way import TwoWay
from weft.config.grammar import parse_chain
from weft.config.registry import CODECS, COLLECTIVES, Objection, build
from weft.core.errors import ConfigError
from weft.core.names import Carries
from weft.core.strategy import Strategy
from weft.cost.choice import Ground
from weft.cost.links import Link

HOPS = "hops"
"""Every message of the collective is coded anew."""
SUMS = "sums"
"""What is coded is summed without being decoded, whole, from partner to partner."""
SPARSE = "sparse"
"""Sums of what few numbers say travel as their nonzeros, from partner to partner, and as arrays when those are more."""
GATHER = "gather"
"""Everybody gets everybody's, and decodes them all."""
TWO_WAY = "two_way"
"""Each worker is the server of a part: coded there and back."""

HOSTS_FIRST = "the workers of a host sum theirs first, and its first worker speaks for it"

IN_WORDS: Mapping[str, str] = {
    HOPS: "each message of the collective is coded",
    SUMS: "summed in coded form, from partner to partner",
    SPARSE: "sparse all-reduce: sums travel as their nonzeros, or as arrays where that is shorter",
    GATHER: "all-gather: everybody gets everybody's, and decodes them all",
    TWO_WAY: "each worker sums one part: coded on the way there and back",
}


@dataclass(frozen=True)
class Compression:
    """A codec, and by which scheme reductions are done with it."""

    codec: Codec
    scheme: str | None = None
    """None: the strategy does not reduce."""
    sums_hosts: bool = False
    """The workers of a host sum theirs first, and what is coded is the host's."""

    def num_speakers(self, ground: Ground) -> int:
        """How many reduce what is coded: a worker of each host, or all."""
        return len(ground.sizes) if self.sums_hosts else ground.size


def codec(text: str) -> Codec:
    """The codec that a string names, or several with | between them."""
    built: list[Codec] = [build("codec", call, CODECS) for call in parse_chain(text)]
    return reduce(lambda first, second: first | second, built)


NONE = "none"
"""Stands for no codec, where another place would have one."""


def said(compress: str | None) -> str | None:
    """The codec that was asked for, if it is one."""
    return None if compress == NONE else compress


def with_codec(strategy: str, compress: str | None) -> str:
    """How tables call a strategy whose messages are coded."""
    return strategy if said(compress) is None else f"{strategy} + {compress}"


def objection(compress: str | None) -> Objection | None:
    """What is to be said against a strategy when messages shall be coded so."""
    if compress is None or said(compress) is None:
        return None
    built = codec(compress)
    return lambda strategy, name: check_pair(strategy, built, name)


def check_pair(strategy: Strategy, codec: Codec, name: str) -> None:
    """Refuse a codec that cannot carry anything the strategy sends, or that it would be wrong to."""
    check_carried(frozenset(strategy.kinds().values()), codec, name, reduces=strategy.reduces)


def check_carried(kinds: frozenset[Carries], codec: Codec, name: str, *, reduces: bool) -> None:
    """The same, of a strategy of this name of which only what its messages carry is known, and whether it reduces."""
    carried = kinds - {Carries.NOTHING, Carries.EXACT}
    if isinstance(codec, codecs.Factors | codecs.DGC) and Carries.GRADIENT not in carried:
        raise _refusal(name, codec, "sends no gradients", "a strategy that does: 'allreduce', 'ssp' or 'neighbours'")
    if codec.votes and not (reduces and Carries.GRADIENT in carried):
        raise _refusal(name, codec, "has no majority vote over signs", "'allreduce', or 'onebit', which needs no vote")
    if not carried & codec.carries:
        if Carries.STATE in carried:
            raise _refusal(
                name,
                codec,
                "sends whole parameters, and what is left out of those is never made up for",
                "'fp16' or 'bf16', or a strategy that sends gradients or deltas: 'allreduce', 'ssp' or 'diloco'",
            )
        raise _refusal(name, codec, "sends nothing that may change on the way", "it without a codec")


def _refusal(strategy: str, codec: Codec, why: str, instead: str) -> ConfigError:
    name = type(codec).__name__.lower()
    return ConfigError(f"'{name}' cannot be used with '{strategy}', which {why}.\n  Use {instead}.")


def bytes_sent(codec: Codec, scheme: str, form: Form, num_workers: int) -> float:
    """What a worker sends to reduce an array by a scheme."""
    size, others = codec.size(form, 1 << 40), num_workers - 1
    rounds = log2(num_workers) if num_workers > 1 else 0.0
    if scheme == GATHER:
        return others * size
    if scheme == SUMS:
        return rounds * size
    if scheme == SPARSE:
        return sum(min(2.0**i * size, form.num_bytes) for i in range(num_workers.bit_length() - 1))
    return 2 * others / num_workers * size


def schemes(codec: Codec) -> tuple[str, ...]:
    """By which schemes what a codec says can be reduced."""
    if isinstance(codec, codecs.FP16 | codecs.BF16):
        return (HOPS,)
    if isinstance(codec, codecs.PowerSGD):
        return (SUMS,)
    if codec.votes:
        return (TWO_WAY,)
    if codec.adds_up:
        return (GATHER, SUMS)
    if isinstance(codec, codecs.Factors | codecs.TernGrad):
        return (GATHER,)
    if isinstance(codec, Sparsifier):
        return (GATHER, SPARSE)
    if isinstance(codec, codecs.Chain):
        return (GATHER,)
    return (GATHER, TWO_WAY)


def sums_hosts(codec: Codec, ground: Ground, *, survives: bool = False) -> bool:
    """Whether hosts sum first under a codec: where several workers share a host's link to others, unless each worker's
    own is wanted (votes, factors of its own batch, gradients that are clipped one by one), or others have to go on
    without the worker that makes the sum."""
    clips = isinstance(codec, codecs.DGC) and codec.clip is not None
    is_of_each = codec.votes or clips or isinstance(codec, codecs.Factors)
    return ground.shares_links and not is_of_each and not survives


def compression(codec: Codec, num_bytes: int, ground: Ground, *, survives: bool = False) -> Compression:
    """How a model of so many bytes is reduced with a codec, by cost, where workers sit so."""
    chosen = Compression(codec, sums_hosts=sums_hosts(codec, ground, survives=survives))
    return replace(chosen, scheme=cheapest(codec, num_bytes, chosen.num_speakers(ground), ground.slowest))


def prices_s(codec: Codec, num_bytes: int, num_workers: int, link: Link) -> dict[str, float]:
    """What each scheme takes for a model of so many bytes, by latency and bytes."""
    form = Form(max(1, num_bytes // 4))
    rounds = max(1, (num_workers - 1).bit_length())
    latencies = {GATHER: 1, TWO_WAY: 2, HOPS: 2 * rounds, SUMS: rounds, SPARSE: rounds}
    return {
        scheme: latencies[scheme] * link.latency_s
        + bytes_sent(codec, scheme, form, num_workers) / link.bandwidth_bytes_per_s
        for scheme in schemes(codec)
    }


def cheapest(codec: Codec, num_bytes: int, num_workers: int, link: Link) -> str:
    """The scheme with the lowest price; of equals the first."""
    prices = prices_s(codec, num_bytes, num_workers, link)
    return min(prices, key=lambda scheme: prices[scheme])


def compressed(strategy: Strategy, compression: Compression, collective: str | None) -> Strategy:
    """`strategy`, with what the codec may carry coded; other reductions are spoken by `collective`."""
    codec, kinds = compression.codec, strategy.kinds()
    coded = tuple(kind for kind, carries in kinds.items() if carries in codec.carries)
    if not strategy.reduces:
        return _messages(strategy, codec)
    assert compression.scheme is not None
    assert collective is not None
    if compression.sums_hosts:
        strategy = HostSums(strategy, coded)
    wires: tuple[Wire, ...] = ()
    reduced = coded
    """The kinds of the reductions of what is coded."""
    if compression.scheme == HOPS:
        wires = tuple(Wire(kind, codec, is_exact=False) for kind in coded)
    elif compression.scheme == TWO_WAY:
        strategy = TwoWay(strategy, coded, codec)
    else:
        strategy = phased = _phased(strategy, codec, coded)
        reduced = tuple(slot(kind, phase.name) for kind in coded for phase in phased.phases)
        last = tuple(slot(kind, phased.phases[-1].name) for kind in coded)
        if compression.scheme == SPARSE:
            wires = tuple(Wire(kind, codecs.Nonzeros(), is_exact=True) for kind in last)
        if compression.scheme == GATHER:
            strategy = Gathered(phased, last)
        if compression.scheme != GATHER or len(phased.phases) > 1:
            collective = "butterfly"  # what is summed in coded form is not cut in parts
    return Lowered(strategy, collective, COLLECTIVES[collective], wires, reduced if compression.sums_hosts else ())


def _messages(strategy: Strategy, codec: Codec) -> Strategy:
    kinds = strategy.kinds()
    by_use = {Carries.GRADIENT: "pushed", Carries.DELTA: "pushed", Carries.COPY: "followed", Carries.STATE: "cast"}
    if Carries.STATE in codec.carries:
        by_use[Carries.COPY] = "cast"
    uses: dict[str, list[str]] = {"pushed": [], "followed": [], "cast": []}
    for kind, carries in kinds.items():
        if carries in codec.carries:
            uses[by_use[carries]].append(kind)
    if isinstance(codec, codecs.DGC | codecs.Factors):
        uses["followed"] = []
    texts = {use: tuple(found) for use, found in uses.items()}
    return CodedMessages(strategy, codec, **texts, has_velocity=codec.takes_momentum)


def _phased(strategy: Strategy, codec: Codec, coded: tuple[str, ...]) -> Phased:
    phases = tuple(Phase(type(stage).__name__.lower(), stage) for stage in codec.stages())
    if isinstance(codec, codecs.PowerSGD):
        return Phased(strategy, coded, phases, AT_END, starts_warm=True)
    feedback = AT_ONCE if codec.wants_feedback else NO_FEEDBACK
    return Phased(strategy, coded, phases, feedback, has_velocity=codec.takes_momentum)

"""Which codec a scenario has, and by which scheme what is coded is reduced.

Drawn apart from all else, so that a seed has the same world with a codec as without.
"""

from functools import lru_cache
from random import Random
from typing import NamedTuple

from weft.config.compression import check_carried, codec, schemes
from weft.config.grammar import parse_chain
from weft.config.registry import COLLECTIVES
from weft.core.errors import ConfigError
from weft.core.names import Carries
from weft.core.strategy import Strategy

SHARE = 1 / 3
"""Of the seeds of a strategy that can have a codec."""
WIDTH = 2
"""How many places a contribution has in a coded run; the codecs below say about one of them at a time."""

LEAVES_OUT = frozenset({Carries.GRADIENT, Carries.DELTA})
"""What is carried by strategies that can make up later for what a message leaves out."""

WHOLE = ("topk(0.002)", "randomk(0.3)", "threshold(0.5)", "dgc(0.002, momentum=0.0, warmup_steps=0)")
"""Those that say numbers as they are, now or later."""
OTHERS = (
    "onebit",
    "fp8",
    "qsgd",
    "int8",
    "terngrad",
    "signsgd",
    "powersgd",
    "topk(0.01) | qsgd",
    "fp16",
    "bf16",
)


class CodingChoice(NamedTuple):
    """A codec, its scheme, and the collective that speaks all other reductions."""

    compress: str | None
    scheme: str | None
    collective: str | None


def draw_coding(seed: int, recipe: Strategy, collective: str | None) -> CodingChoice:
    """Every third seed has a codec; those that say numbers as they are come as often as all others together."""
    rng = Random(f"codec-{seed}")
    if rng.random() >= SHARE or not LEAVES_OUT.intersection(recipe.kinds().values()):
        return CodingChoice(None, None, collective)
    legal = _legal(frozenset(recipe.kinds().values()), recipe.reduces)
    drawn = [rng.choice(texts) for texts in legal if texts]
    if not drawn:
        return CodingChoice(None, None, collective)
    compress = rng.choice(drawn)
    if not recipe.reduces:
        return CodingChoice(compress, None, None)
    return CodingChoice(compress, rng.choice(schemes(codec(compress))), collective or rng.choice(list(COLLECTIVES)))


@lru_cache
def _legal(carried: frozenset[Carries], reduces: bool) -> tuple[list[str], list[str]]:
    """Of WHOLE and of OTHERS, those that a strategy can have that carries these; remembered: every seed asks."""
    whole, others = ([text for text in texts if _is_legal(carried, reduces, text)] for texts in (WHOLE, OTHERS))
    return whole, others


def _is_legal(carried: frozenset[Carries], reduces: bool, text: str) -> bool:
    try:
        check_carried(carried, codec(text), "", reduces=reduces)
    except ConfigError:
        return False
    return True


def codec_name(compress: str) -> str:
    """What a codec is called without its parameters."""
    return " | ".join(call.name for call in parse_chain(compress))


def says_whole(compress: str) -> bool:
    """A codec says numbers as they are or not at all."""
    return compress in WHOLE

"""Ways to train that are compared: each is a strategy, perhaps with a codec and a share, or a baseline."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from weft.config.compression import codec, said, with_codec
from weft.config.options import with_parameters
from weft.config.registry import spelled
from weft.config.registry import strategy as strategy_of
from weft.core.errors import ConfigError
from weft.data.shares import SHARES, STATIC, with_share

TEXT = re.compile(r"(?P<strategy>.+?)(\s+\+\s+(?P<compress>.+?))?(\s+share=(?P<share>\S+))?")
EXAMPLE = "--strategy 'allreduce + topk(0.01) share=proportional'"


@dataclass(frozen=True)
class Way:
    """One contender of a comparison."""

    strategy: str = ""
    """Empty: the baseline's own."""
    compress: str | None = None
    share: str = STATIC
    baseline: str | None = None

    @property
    def label(self) -> str:
        """How tables call it, and how it can be typed again."""
        return self.baseline or with_share(with_codec(self.strategy, self.compress), self.share)

    @property
    def meaning(self) -> tuple[str, ...]:
        """The same for two ways that are the same, however they are spelled."""
        if self.baseline is not None:
            return (self.baseline,)
        coded = said(self.compress)
        return (spelled(strategy_of(self.strategy)), "" if coded is None else spelled(codec(coded)), self.share)


def read_ways(
    strategies: Sequence[str], codecs: Sequence[str] = (), shares: Sequence[str] = (), baselines: Sequence[str] = ()
) -> list[Way]:
    """Every strategy with every codec and every share, but for those that say their own: 'ssp + fp16 share=static'."""
    found = [way for text in strategies for way in _ways(text, codecs, shares)]
    found += [Way(baseline=baseline) for baseline in baselines]
    seen: dict[tuple[str, ...], Way] = {}
    for way in found:
        other = seen.setdefault(way.meaning, way)
        if other is not way:
            raise ConfigError(
                f"'{other.label}' and '{way.label}' are the same, so there is nothing to compare.\n  Leave one out."
            )
    if len(found) < 2:
        raise ConfigError(
            "a comparison needs at least two ways to train.\n"
            "  Name several, e.g. --strategy allreduce --strategy gossip, or add --baseline ddp."
        )
    return found


def with_parameters_of(text: str, parameters: dict[str, str]) -> str:
    """A way's text with some parameters of its strategy set."""
    match = TEXT.fullmatch(text.strip())
    if match is None:
        return text
    strategy = match["strategy"]
    return with_parameters(strategy, parameters) + text.strip()[len(strategy) :]


def _ways(text: str, codecs: Sequence[str], shares: Sequence[str]) -> list[Way]:
    match = TEXT.fullmatch(text.strip())
    if match is None:
        raise ConfigError(f"--strategy got '{text}', but wants a strategy.\n  Write e.g. {EXAMPLE}.")
    own_codec, own_share = match["compress"], match["share"]
    if own_share is not None and own_share not in SHARES:
        raise ConfigError(f"share '{own_share}' is not known.\n  Known: {', '.join(SHARES)}.")
    each_codec: Sequence[str | None] = [own_codec] if own_codec is not None else (codecs or [None])
    each_share = [own_share] if own_share is not None else (shares or [STATIC])
    return [Way(match["strategy"], compress, share) for compress, share in product(each_codec, each_share)]

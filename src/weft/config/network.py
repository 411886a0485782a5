"""A slow network between the workers of a real run: `--net 100mbit,10ms,1%`, and `--net 2:20mbit,30ms` for one."""

import re
from dataclasses import dataclass, replace

from weft.config.units import link_rate, seconds
from weft.core.errors import ConfigError

EXAMPLE = "--net 100mbit,10ms"
ONE_WORKER = "--net 2:20mbit,30ms"
BYTES_PER_S_MIN = 1000.0
DELAY_S_MAX = 10.0
LOSS_MAX = 0.5


@dataclass(frozen=True)
class EmulatedNetwork:
    """Every worker's link, each way; the delay is one way, from worker to worker; a share of all packets is lost.

    Between two workers whose links differ, the longer delay and the greater loss count.
    """

    bytes_per_s: float
    delay_s: float
    loss: float = 0.0
    own: tuple[tuple[int, "EmulatedNetwork"], ...] = ()
    """Workers whose link is another one, and theirs."""

    def __post_init__(self) -> None:
        if self.bytes_per_s < BYTES_PER_S_MIN:
            raise ConfigError("--net: a link carries at least 8 kbit/s.\n  Write e.g. --net 1mbit,10ms.")
        if self.delay_s > DELAY_S_MAX:
            raise ConfigError(
                f"--net: the delay is {self.delay_s:g} s, but at most {DELAY_S_MAX:g} s.\n  Write e.g. {EXAMPLE}."
            )
        if not 0 <= self.loss <= LOSS_MAX:
            raise ConfigError(
                f"--net: the loss is {self.loss:.3g}, but must be from 0 to {LOSS_MAX:g}, or nothing gets through.\n"
                f"  Write e.g. {EXAMPLE},1%."
            )

    def link(self, worker: int) -> "EmulatedNetwork":
        """One worker's link."""
        return dict(self.own).get(worker, replace(self, own=()))

    @property
    def worst(self) -> "EmulatedNetwork":
        """As slow and as lossy as any of its links."""
        each = [self, *(link for _, link in self.own)]
        return EmulatedNetwork(
            min(link.bytes_per_s for link in each), max(link.delay_s for link in each), max(link.loss for link in each)
        )

    def __str__(self) -> str:
        """As it is shown: '100 Mbit/s, 10 ms, 1 % lost; worker 2: 20 Mbit/s, 30 ms'."""
        return "; ".join([self._words(), *(f"worker {worker}: {link}" for worker, link in self.own)])

    def _words(self) -> str:
        power = max(p for p in range(4) if p == 0 or self.bytes_per_s * 8 >= 1000**p)
        rate = f"{self.bytes_per_s * 8 / 1000**power:.4g} {('', 'k', 'M', 'G')[power]}bit/s"
        return f"{rate}, {self.delay_s * 1e3:.4g} ms" + (f", {100 * self.loss:.3g} % lost" if self.loss else "")


def read_network(*texts: str) -> EmulatedNetwork:
    """'RATE,DELAY' or 'RATE,DELAY,LOSS' in friendly units; '2:RATE,DELAY' besides is the link of worker 2."""
    common: list[EmulatedNetwork] = []
    own: dict[int, EmulatedNetwork] = {}
    for text in texts:
        worker, colon, link = text.rpartition(":")
        if not colon:
            common.append(_read_link(text))
        elif not worker.strip().isdecimal():
            raise ConfigError(f"--net got '{text}', but '{worker}' is no worker's number.\n  Write e.g. {ONE_WORKER}.")
        elif int(worker) in own:
            raise ConfigError(f"--net says the link of worker {int(worker)} twice.\n  Say it once.")
        else:
            own[int(worker)] = _read_link(link)
    if len(common) != 1:
        many = "says several links for all workers" if common else "does not say the link of all other workers"
        raise ConfigError(f"--net {many}.\n  Write e.g. {EXAMPLE} {ONE_WORKER}.")
    return replace(common[0], own=tuple(sorted(own.items())))


def _read_link(text: str) -> EmulatedNetwork:
    parts = [part.strip() for part in text.split(",")]
    if len(parts) not in (2, 3) or not all(parts):
        raise ConfigError(f"--net got '{text}', but wants RATE,DELAY or RATE,DELAY,LOSS.\n  Write e.g. {EXAMPLE}.")
    rate, delay, *loss = parts
    return EmulatedNetwork(
        link_rate(rate, "--net: the rate"),
        seconds(delay, "--net: the delay"),
        _share(loss[0]) if loss else 0.0,
    )


def _share(text: str) -> float:
    match = re.fullmatch(r"([0-9]+\.?[0-9]*|\.[0-9]+)\s*(%?)", text)
    if match is None:
        raise ConfigError(f"--net: the loss is '{text}', but wants a share of all packets.\n  Write e.g. {EXAMPLE},1%.")
    return float(match[1]) / (100 if match[2] else 1)

"""The kills of a soak that a run survives: which workers are killed in which moments of which run, drawn by a seed."""

from dataclasses import dataclass
from random import Random

from faults import HOSTS, SHM, TCP

from weft.config.on_loss import REPLACE, SHRINK
from weft.config.registry import STRATEGIES
from weft.config.registry import strategy as strategy_of
from weft.core.errors import ConfigError
from weft.engines.real.job import spread

START, CHECKPOINT, END = "start", "checkpoint", "end"
BEFORE_JOIN = (START, "import", "join")
"""Who dies then is started again; with `shrink`, the others could not begin."""
MOMENTS = (*BEFORE_JOIN, "first step", "backward", "update", "report", "save", CHECKPOINT, END)
OF_NEWCOMERS = ("import", "join", "first step")
GROUNDS = (SHM, TCP, HOSTS)
NUM_WORKERS, NUM_KILLS = 4, 3
LATE_S_MAX = {START: 0.02, "join": 0.03, "first step": 0.01, CHECKPOINT: 0.04, "report": 0.008, END: 0.1}
"""A kill comes up to so long after its moment was announced."""
USUALLY_LATE_S_MAX = 0.003
IN_EPOCHS = ("backward", "update", "report", "save", CHECKPOINT)
"""These come in each epoch. Kills come in the first or the second of three, so that there is time for a newcomer; where
workers do not wait for each other, in the first."""
OF_TORCH, OF_ARRAYS = "torch", "arrays"
NEWCOMER_SHARE = 1 / 3
"""Of runs with replacements: those in which a newcomer is killed, too."""


@dataclass(frozen=True)
class Kill:
    """One process of a run, and when it is killed."""

    moment: str
    rank: int
    life: int
    """The number of the process with this rank; 0: one that has not begun its script."""
    epoch: int
    late_s: float

    def __str__(self) -> str:
        newcomer = "'s successor" if self.life > 1 else ""
        return f"worker {self.rank}{newcomer} at {self.moment}"

    @property
    def argument(self) -> str:
        """As survived_script.py reads it."""
        return f"{self.moment}:{self.rank}:{self.life}:{self.epoch}:{self.late_s}"


@dataclass(frozen=True)
class KilledRun:
    """One run, and the kills that it survives."""

    number: int
    strategy: str
    ground: str
    on_loss: str
    form: str
    """Of the model: OF_TORCH or OF_ARRAYS."""
    kills: tuple[Kill, ...]

    @property
    def with_checkpoints(self) -> bool:
        return any(kill.moment == CHECKPOINT for kill in self.kills)

    @property
    def hosts(self) -> tuple[int, ...]:
        return spread(NUM_WORKERS, 2 if self.ground == HOSTS else 1)

    def __str__(self) -> str:
        killed = ", ".join(map(str, self.kills))
        return f"{self.number:3d}  {self.strategy} over {self.ground}, {self.form}, {self.on_loss}: {killed}"


def places() -> list[tuple[str, str]]:
    """Every strategy of the registry over every ground that it is for."""
    return [(name, ground) for ground in GROUNDS for name in STRATEGIES if _is_for(name, ground)]


def _is_for(name: str, ground: str) -> bool:
    try:
        strategy_of(name).check(NUM_WORKERS, {SHM: 1, TCP: NUM_WORKERS, HOSTS: 2}[ground])
    except ConfigError:
        return False
    return True


def killed_run(seed: int, number: int) -> KilledRun:
    """The n-th run: strategies and grounds in turn, and the rest by chance."""
    rng = Random(f"{seed}/survived/{number}")
    strategy, ground = places()[number % len(places())]
    on_loss = rng.choice((REPLACE, REPLACE, SHRINK))
    moments = [moment for moment in MOMENTS if _may_come(moment, ground, on_loss)]
    ranks = rng.sample(range(NUM_WORKERS), NUM_KILLS)
    num_epochs = 2 if strategy_of(strategy).keeps_step else 1
    kills = [
        _kill(moment, rank, num_epochs, rng) for moment, rank in zip(rng.sample(moments, NUM_KILLS), ranks, strict=True)
    ]
    replaced = [kill for kill in kills[:-1] if kill.moment not in (START, END)]
    if on_loss == REPLACE and has_newcomers(strategy) and replaced and rng.random() < NEWCOMER_SHARE:
        moment = rng.choice(OF_NEWCOMERS)
        kills[-1] = Kill(moment, rng.choice(replaced).rank, 2, 0, _late_s(moment, rng))
    is_torch = any(kill.moment == CHECKPOINT for kill in kills) or rng.random() < 0.5
    return KilledRun(number, strategy, ground, on_loss, OF_TORCH if is_torch else OF_ARRAYS, tuple(kills))


def has_newcomers(strategy: str) -> bool:
    """Whether lost workers are replaced once training has begun (docs/lost-workers.md)."""
    return not strategy_of(strategy).deals_portions


def _may_come(moment: str, ground: str, on_loss: str) -> bool:
    if moment == CHECKPOINT:
        return ground != HOSTS  # there checkpoints are refused
    return on_loss == REPLACE or moment not in BEFORE_JOIN


def _kill(moment: str, rank: int, num_epochs: int, rng: Random) -> Kill:
    epoch = rng.randrange(num_epochs) if moment in IN_EPOCHS else 0
    return Kill(moment, rank, 0 if moment == START else 1, epoch, _late_s(moment, rng))


def _late_s(moment: str, rng: Random) -> float:
    return rng.uniform(0.0, LATE_S_MAX.get(moment, USUALLY_LATE_S_MAX))

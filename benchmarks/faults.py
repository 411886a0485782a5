"""The faults of a soak: which process is killed or stopped in which moment of which kind of run, drawn by a seed."""

from dataclasses import dataclass
from random import Random

MOMENTS = ("birth", "import", "join", "first step", "backward", "update", "report", "save", "end")
"""Of a worker's life, in order. Its script announces all but the birth."""
SHM, TCP, HOSTS, TORCHRUN = "shm", "tcp", "hosts 2", "torchrun"
GROUNDS = (SHM, TCP, HOSTS, TORCHRUN)
KILL, STOP = "kill", "stop"
STRATEGIES = ("allreduce", "ssp", "gossip", "async_gossip", "ps")
WORKER, LAUNCHER, CONTROLLER, AGENT, FORK_SERVER = "worker", "launcher", "controller", "host agent", "fork server"
NUM_WORKERS = {SHM: 3, TCP: 3, HOSTS: 4, TORCHRUN: 2}
LATE_S_MAX = {"join": 0.03, "first step": 0.005, "end": 0.1}
"""A fault comes up to so long after its moment was announced: then Weft is at work on it."""
USUALLY_LATE_S_MAX = 0.003


@dataclass(frozen=True)
class Fault:
    """One run, and what happens to one of its processes."""

    number: int
    kind: str
    moment: str
    ground: str
    victim: str
    rank: int
    """Of the worker that is the victim, or in whose moment another process is."""
    late_s: float
    strategy: str

    @property
    def num_workers(self) -> int:
        return NUM_WORKERS[self.ground]

    def __str__(self) -> str:
        who = f"worker {self.rank}" if self.victim == WORKER else f"the {self.victim}"
        return f"{self.number:3d}  {self.kind} {who} at {self.moment}, {self.strategy} over {self.ground}"


def fault(seed: int, kind: str, number: int) -> Fault:
    """The n-th fault of a kind: moments and grounds in turn, so that all pairs come, and the rest by chance."""
    rng = Random(f"{seed}/{kind}/{number}")
    turn, place = divmod(number, len(MOMENTS))
    moment, ground = MOMENTS[place], GROUNDS[(turn + place) % len(GROUNDS)]
    late_s = rng.uniform(0.0, LATE_S_MAX.get(moment, USUALLY_LATE_S_MAX))
    rank = rng.randrange(NUM_WORKERS[ground])
    return Fault(number, kind, moment, ground, _victim(kind, moment, ground, rng), rank, late_s, rng.choice(STRATEGIES))


def _victim(kind: str, moment: str, ground: str, rng: Random) -> str:
    """Mostly a worker; now and then one of those that look after workers. A launcher is its user's to stop."""
    if rng.random() < 0.75:
        return WORKER
    if ground == TORCHRUN:
        helps = MOMENTS.index("first step") <= MOMENTS.index(moment) < MOMENTS.index("end")
        return rng.choice((CONTROLLER, AGENT)) if helps else WORKER
    if moment == "birth":
        return FORK_SERVER
    return LAUNCHER if kind == KILL else WORKER

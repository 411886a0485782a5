"""Who is slow, and why: judged by what workers do on their own account, never by how long they wait.

A worker that computes, reads or stands still for longer than the others is slow; those that wait for it are not. Links
are judged by how long bytes were under way on them: a worker's link is slow when all that goes to it and comes from it
takes longer than what goes between the others.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from statistics import median

from msgspec import Struct, structs

from weft.core.activity import COMPUTES, PAUSED, READS
from weft.observe.records.linkbook import NETWORK, LinkBook
from weft.observe.records.quantities import human_seconds
from weft.observe.records.status import Mark, Status

WINDOW_STEPS = 10
WINDOW_STEPS_MIN = 5
"""A worker is judged by its last steps: by so many at most, and at least."""
FIRST_STEPS = 2
"""Of the run, which are not judged: libraries warm up."""
SLOW = 1.5
"""Who takes so many times as long as the median of the others is slow,"""
STAYS_SLOW = 1.25
"""and stays so until it takes less than that."""
SLOW_LINK, STAYS_SLOW_LINK = 2.0, 1.5
"""The same of links, whose times vary more: the system counts them in ticks of some milliseconds."""
MATTERS = 0.1
"""What is a smaller share of a step is nobody's trouble."""
CONFIRM_STEPS = 5
"""How long a worker must be slow for a cause before that is said,"""
CHANGE_STEPS = 10
"""before another cause is said instead,"""
CONFIRM_S = 0.2
"""Both for so many seconds at least: a machine that is busy with something else gives short steps to one worker after
another,"""
AGAINST_STEPS, AGAINST_S = 50, 2.0
"""where a worker was called slow before that was not for long, or is not now, for so many steps and seconds,"""
BESIDE_STEPS = 2 * WINDOW_STEPS
"""and where another worker is called slow, until it is clear that it still is,"""
_AT_ONCE = 0, 0.0
KEEP_STEPS = 20
"""and how long it must not be slow before it is taken back."""
SPARED = 0.1
"""The share of its slowest steps that a worker is not judged by: everybody has a hiccup."""
LASTS = 0.2
"""What was taken back and has held for a smaller share of the steps is not told again when the run is over."""
PAUSE_S_MIN = 0.15
"""A shorter pause is not worth a word."""
AROUND_S = 1.0
"""Workers that stood still within so many seconds of each other did so together."""


class Blame(Struct, frozen=True):
    """One slow worker, or (None) the network as a whole. Times are those of a step; of pauses, all of them."""

    worker: int | None
    cause: str
    """A word of core/activity.py, or 'network'."""
    step: int
    """How many steps the worker had made."""
    own_s: float
    others_s: float
    step_s: float
    """How long a whole step took."""
    advice: str = ""
    num_pauses: int = 0
    """How often it stood still; 0 where that is not the cause."""

    @property
    def sentence(self) -> str:
        """As people say it, without the advice."""
        own, others = human_seconds(self.own_s), human_seconds(self.others_s)
        if self.worker is None:
            return f"the network is slow: messages are under way for {own} of a step of {human_seconds(self.step_s)}"
        times = f" ({self.own_s / self.others_s:.1f} times as long)" if self.others_s > 0 else ""
        if self.cause == PAUSED and self.num_pauses > 1:
            often = f"stood still {self.num_pauses} times, for {own} in all"
            return f"worker {self.worker} {often}, the last time at about step {self.step} (paused)"
        if self.cause == PAUSED:
            return f"worker {self.worker} stood still for {own} at about step {self.step} (paused)"
        if self.cause == NETWORK:
            return (
                f"worker {self.worker}'s link is slow: messages on it are under way for {own} a step, "
                f"on the others' links {others}{times}"
            )
        if self.cause == READS:
            return f"worker {self.worker} is slow: it waits {own} a step for its own data (input); the others {others}"
        return f"worker {self.worker} is slow: it computes {own} a step, the others {others}{times}"

    def __str__(self) -> str:
        return f"{self.sentence}. {self.advice}".rstrip(". ") + ("." if self.advice else "")


@dataclass(frozen=True, slots=True)
class Cost:
    """What one worker's step takes, by its last steps."""

    compute_s: float
    input_s: float
    step_s: float
    samples: float

    @property
    def own_s(self) -> float:
        return self.compute_s + self.input_s


Advise = Callable[[Blame, Mapping[int, Cost]], str]


class Stragglers:
    """The judge of one run: told every status, in order for each worker."""

    def __init__(self, num_workers: int, advise: Advise = lambda blame, costs: "") -> None:
        """`advise` is asked what would help, once for everything that is said."""
        self.num_workers = num_workers
        self._advise = advise
        self.told: list[Blame] = []
        """Everything that was said in this run, with the last figures; the pauses of a worker as one."""
        self._books = {rank: _Book() for rank in range(num_workers)}
        self._links = LinkBook()
        self._cases: dict[tuple[int | None, bool], _Case] = {}
        """By worker, and whether it is about links."""
        self._pauses: list[tuple[int, Blame, float]] = []
        """Those that may have been everybody's: to be judged when all have told how they did then."""
        self._paused: dict[int, Blame] = {}
        """By worker: all of its pauses that nobody shared."""

    def current(self) -> list[Blame]:
        """What holds now."""
        cases = [case.blame for case in self._cases.values() if case.blame is not None]
        recent = [b for rank, b in self._paused.items() if self._books[rank].step < b.step + KEEP_STEPS]
        return cases + recent

    def lasting(self) -> list[Blame]:
        """What was said and is worth saying again at the end: it holds now, or has held for a good part of the run."""
        num_steps = max(book.step for book in self._books.values())
        brief = [blame for case in self._cases.values() for blame in case.brief(LASTS * num_steps)]
        return [blame for blame in self.told if blame not in brief]

    def costs(self) -> dict[int, Cost]:
        """What steps take now, by worker; none of those that have not made enough."""
        costs = {rank: book.cost() for rank, book in self._books.items()}
        return {rank: cost for rank, cost in costs.items() if cost is not None}

    def hear(self, status: Status) -> list[Blame]:
        """What is to be said because of this status, if anything."""
        if self.num_workers < 2:
            return []
        book = self._books[status.rank]
        stood_s = book.hear(status)
        if stood_s >= PAUSE_S_MIN:
            blame = Blame(status.rank, PAUSED, status.step, stood_s, 0.0, 0.0, num_pauses=1)
            self._pauses.append((status.rank, blame, status.time_s))
        paused = self._judge_pauses()
        new: list[Blame] = []
        if status.marks:
            self._links.hear(status)
            costs = self.costs()
            if len(costs) == self.num_workers:
                new += self._judge(status, costs)
                new += self._judge_links(status, costs[status.rank].step_s)
        self.told += new
        return paused + new

    def _judge_pauses(self) -> list[Blame]:
        """Those that nobody shared; when all stood still together, the machine did.

        A worker that does so again and again is told of once, until it has gone on for a while.
        """
        new = []
        for worker, blame, at_s in [*self._pauses]:
            others = [book for rank, book in self._books.items() if rank != worker]
            if all(book.heard_s >= at_s for book in others):
                self._pauses.remove((worker, blame, at_s))
                since_s = at_s - blame.own_s - AROUND_S
                if median(book.stood_since(since_s) for book in others) < PAUSE_S_MIN:
                    new += self._hear_pause(worker, blame)
        return new

    def _hear_pause(self, worker: int, blame: Blame) -> list[Blame]:
        before = self._paused.get(worker)
        if before is None:
            now = structs.replace(blame, advice=self._advise(blame, self.costs()))
            self.told.append(now)
        else:
            own_s, num_pauses = before.own_s + blame.own_s, before.num_pauses + 1
            now = structs.replace(before, step=blame.step, own_s=own_s, num_pauses=num_pauses)
            self.told[self.told.index(before)] = now
        self._paused[worker] = now
        return [] if before is not None and blame.step < before.step + KEEP_STEPS else [now]

    def _judge(self, status: Status, costs: dict[int, Cost]) -> list[Blame]:
        rank = status.rank
        case = self._cases.setdefault((rank, False), _Case())
        others = [cost for other, cost in costs.items() if other != rank]
        times = SLOW if case.blame is None else STAYS_SLOW
        verdict = _verdict(rank, status.step, costs[rank], others, times)
        told = [case for (other, is_link), case in self._cases.items() if not is_link and other != rank]
        patience = _AT_ONCE
        if any(each.was_taken_back for each in (case, *told)) or any(o.blame and not o.holds for o in told):
            patience = AGAINST_STEPS, AGAINST_S
        elif any(other.blame is not None and other.said_step <= case.candidate_step for other in told):
            patience = BESIDE_STEPS, 0.0
        return self._hear_verdict(case, verdict, status, patience)

    def _judge_links(self, status: Status, step_s: float) -> list[Blame]:
        new: list[Blame] = []
        rank, step = status.rank, status.step
        whole = self._cases.setdefault((None, True), _Case())
        case = self._cases.setdefault((rank, True), _Case())
        found = self._links.of_worker(rank)
        verdict = None
        if found is not None:
            own_s, others_s, times = found
            limit = SLOW_LINK if case.blame is None else STAYS_SLOW_LINK
            if times > limit and own_s > limit * others_s and own_s - others_s >= MATTERS * step_s:
                verdict = Blame(rank, NETWORK, step, own_s, others_s, step_s)
        new += self._hear_verdict(case, verdict, status)
        if rank == 0:
            nobody = all(each.blame is None for (worker, _), each in self._cases.items() if worker is not None)
            share_s = self._links.of_all(step_s) if nobody else None
            verdict = None if share_s is None else Blame(None, NETWORK, step, share_s, share_s, step_s)
            new += self._hear_verdict(whole, verdict, status)
        return new

    def _hear_verdict(
        self, case: "_Case", verdict: Blame | None, status: Status, patience: tuple[int, float] = _AT_ONCE
    ) -> list[Blame]:
        before = case.blame
        if not case.hear(verdict, status.step, status.time_s, patience):
            if before is not None and case.blame is not None and before in self.told:
                self.told[self.told.index(before)] = case.blame
            return []
        assert case.blame is not None
        case.blame = structs.replace(case.blame, advice=self._advise(case.blame, self.costs()))
        return [case.blame]


def _verdict(rank: int, step: int, own: Cost, others: list[Cost], times: float) -> Blame | None:
    """Whether a worker takes much longer than the others for a step, and not because it has more samples in it."""
    usual_s = median(cost.own_s for cost in others)
    if own.own_s <= times * usual_s or own.own_s - usual_s < MATTERS * own.step_s:
        return None
    usual_samples = median(cost.samples for cost in others)
    if own.own_s * usual_samples <= times * usual_s * own.samples:
        return None
    compute_s, input_s = median(cost.compute_s for cost in others), median(cost.input_s for cost in others)
    if own.input_s - input_s > own.compute_s - compute_s:
        return Blame(rank, READS, step, own.input_s, input_s, own.step_s)
    return Blame(rank, COMPUTES, step, own.compute_s, compute_s, own.step_s)


class _Case:
    """What is said of one worker, and since when something else holds: it is not changed at once."""

    def __init__(self) -> None:
        self.blame: Blame | None = None
        self._since_step = self._held_step = self.said_step = 0
        """When it began to hold, when it last held, and when it was said."""
        self._candidate: tuple[str, int, float] | None = None
        self._ended: list[tuple[Blame, int]] = []
        """What was taken back, and for how many steps it had held."""
        self.holds = False
        """The last verdict was that the worker is slow."""

    @property
    def was_taken_back(self) -> bool:
        """Something was said of it that did not last."""
        return bool(self._ended)

    def brief(self, num_steps: float) -> list[Blame]:
        """What was taken back and had held for fewer steps than that."""
        return [blame for blame, held in self._ended if held < num_steps]

    @property
    def candidate_step(self) -> float:
        """Since when something holds that has not been said."""
        return inf if self._candidate is None else self._candidate[1]

    def hear(self, verdict: Blame | None, step: int, now_s: float, patience: tuple[int, float]) -> bool:
        """Whether something new is to be said, which has to hold for so many steps and seconds at least."""
        self.holds = verdict is not None
        if verdict is None:
            self._candidate = None
            if self.blame is not None and step - self._held_step >= KEEP_STEPS:
                self._ended.append((self.blame, self._held_step - self._since_step))
                self.blame = None
            return False
        if self.blame is not None and verdict.cause == self.blame.cause:
            self.blame = structs.replace(verdict, advice=self.blame.advice)
            self._held_step, self._candidate = step, None
            return False
        if self._candidate is None or self._candidate[0] != verdict.cause:
            self._candidate = verdict.cause, step, now_s
        _, since_step, since_s = self._candidate
        wanted_steps = max(CONFIRM_STEPS if self.blame is None else CHANGE_STEPS, patience[0])
        if step - since_step < wanted_steps or now_s - since_s < max(CONFIRM_S, patience[1]):
            return False
        if self.blame is None:
            self._since_step = since_step
        self.said_step = step
        self.blame, self._held_step, self._candidate = verdict, step, None
        return True


class _Book:
    """One worker's last steps."""

    def __init__(self) -> None:
        self._marks: deque[Mark] = deque(maxlen=WINDOW_STEPS + 1)
        self._stood: deque[tuple[float, float]] = deque([(0.0, 0.0)], maxlen=64)
        """When it had stood still for how long in all."""
        self.step = 0

    @property
    def heard_s(self) -> float:
        return self._stood[-1][0]

    def hear(self, status: Status) -> float:
        """Take note; how long it stood still since the last status."""
        self.step = status.step
        stood_s = status.paused_s - self._stood[-1][1]
        self._stood.append((status.time_s, status.paused_s))
        for mark in status.marks:  # a worker's threads may overtake each other
            if mark.step >= FIRST_STEPS and not (self._marks and mark.step <= self._marks[-1].step):
                self._marks.append(mark)
        return stood_s

    def stood_since(self, since_s: float) -> float:
        """How long it has stood still since some time."""
        before = [paused_s for time_s, paused_s in self._stood if time_s <= since_s]
        return self._stood[-1][1] - (before[-1] if before else 0.0)

    def cost(self) -> Cost | None:
        marks = list(self._marks)
        if len(marks) <= WINDOW_STEPS_MIN:
            return None
        steps = list(pairwise(marks))
        return Cost(
            _usual([(b.compute_s - a.compute_s) / (b.step - a.step) for a, b in steps]),
            _usual([(b.input_s - a.input_s) / (b.step - a.step) for a, b in steps]),
            (marks[-1].time_s - marks[0].time_s) / (marks[-1].step - marks[0].step),
            (marks[-1].samples - marks[0].samples) / (marks[-1].step - marks[0].step),
        )


def _usual(values: list[float]) -> float:
    """The mean of all but the largest."""
    kept = sorted(values)[: len(values) - max(1, round(SPARED * len(values)))]
    return sum(kept) / len(kept)

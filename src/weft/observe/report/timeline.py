"""A stretch of a run: one lane for each worker, with what its script did when."""

from collections.abc import Sequence

from weft.core.activity import ACTIVITIES, COMPUTES, PAUSED, READS, REPORTS, SENDS, WAITS
from weft.observe.records.comparison import Setup, WorkerFigures
from weft.observe.records.quantities import human_seconds
from weft.observe.report.bars import bar, piece
from weft.observe.report.lines import boxed
from weft.observe.report.markup import Markup, joined, tag
from weft.observe.report.scales import Scale

IN_WORDS = {
    COMPUTES: "computing",
    READS: "reading",
    WAITS: "waiting",
    REPORTS: "reporting",
    PAUSED: "paused",
    SENDS: "sending",
}

LANES_MAX = 16
"""More workers are not shown one by one: those that were made slow first, then by rank."""

SAME_SCALE = 8.0
"""Stretches whose lengths differ by more have a time scale each."""

SENDING_FROM = 0.72
"""Sending goes on beside the script: a stripe at the foot of the lane."""

SENDING_LEAST = 0.003
"""Messages into shared memory take no time that could be seen: so much of a lane they have at least."""


def shown_workers(setup: Setup, workers: Sequence[WorkerFigures]) -> list[WorkerFigures]:
    """Those that have a lane."""
    first = sorted(workers, key=lambda worker: (str(worker.rank) not in setup.slow, worker.rank))
    return sorted(first[:LANES_MAX], key=lambda worker: worker.rank)


def stretch(workers: Sequence[WorkerFigures]) -> tuple[float, float] | None:
    """From when to when these workers were looked at; None if nobody looked."""
    spans = [span for worker in workers for span in worker.spans]
    return (min(begin for _, begin, _ in spans), max(end for _, _, end in spans)) if spans else None


def common_length(lengths: Sequence[float]) -> float | None:
    """The length that all lanes have, so that they can be compared; None if the short ones could not be seen then."""
    return max(lengths) if max(lengths) <= SAME_SCALE * min(lengths) else None


def lanes(workers: Sequence[WorkerFigures], begin_s: float, length_s: float) -> Markup:
    """A lane for each worker, and a ruler below."""
    scale = Scale(0.0, length_s)
    drawn = [tag("div", tag("span", f"worker {w.rank}"), _lane(w, begin_s, scale), class_="lane time") for w in workers]
    parts = [("0", 0.0), (human_seconds(length_s / 2), 0.5), (human_seconds(length_s), 1.0)]
    marks = [tag("span", said, style=f"left:{part:.0%}") for said, part in parts]
    return joined([*drawn, tag("div", *marks, class_="ruler")])


def _lane(worker: WorkerFigures, begin_s: float, scale: Scale) -> Markup:
    pieces = []
    for word, begin, end in sorted(worker.spans, key=lambda span: (span[0] == SENDS, span[1])):
        said = f"worker {worker.rank} {IN_WORDS[word]}, {human_seconds(end - begin)}"
        start, stop, top = scale.place(begin - begin_s), scale.place(end - begin_s), 0.0
        if word == SENDS:
            stop, top = min(1.0, max(stop, start + SENDING_LEAST)), SENDING_FROM
        pieces.append(piece(f"a-{word}", start, stop, said, top))
    return bar(*pieces, name=f"what worker {worker.rank} did when")


def activity_legend(words: Sequence[str]) -> Markup:
    """Which colour stands for which activity."""
    items = [tag("li", _box(word), IN_WORDS[word]) for word in (*ACTIVITIES, SENDS) if word in words]
    return tag("ul", *items, class_="legend")


def _box(word: str) -> Markup:
    return boxed(tag("rect", class_=f"fill a-{word}", width=26, height=10))


def share_of(word: str, workers: Sequence[WorkerFigures]) -> float:
    """The share of the shown time that went into an activity."""
    spans = [span for worker in workers for span in worker.spans if span[0] != SENDS]
    total = sum(end - begin for _, begin, end in spans)
    return sum(end - begin for what, begin, end in spans if what == word) / total if total else 0.0

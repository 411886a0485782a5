"""A stretch of a run in which everybody can be seen at work: the same few moments for all workers.

It is from the middle of the run, but not from where a worker evaluates for all: that is the end of an epoch.
"""

from collections.abc import Iterable, Iterator, Sequence

from weft.core.activity import REPORTS, SENDS
from weft.observe.records.tracks import Span, Tracks

STEPS = 4
"""How many steps of the slowest worker are shown."""
SPANS_MAX = 200
"""Of one worker; a stretch in which somebody did more is halved."""
SAME_S = 1e-9
"""What is closer together than this follows without a gap."""


def timeline(tracks: Tracks) -> list[list[Span]]:
    """What each worker's script did in a stretch from the middle of what was kept, then what it sent meanwhile.

    Times are seconds of the run. Servers send with the worker that they sit with.
    """
    if tracks.stretch is not None:
        return tracks.stretch
    lanes = [list(tracks.since_begin(rank)) for rank in range(tracks.num_workers)]
    if not all(lanes):
        return [[] for _ in lanes]
    start_s, stop_s = _stretch([[at_s - tracks.began_s for _, at_s in steps] for steps in tracks.steps], lanes)
    sent = [list(_sent(tracks, rank)) for rank in range(tracks.num_workers)]
    while True:
        shown = [
            merged(_cut(lane, start_s, stop_s)) + merged(_cut(sends, start_s, stop_s))
            for lane, sends in zip(lanes, sent, strict=True)
        ]
        if max(map(len, shown)) <= SPANS_MAX:
            return shown
        stop_s = (start_s + stop_s) / 2


def let_go(tracks: Tracks) -> None:
    """Keep the timeline, and nothing else: the next run needs the memory."""
    tracks.stretch = timeline(tracks)
    for records in (*tracks.spans, *tracks.steps, tracks.passages, tracks.reductions):
        records.clear()  # type: ignore[attr-defined]


def _stretch(steps: Sequence[Sequence[float]], lanes: Sequence[Sequence[Span]]) -> tuple[float, float]:
    """From when to when: some steps of the worker that made the fewest while all were at it; all, if it made fewer."""
    all_until_s = min(max(each, default=0.0) for each in steps)
    ends_s = min(([at_s for at_s in each if at_s <= all_until_s] for each in steps), key=len)
    if len(ends_s) <= STEPS:
        return max(lane[0][1] for lane in lanes), min(lane[-1][2] for lane in lanes)
    middle = (len(ends_s) - STEPS) // 2
    reports = [(from_s, to_s) for lane in lanes for what, from_s, to_s in lane if what == REPORTS]
    for first in range(middle, -1, -STEPS):
        start_s, stop_s = ends_s[first], ends_s[first + STEPS]
        if not any(from_s < stop_s and to_s > start_s for from_s, to_s in reports):
            return start_s, stop_s
    return ends_s[middle], ends_s[middle + STEPS]


def _sent(tracks: Tracks, rank: int) -> Iterator[Span]:
    for passage in tracks.passages:
        if passage.is_sent and passage.source % tracks.num_workers == rank:
            yield SENDS, passage.start_s - tracks.began_s, passage.stop_s - tracks.began_s


def _cut(lane: Iterable[Span], start_s: float, stop_s: float) -> Iterator[Span]:
    for what, from_s, to_s in lane:
        if to_s > start_s and from_s < stop_s:
            yield what, max(from_s, start_s), min(to_s, stop_s)


def merged(lane: Iterable[Span]) -> list[Span]:
    """The same, where one span follows another of its kind as one."""
    spans: list[Span] = []
    for what, start_s, stop_s in lane:
        if spans and spans[-1][0] == what and start_s - spans[-1][2] < SAME_S:
            spans[-1] = what, spans[-1][1], stop_s
        else:
            spans.append((what, start_s, stop_s))
    return spans

"""A stretch of a run: some steps from its middle, the same moments for all workers."""

from weft.observe.records.timeline import SPANS_MAX, STEPS, let_go, merged, timeline
from weft.observe.records.tracks import Passage, Traced, Tracks


def worker(num_steps: int, step_s: float, waiting_s: float, began_s: float = 100.0) -> Traced:
    """Every step computes, then waits."""
    starts = [began_s + step * step_s for step in range(num_steps)]
    spans = []
    for start_s in starts:
        spans += [
            ("compute", start_s, start_s + step_s - waiting_s),
            ("wait", start_s + step_s - waiting_s, start_s + step_s),
        ]
    return Traced(spans, [(step + 1, start_s + step_s) for step, start_s in enumerate(starts)], [], [])


def tracks(*workers: Traced) -> Tracks:
    kept = Tracks(len(workers))
    kept.began_s = 100.0
    for rank, told in enumerate(workers):
        kept.take(rank, told)
    return kept


def test_some_steps_from_the_middle_of_the_slowest_are_shown_for_all() -> None:
    slow, fast = timeline(tracks(worker(20, 4.0, 1.0), worker(80, 1.0, 0.5)))
    assert len(slow) == 2 * STEPS
    assert (slow[0], slow[-1]) == (("compute", 36.0, 39.0), ("wait", 51.0, 52.0))
    assert len(fast) == 2 * 4 * STEPS
    assert (fast[0], fast[-1]) == (("compute", 36.0, 36.5), ("wait", 51.5, 52.0))


def test_what_goes_on_at_the_edges_is_cut_there() -> None:
    _, other = timeline(tracks(worker(20, 4.0, 1.0), worker(9, 9.0, 1.0)))
    assert (other[0][1], other[-1][2]) == (18.0 + 9.0, 18.0 + 9.0 + 9.0 * STEPS)
    first, _ = timeline(tracks(worker(20, 4.0, 1.0), worker(9, 9.0, 1.0)))
    assert (first[0], first[-1]) == (("wait", 27.0, 28.0), ("compute", 60.0, 63.0))


def test_a_short_run_is_shown_from_when_all_were_there_to_when_the_first_ended() -> None:
    first, second = timeline(tracks(worker(3, 1.0, 0.5), worker(2, 1.0, 0.5, began_s=100.25)))
    assert (first[0][1], first[-1][2]) == (second[0][1], second[-1][2]) == (0.25, 2.25)


def test_a_stretch_in_which_somebody_did_a_great_deal_is_made_shorter_for_all() -> None:
    slow, fast = timeline(tracks(worker(20, 4.0, 1.0), worker(80_000, 0.001, 0.0005)))
    assert SPANS_MAX / 3 < len(fast) <= SPANS_MAX
    assert slow[-1][2] == fast[-1][2]
    assert slow[0][1] == fast[0][1] == 36.0


def test_of_workers_that_told_nothing_there_is_nothing_to_show() -> None:
    assert timeline(tracks(worker(20, 4.0, 1.0), Traced([], [], [], []))) == [[], []]


def test_what_is_let_go_leaves_its_timeline() -> None:
    kept = tracks(worker(20, 4.0, 1.0), worker(80, 1.0, 0.5))
    shown = timeline(kept)
    let_go(kept)
    assert timeline(kept) == shown
    assert not any((*kept.spans, *kept.steps, kept.passages, kept.reductions))


def test_what_goes_on_is_one_span() -> None:
    spans = [("wait", 0.0, 1.0), ("wait", 1.0, 2.0), ("compute", 2.0, 3.0), ("wait", 3.0, 4.0), ("wait", 5.0, 6.0)]
    assert merged(spans) == [("wait", 0.0, 2.0), *spans[2:]]


def test_the_end_of_an_epoch_is_passed_over() -> None:
    told = worker(20, 4.0, 1.0)
    told.spans.append(("report", 100.0 + 40.0, 100.0 + 41.0))
    slow, _ = timeline(tracks(told, worker(80, 1.0, 0.5)))
    assert (slow[0][1], slow[-1][2]) == (36.0 - 4.0 * STEPS, 52.0 - 4.0 * STEPS)
    told.spans.append(("report", 100.0, 100.0 + 80.0))
    slow, _ = timeline(tracks(told, worker(80, 1.0, 0.5)))
    assert (slow[0][1], slow[-1][2]) == (36.0, 52.0)


def test_what_was_sent_follows_with_that_of_servers_at_their_workers() -> None:
    kept = tracks(worker(20, 4.0, 1.0), worker(80, 1.0, 0.5))
    for source, start_s in ((1, 137.0), (3, 138.0), (1, 10.0)):
        kept.passages.append(Passage(True, source, 0, 1, "push", 0, 8, start_s, start_s + 0.5))
    kept.passages.append(Passage(False, 1, 0, 1, "push", 0, 8, 137.0, 138.0))
    first, second = timeline(kept)
    assert not [span for span in first if span[0] == "send"]
    assert second[-2:] == [("send", 37.0, 37.5), ("send", 38.0, 38.5)]


def test_a_stretch_ends_before_the_first_worker_is_done() -> None:
    slow, fast = timeline(tracks(worker(20, 4.0, 1.0), worker(40, 1.0, 0.5)))
    assert (slow[0][1], slow[-1][2]) == (fast[0][1], fast[-1][2]) == (16.0, 32.0)

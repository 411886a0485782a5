"""What is kept of a run: as much as there is room for, and how much there was not."""

from weft.observe.records.tracks import Numbering, Passage, Reduction, Traced, Tracks

PASSAGE = Passage(True, 0, 1, 1, "push", 3, 80, 1.0, 2.0)
REDUCTION = Reduction(0, "gradient", 3, 0, 80, 1.0, 2.0)


def test_what_workers_told_is_kept_by_rank() -> None:
    tracks = Tracks(2)
    tracks.take(1, Traced([("compute", 1.0, 2.0)], [(1, 2.0)], [PASSAGE], []))
    tracks.take(1, Traced([("wait", 2.0, 3.0)], [], [], [REDUCTION]))
    assert tracks.spans == [[], [("compute", 1.0, 2.0), ("wait", 2.0, 3.0)]]
    assert tracks.steps == [[], [(1, 2.0)]]
    assert (tracks.passages, tracks.reductions, tracks.num_dropped) == ([PASSAGE], [REDUCTION], 0)


def test_what_there_is_no_room_for_is_counted_with_what_workers_dropped() -> None:
    tracks = Tracks(2, records_max=3)
    tracks.take(0, Traced([], [], [PASSAGE] * 2, [], num_dropped=10))
    tracks.take(1, Traced([], [(1, 1.0)], [PASSAGE], [], num_dropped=100))
    tracks.take(0, Traced([], [], [PASSAGE], [], num_dropped=12))
    tracks.take(0, Traced([], [], [PASSAGE], [], num_dropped=12))
    assert len(tracks.passages) == 3
    assert tracks.num_dropped == 12 + 100 + 2 + 1, "two of worker 1 at once, and the last of worker 0"


def test_single_records_are_kept_as_long_as_there_is_room() -> None:
    tracks = Tracks(1, records_max=1)
    tracks.keep(tracks.passages, PASSAGE)
    tracks.keep(tracks.reductions, REDUCTION)
    assert (tracks.passages, tracks.reductions, tracks.num_dropped) == ([PASSAGE], [], 1)


def test_times_of_spans_count_from_the_beginning() -> None:
    tracks = Tracks(1)
    tracks.began_s = 10.0
    tracks.take(0, Traced([("compute", 11.0, 12.5)], [], [], []))
    assert list(tracks.since_begin(0)) == [("compute", 1.0, 2.5)]


def test_messages_are_numbered_for_each_pair_of_nodes_and_each_end() -> None:
    numbering = Numbering()
    channels = [(True, 0, 1), (True, 0, 1), (False, 0, 1), (True, 1, 0), (True, 0, 1)]
    assert [numbering.next(*channel) for channel in channels] == [1, 2, 1, 1, 3]
    numbering.enter_view(2)
    assert [numbering.next(*channel) for channel in channels[:2]] == [(2 << 40) + 1, (2 << 40) + 2]


def test_a_passage_happened_at_its_own_end() -> None:
    assert (PASSAGE.node, Passage(False, 0, 1, 1, "push", 3, 80, 1.0, 2.0).node) == (0, 1)

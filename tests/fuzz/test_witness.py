"""The witness records values at the moments that matter, and bounds a run."""

from itertools import pairwise

import pytest

from weft.core.errors import Deadlock
from weft.core.events import Started
from weft.fuzz import witness
from weft.fuzz.run import run
from weft.fuzz.scenario import draw
from weft.fuzz.witness import BoundedRecording
from weft.sim.faults.in_flight import RECEIVED


def test_a_run_that_goes_on_and_on_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(witness, "EVENTS_MAX", 3)
    recording = BoundedRecording()
    for number in range(3):
        recording.record(number, 0, Started(0), ())
    with pytest.raises(Deadlock, match=r"^the run went on and on: more than 3 events by 0.000 s\."):
        recording.record(3, 0, Started(0), ())


def test_every_iteration_is_seen_with_what_it_began_with() -> None:
    evidence = run(draw(1, ("async_gossip",)))
    seen = [(sighting.worker, sighting.step) for sighting in evidence.sightings]
    assert len(seen) == len(set(seen))
    assert {(worker, 0) for worker in evidence.world.workers} <= set(seen)
    trained = evidence.sightings[0].params[: evidence.scenario.num_trained]
    assert [array.sum() for array in trained] == [1.0] * len(trained)


def test_versions_of_a_server_differ_from_one_to_the_next_and_messages_are_kept() -> None:
    evidence = run(draw(0, ("downpour(push=1, fetch=1)",)))
    for _, _, versions in evidence.histories():
        assert len(versions) > 1
        assert all((before.params != after.params).any() for before, after in pairwise(versions))
    assert any(message.fate is RECEIVED for message in evidence.messages)

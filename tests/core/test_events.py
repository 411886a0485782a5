"""The facts a peer is told."""

import pickle
from typing import get_args

from weft.core.events import Event, GradientReady, Received, StepFinished
from weft.core.names import Buffer


def test_events_with_the_same_values_are_equal() -> None:
    assert GradientReady(1, 0, 8.0) == GradientReady(1, 0, 8.0)
    assert GradientReady(1, 0, 8.0) != GradientReady(1, 1, 8.0)
    assert StepFinished(1, 8.0, None) != GradientReady(1, 8, None)  # type: ignore[arg-type]


def test_there_are_ten_events_and_each_is_in_the_past_tense() -> None:
    names = [event.__name__ for event in get_args(Event)]
    assert names == [
        "Started",
        "GradientReady",
        "StepFinished",
        "PortionAsked",
        "EpochFinished",
        "Received",
        "Returned",
        "Reduced",
        "TimerFired",
        "MembersChanged",
    ]


def test_events_travel_between_processes() -> None:
    event = Received(1, "push", 3, 0, Buffer("inbox", 0), 8.0, {"a": 1})
    assert pickle.loads(pickle.dumps(event)) == event

"""What a run has shown so far, as it is written down."""

from support.processes.records import status_with

from weft.observe.records.run_history import CURVE_POINTS_MAX, RunHistory


def test_a_status_is_a_point_of_the_curve() -> None:
    history = RunHistory()
    history.add_status(status_with(loss=0.5, samples=8.0), 24.0, 1.5)
    history.add_status(status_with(loss=None, samples=9.0), 25.0, 1.75)
    assert history.curve == [
        {"wall_s": 1.5, "samples": 24.0, "loss": 0.5},
        {"wall_s": 1.75, "samples": 25.0, "loss": None},
    ]


def test_of_a_curve_with_too_many_points_every_other_one_is_dropped() -> None:
    history = RunHistory()
    for place in range(CURVE_POINTS_MAX + 1):
        history.add_status(status_with(loss=0.5), float(place), 0.0)
        assert len(history.curve) < CURVE_POINTS_MAX
    samples = [point["samples"] for point in history.curve]
    assert samples == [*range(0, CURVE_POINTS_MAX, 2), CURVE_POINTS_MAX]


def test_a_report_has_its_numbers_and_what_weft_adds() -> None:
    history = RunHistory()
    history.add_report(3, {"accuracy": 0.75}, None, 2.5)
    history.add_report(4, {"accuracy": 0.8}, 0.125, 3.5)
    assert history.reports == [
        {"accuracy": 0.75, "epoch": 3, "wall_s": 2.5, "consensus": None},
        {"accuracy": 0.8, "epoch": 4, "wall_s": 3.5, "consensus": 0.125},
    ]

"""Places of numbers on a chart."""

import pytest

from weft.observe.report.scales import Scale, label, scale_of, time_scale


def test_numbers_stand_between_the_ends_and_others_at_them() -> None:
    scale = Scale(2.0, 4.0)
    assert [scale.place(value) for value in (1.0, 2.0, 3.0, 4.0, 5.0)] == [0.0, 0.0, 0.5, 1.0, 1.0]
    decades = Scale(0.01, 1.0, True)
    assert decades.place(0.1) == pytest.approx(0.5)
    assert decades.place(0.0) == 0.0


@pytest.mark.parametrize(
    ("scale", "ticks"),
    [
        (Scale(0.0, 20.0), [0, 5, 10, 15, 20]),
        (Scale(0.0, 1.0), [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (Scale(0.53, 1.0), [0.6, 0.7, 0.8, 0.9, 1.0]),
        (Scale(0.03, 3.0, True), [0.1, 1.0]),
        (Scale(1e-9, 1.0, True), [1e-9, 1e-7, 1e-5, 1e-3, 0.1]),
        (Scale(0.2, 0.8, True), [0.2, 0.8]),
    ],
)
def test_ticks_are_round_numbers(scale: Scale, ticks: list[float]) -> None:
    assert scale.ticks() == pytest.approx(ticks)


def test_a_scale_shows_all_numbers_with_air_around_them() -> None:
    assert scale_of([1.0, 2.0], include=3.0) == Scale(0.9, 3.1)
    assert scale_of([0.0, 1.0]).low == 0.0
    assert scale_of([5.0]) == Scale(4.75, 5.25)
    assert scale_of([0.0]) == Scale(0.0, 0.5)
    assert scale_of([-1.0, 1.0]) == Scale(-1.1, 1.1)


def test_only_positive_numbers_over_many_decades_are_shown_by_their_logarithm() -> None:
    assert scale_of([0.01, 1.0], may_be_log=True).is_log
    assert not scale_of([0.01, 1.0]).is_log
    assert not scale_of([0.0, 1.0], may_be_log=True).is_log
    assert not scale_of([0.5, 1.0], may_be_log=True).is_log


def test_a_time_scale_begins_at_0_and_has_a_length() -> None:
    assert time_scale(7.0) == Scale(0.0, 7.0)
    assert time_scale(0.0) == Scale(0.0, 1.0)


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0"), (0.2, "0.2"), (15.0, "15"), (20_000.0, "20,000"), (1e-4, "1e-4"), (1e6, "1e6")]
)
def test_labels_are_short(value: float, text: str) -> None:
    assert label(value) == text

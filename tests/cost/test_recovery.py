"""What a lost worker costs."""

from dataclasses import fields

from weft.cost.recovery import RecoveryTimes


def test_all_times_are_in_seconds_and_shorter_than_what_is_promised_of_real_runs() -> None:
    times = RecoveryTimes()
    assert all(field.name.endswith("_s") and getattr(times, field.name) > 0 for field in fields(times))
    assert times.notice_s < 0.1, "a dead local process is known in 0.1 s"
    assert times.rest_s < 0.5, "the next step is committed within 0.5 s"

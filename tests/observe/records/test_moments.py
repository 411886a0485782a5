"""A run at some moments: what was reached, and rates since the moment before."""

from weft.observe.records.moments import Count, Moments, WorkerMoment


def test_rates_are_those_since_the_moment_before() -> None:
    moments = Moments(2)
    moments.make(2.0, [Count(10, 100.0, 1.0, 1000), Count(5, 50.0, 0.0, 500)], 0.5, 1.0)
    assert moments.at_s == 2.0
    told = moments.make(4.0, [Count(20, 200.0, 2.0, 2000), Count(11, 110.0, 1.5, 900)], 0.25, 2.0)
    assert (told.at_s, told.step, told.samples, told.samples_per_s) == (4.0, 15, 310.0, 80.0)
    assert (told.loss, told.staleness_mean, told.bytes_sent, told.waiting_fraction) == (0.25, 2.0, 2900, 0.625)
    assert told.workers == [WorkerMoment(0, 20, 200.0, 0.5, 2000), WorkerMoment(1, 11, 110.0, 0.75, 900)]


def test_the_first_moment_counts_from_the_beginning() -> None:
    told = Moments(1).make(0.5, [Count(1, 8.0, 0.25, 10)], None, 0.0)
    assert (told.samples_per_s, told.waiting_fraction, told.loss) == (16.0, 0.5, None)


def test_without_time_there_are_no_rates_and_nobody_waits_for_longer_than_there_was() -> None:
    moments = Moments(1)
    assert moments.make(0.0, [Count(1, 8.0, 0.0, 10)], None, 0.0).samples_per_s == 0.0
    assert moments.make(1.0, [Count(1, 8.0, 1.5, 10)], None, 0.0).waiting_fraction == 1.0

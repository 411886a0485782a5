"""What a simulated run amounts to."""

import pytest

from weft.sim.facts import POINTS_MAX, Facts


def test_nothing_has_happened_at_the_start() -> None:
    facts = Facts(2)
    assert (facts.steps, facts.compute_s, facts.finished_s) == ([0, 0], [0.0, 0.0], [0.0, 0.0])
    assert (facts.virtual_s, facts.waiting_fraction, facts.staleness_mean) == (0.0, 0.0, 0.0)
    assert (facts.curve(), facts.final, facts.final_loss) == ([], {}, None)


def test_staleness_has_a_mean_and_a_maximum_and_other_notes_are_for_other_observers() -> None:
    facts = Facts(1)
    for value in (0, 3, 0, 1):
        facts.note("staleness", value)
    facts.note("elected", 100.0)
    assert (facts.staleness_mean, facts.staleness_max, facts.staleness_count) == (1.0, 3, 4)
    assert facts.ages == {0: 2, 1: 1, 3: 1}


def test_ages_are_counted_in_whole_steps() -> None:
    facts = Facts(1)
    for value in (0.9, 1.0, 1.5):
        facts.note("staleness", value)
    assert facts.ages == {0: 1, 1: 2}


def test_a_worker_has_sent_what_servers_that_sit_with_it_have_and_its_part_of_what_a_group_has() -> None:
    facts = Facts(2)
    for node, num_bytes in [(0, 1), (1, 10), (2, 100), (3, 1000), (4, 10_000)]:
        facts.sent(node, num_bytes)
    assert facts.bytes_from == [10_101, 1010]
    facts.sent_together((0, 1), 7)
    assert facts.bytes_from == [10_105, 1013]
    assert facts.bytes_sent == 11_118


def test_steps_and_samples_are_counted_and_losses_kept_when_told() -> None:
    facts = Facts(2)
    facts.step(0, 1.0, 8, 0.5)
    facts.step(1, 2.0, 4, None)
    facts.step(0, 3.0, 8, 0.25)
    assert facts.steps == [2, 1]
    assert facts.samples == 20
    assert facts.samples_of == [16, 4]
    assert facts.losses == [(1.0, 8, 0.5), (3.0, 20, 0.25)]


def test_the_waiting_fraction_is_the_share_of_time_without_user_code() -> None:
    facts = Facts(2)
    facts.compute_s = [1.0, 3.0]
    facts.finished_s = [3.0, 5.0]
    assert facts.waiting_fraction == 0.5
    assert facts.virtual_s == 5.0


def test_a_curve_has_a_point_for_each_step_of_all_workers() -> None:
    facts = Facts(2)
    for i in range(5):
        facts.step(i % 2, float(i), 1, float(10 - i))
    assert facts.curve() == [
        {"virtual_s": 1.0, "samples": 2.0, "loss": 9.5},
        {"virtual_s": 3.0, "samples": 4.0, "loss": 7.5},
        {"virtual_s": 4.0, "samples": 5.0, "loss": 6.0},
    ]
    assert facts.final_loss == 6.0


@pytest.mark.parametrize("num_steps", [POINTS_MAX, POINTS_MAX + 1, 10 * POINTS_MAX + 7])
def test_a_long_run_is_drawn_with_a_limited_number_of_points(num_steps: int) -> None:
    facts = Facts(1)
    for step in range(num_steps):
        facts.step(0, float(step), 1, 2.0)
    curve = facts.curve()
    assert POINTS_MAX / 2 <= len(curve) <= POINTS_MAX
    assert curve[-1] == {"virtual_s": num_steps - 1.0, "samples": float(num_steps), "loss": 2.0}


def test_the_final_numbers_are_the_last_reported_of_each_name() -> None:
    facts = Facts(1)
    facts.report(0, 1.0, {"loss": 2.0, "accuracy": 0.5}, 0.25)
    facts.report(1, 2.0, {"loss": 1.0})
    assert facts.reports == [
        {"epoch": 0, "virtual_s": 1.0, "loss": 2.0, "accuracy": 0.5, "consensus": 0.25},
        {"epoch": 1, "virtual_s": 2.0, "loss": 1.0, "consensus": None},
    ]
    assert facts.final == {"loss": 1.0, "accuracy": 0.5}


def test_samples_per_second_are_those_of_finished_steps() -> None:
    facts = Facts(2)
    assert facts.samples_per_s == 0.0
    facts.step(0, 1.0, 6.0, None)
    facts.finished_s = [1.5, 2.0]
    assert facts.samples_per_s == 3.0

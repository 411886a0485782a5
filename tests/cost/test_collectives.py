"""What an all-reduce costs (Ben-Nun & Hoefler 2018, "Parallel reductions for parameter updates")."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.cost.collectives import (
    FORMULAS,
    allreduce_bytes,
    allreduce_s,
    butterfly_s,
    halving_doubling_s,
    hierarchical_s,
    partitioned_linear_s,
    ring_s,
    tree_s,
)
from weft.cost.links import Link

L, G = 0.5, 0.125
LINK = Link(L, 1 / G)
M = 64


@pytest.mark.parametrize(("size", "log2"), [(2, 1), (4, 2), (8, 3), (64, 6)])
def test_the_formulas_for_powers_of_two(size: int, log2: int) -> None:
    share = (size - 1) / size
    assert tree_s(size, M, LINK) == 2 * L * log2 + 2 * M * G * log2
    assert butterfly_s(size, M, LINK) == L * log2 + M * G * log2
    assert ring_s(size, M, LINK) == pytest.approx(2 * L * (size - 1) + 2 * M * G * share, rel=1e-12)
    assert halving_doubling_s(size, M, LINK) == pytest.approx(2 * L * log2 + 2 * M * G * share, rel=1e-12)


@pytest.mark.parametrize("formula", [tree_s, butterfly_s])
def test_other_sizes_round_the_number_of_rounds_up(formula: object) -> None:
    assert [formula(size, M, LINK) for size in (5, 6, 7)] == [formula(8, M, LINK)] * 3  # type: ignore[operator]


@given(
    exponent=st.integers(1, 10),
    num_bytes=st.integers(0, 10**9),
    latency_s=st.floats(0, 1),
    bandwidth=st.floats(1e3, 1e12),
)
def test_nothing_is_faster_than_the_lower_bound_and_native_is_the_fastest(
    exponent: int, num_bytes: int, latency_s: float, bandwidth: float
) -> None:
    size, link = 2**exponent, Link(latency_s, bandwidth)
    times = [formula(size, num_bytes, link) for formula in FORMULAS.values()]
    assert allreduce_s(size, num_bytes, link) == min(times)
    bound_s = exponent * latency_s + 2 * (size - 1) / size * num_bytes / bandwidth
    assert min(times) >= bound_s * (1 - 1e-12)


def test_short_messages_want_few_rounds_and_long_ones_few_bytes() -> None:
    assert allreduce_s(8, 1, LINK) == butterfly_s(8, 1, LINK)
    assert allreduce_s(8, 10**6, LINK) == halving_doubling_s(8, 10**6, LINK)


def test_alone_nothing_is_sent_and_no_time_passes() -> None:
    assert allreduce_s(1, M, LINK) == 0.0
    assert allreduce_bytes(1, M) == 0


def test_all_members_together_send_two_times_the_bucket_less_one_members_share() -> None:
    assert allreduce_bytes(4, M) == 2 * 3 * M


def test_a_hierarchy_costs_the_sum_of_its_levels_and_its_largest_host_counts() -> None:
    within = Link(0.25, 32.0)
    assert hierarchical_s([2, 4, 3, 1], M, within, LINK) == tree_s(4, M, within) + halving_doubling_s(4, M, LINK)
    assert hierarchical_s([8], M, within, LINK) == tree_s(8, M, within)
    assert hierarchical_s([1] * 8, M, within, LINK) == halving_doubling_s(8, M, LINK)


def test_a_line_whose_neighbours_have_links_of_their_own_costs_what_a_ring_costs() -> None:
    assert partitioned_linear_s(8, M, LINK) == ring_s(8, M, LINK) == 2 * 7 * (L + M * G / 8)

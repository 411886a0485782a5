"""The nouns that events and actions are made of."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.core.names import Bucket, Buffer, Part, Roles, member


@given(num_elements=st.integers(0, 10_000), of=st.integers(1, 64))
def test_the_parts_of_a_bucket_cover_it_without_overlap_and_differ_by_one_element_at_most(
    num_elements: int, of: int
) -> None:
    bounds = [Part(which, of).bounds(num_elements) for which in range(of)]
    sizes = [stop - start for start, stop in bounds]
    assert bounds[0][0] == 0
    assert bounds[-1][1] == num_elements
    assert all(before[1] == after[0] for before, after in pairwise(bounds))
    assert max(sizes) - min(sizes) <= 1


@given(num_elements=st.integers(0, 10_000), which=st.integers(0, 31))
def test_a_half_is_made_of_two_whole_quarters(num_elements: int, which: int) -> None:
    half = Part(which, 32).bounds(num_elements)
    first, second = Part(2 * which, 64).bounds(num_elements), Part(2 * which + 1, 64).bounds(num_elements)
    assert (first[0], second[1]) == half


@pytest.mark.parametrize(("which", "bounds"), [(0, (0, 3)), (1, (3, 6)), (2, (6, 10))])
def test_ten_elements_in_three_parts(which: int, bounds: tuple[int, int]) -> None:
    assert Part(which, 3).bounds(10) == bounds


def test_a_bucket_knows_its_bytes() -> None:
    assert Bucket(10).num_bytes == 40
    assert Bucket(10, 8).num_bytes == 80


def test_a_bucket_is_trained_and_a_strategy_has_no_servers_unless_told_otherwise() -> None:
    assert Bucket(10).trainable
    assert Roles(4) == Roles(4, 0)


def test_the_tensors_of_an_ensembles_member_are_named_by_its_number() -> None:
    assert member(12) + "fc.weight" == "member12.fc.weight"


def test_a_buffer_is_its_name() -> None:
    assert Buffer("params", 1) == Buffer("params", 1, None)
    assert len({Buffer("params", 1), Buffer("params", 1), Buffer("params", 1, Part(0, 2))}) == 2

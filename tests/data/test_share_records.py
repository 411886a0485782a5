"""What workers tell of their shares: who goes on with other data is refused, and so is what none can have told."""

from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.scripts.share_scripts import scripts

from weft.core.errors import CheckpointError
from weft.data.resumed_shares import StoredShares, resumed_shares
from weft.data.share_records import HandedRound, HandedRounds, HandedShares, Reached, Redealing, why_impossible

ROUNDS = HandedRounds([HandedRound([0, 8], True, [0, -1]), HandedRound([5, 3], False, [1])], 1, None, 4, 2, 9)
SHARES = HandedShares(0, 2, 5, [0, 1], [(5, [0, 1, 2])], {6: [Redealing({-2: 3}, [0, 1])]}, {5: ROUNDS}, 7, 1)
REACHED = Reached(6, {5: 1})


@pytest.mark.parametrize("num_workers", [2, 3])
@pytest.mark.parametrize(
    ("data", "because"),
    [
        ((8, 2, None), "num_samples=12, but the script now has num_samples=8"),
        ((12, 3, None), "batch_size=2, but the script now has batch_size=3"),
        ((12, 2, 6), "global_batch=None, but the script now has global_batch=6"),
    ],
)
def test_who_goes_on_with_other_data_or_other_batches_is_refused_with_both_values(
    data: tuple[int, int, int | None], because: str, num_workers: int
) -> None:
    team = scripts(2)
    for script in team.values():
        script.dealt.begin_epoch(0, 0)
        script.begin(12, 2)
    stored = [StoredShares(script.dealt.hand_over(), script.dealt.to_keep) for script in team.values()]
    others = scripts(num_workers)
    for rank, script in others.items():
        script.dealt.take_over(resumed_shares(stored, rank, num_workers))
    with pytest.raises(CheckpointError) as caught:
        others[0].begin(*data)
    assert str(caught.value) == (
        f"the run that is to go on shared its data here with {because}.\n"
        "  Use the same data in batches of the same size, or another folder."
    )
    others[1].begin(12, 2)
    again = others[1].rounds.hand_over()
    assert (again.num_samples, again.batch_size) == (12, 2), "the next checkpoint knows it, too"


def test_a_checkpoint_that_does_not_say_how_many_samples_there_were_fits_any() -> None:
    replace(ROUNDS, num_samples=None).check(77, 4, None)
    with pytest.raises(CheckpointError, match="batch_size=4"):
        replace(ROUNDS, num_samples=None).check(77, 5, None)


def test_what_a_worker_tells_is_possible_also_with_names_of_workers_that_are_gone() -> None:
    assert why_impossible(SHARES, REACHED) == ""


@pytest.mark.parametrize(
    "changes",
    [
        {"loop": -1},
        {"epoch": -1},
        {"first": -1},
        {"members": []},
        {"earlier": [(-5, [0])]},
        {"to_come": {-6: []}},
        {"to_come": {6: [Redealing({0: -3}, [0])]}},
        {"rounds": {-5: ROUNDS}},
    ],
)
def test_shares_that_no_worker_can_have_are_told(changes: dict[str, Any]) -> None:
    assert why_impossible(replace(SHARES, **changes), REACHED).startswith("a number of its shares is negative")


@pytest.mark.parametrize("reached", [Reached(-1, {}), Reached(6, {-5: 1}), Reached(6, {5: -1})])
def test_places_that_no_worker_can_have_reached_are_told(reached: Reached) -> None:
    assert why_impossible(SHARES, reached).startswith("a number of its shares is negative")


@pytest.mark.parametrize(
    ("changes", "because"),
    [
        ({"num_void": 3}, "of 2 rounds, 3 are void and 2 taken"),
        ({"num_taken": -1}, "of 2 rounds, 1 are void and -1 taken"),
        ({"batch_size": 0}, "its batches have 0 samples, or None in all"),
        ({"size": 0}, "its batches have 4 samples, or 0 in all"),
        ({"num_samples": 7}, "a round has places behind its 7 samples"),
        *(
            ({"rounds": [each, each]}, "a round of its shares has no workers, or no places")
            for each in (
                HandedRound([0], True, [0]),
                HandedRound([0, 1, 2], True, [0]),
                HandedRound([4, 2], True, [0]),
                HandedRound([-1, 2], False, [0]),
                HandedRound([], False, [0]),
                HandedRound([0, 2], True, []),
            )
        ),
    ],
)
def test_rounds_that_no_share_can_have_are_told(changes: dict[str, Any], because: str) -> None:
    shares = replace(SHARES, rounds={5: replace(ROUNDS, **changes)})
    assert why_impossible(shares, REACHED) == because


reached_shares = st.integers(0, 5).flatmap(
    lambda begun: st.builds(
        Reached,
        st.just(begun),
        st.dictionaries(st.integers(0, begun - 1), st.integers(0, 9)) if begun else st.just({}),
    )
)


@given(one=reached_shares, other=reached_shares)
def test_the_farther_of_two_has_in_each_share_the_larger_number_of_rounds(one: Reached, other: Reached) -> None:
    def rounds(reached: Reached) -> list[float]:
        known = [reached.committed(share) for share in range(7)]
        return [inf if number is None else number for number in known]

    assert rounds(one.farther(other)) == [max(pair) for pair in zip(rounds(one), rounds(other), strict=True)]


@pytest.mark.parametrize(
    ("reached", "is_before"),
    [
        (Reached(5, {}), True),
        (Reached(4, {3: 2}), True),
        (Reached(6, {5: 0}), True),
        (Reached(6, {5: 1}), False),
        (Reached(6, {}), False),
        (Reached(7, {6: 0}), False),
    ],
)
def test_a_worker_is_before_an_epoch_if_it_has_committed_nothing_of_it(reached: Reached, is_before: bool) -> None:
    assert reached.is_before(5) == is_before

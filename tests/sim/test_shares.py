"""Shares of data in virtual time."""

import pytest

from weft.core.errors import ConfigError
from weft.sim.facts import Facts
from weft.sim.shares import VirtualShares

SPANS = [(0, 8), (8, 16), (16, 24)]


def measured(*seconds: float) -> Facts:
    """Facts of workers that have done 8 samples each."""
    facts = Facts(len(seconds))
    for worker, each in enumerate(seconds):
        facts.compute_s[worker] = each
        facts.step(worker, 1.0, 8.0, None)
    return facts


def test_parts_are_even_before_the_simulation_has_begun_and_then_by_what_it_measured() -> None:
    shares = VirtualShares(2, "proportional", every=2)
    assert shares.ask(0, 0, 24, 0) == (0.5, 0.5)
    shares.facts = measured(1.0, 3.0)
    assert shares.ask(0, 0, 24, 0) == (0.5, 0.5)
    assert shares.ask(0, 0, 24, 1) == pytest.approx((0.75, 0.25))


@pytest.mark.parametrize("share", ["proportional", "stealing"])
def test_a_worker_that_comes_to_a_share_with_other_data_is_refused(share: str) -> None:
    shares = VirtualShares(2, share)
    next(shares.sizes(0, 0, SPANS))
    with pytest.raises(ConfigError, match="worker 1 came to share 1 with 23 samples, but worker 0 with 24"):
        next(shares.sizes(1, 0, [*SPANS[:2], (16, 23)]))


def test_the_sizes_of_batches_are_decided_when_they_are_drawn() -> None:
    shares = VirtualShares(2, "proportional", every=2)
    drawn = shares.sizes(0, 0, SPANS)
    assert [next(drawn), next(drawn)] == [4, 4]
    shares.facts = measured(1.0, 3.0)
    assert list(drawn) == [6]


def test_a_worker_that_steals_takes_what_the_others_have_left() -> None:
    shares = VirtualShares(2, "stealing")
    mine, theirs = shares.sizes(0, 0, [*SPANS, (24, 27)]), shares.sizes(1, 0, [*SPANS, (24, 27)])
    assert [next(mine), next(theirs), next(theirs), next(mine)] == [8, 8, 8, 3]
    assert [*mine, *theirs] == []
    assert shares.take(0, 1, 24, 2) == 0

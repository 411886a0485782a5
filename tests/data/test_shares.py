"""The words for how data is shared, and which strategies can work so."""

from dataclasses import dataclass

import pytest

from weft.config.registry import strategy
from weft.core.errors import ConfigError
from weft.core.strategy import Strategy
from weft.data.shares import PROPORTIONAL, SHARES, STATIC, STEALING, Shares, check_share, check_sharing, objection
from weft.data.shares import with_share as labelled


@dataclass(frozen=True)
class Free(Strategy):
    """Workers that need not wait for each other."""

    @property
    def keeps_step(self) -> bool:
        return False


def test_only_proportional_shares_have_blocks_and_only_one_word_means_stealing() -> None:
    assert [Shares(2, share, 5).every for share in SHARES] == [None, 5, None]
    assert [Shares(2, share).steals for share in SHARES] == [False, False, True]


def test_every_worker_comes_to_a_share_with_the_same_data() -> None:
    shares = Shares(3, PROPORTIONAL)
    for worker, share, num_samples in ((2, 0, 64), (0, 0, 64), (0, 1, 9), (2, 1, 9)):
        shares.check(worker, share, num_samples)
    with pytest.raises(ConfigError) as raised:
        shares.check(1, 1, 64)
    assert str(raised.value) == (
        "worker 1 came to share 2 with 64 samples, but worker 0 with 9.\n"
        "  Let every worker call worker.share alike: on the same data, equally often; read what only one of them needs "
        "without it."
    )


def test_a_word_that_is_not_known_gets_the_nearest() -> None:
    with pytest.raises(ConfigError) as raised:
        check_share("proportionate")
    assert str(raised.value) == "share 'proportionate' is not known.\n  Did you mean 'proportional'?"
    for share in SHARES:
        check_share(share)


def test_workers_that_wait_for_each_other_cannot_steal_and_are_sent_to_proportional_shares() -> None:
    with pytest.raises(ConfigError) as raised:
        check_sharing(Strategy(), "mine", STEALING)
    assert str(raised.value) == (
        "the workers of 'mine' wait for each other's steps, but with --share stealing each makes as many as it can.\n"
        "  Use --share proportional, which keeps the steps of all equal, or a strategy whose workers do not wait: "
        "'async_gossip', 'ssp(staleness=None)' or 'hogwild'."
    )
    check_sharing(Strategy(), "mine", PROPORTIONAL)
    check_sharing(Free(), "mine", STEALING)


def test_the_strategies_that_the_refusal_recommends_can_steal() -> None:
    for text in ("async_gossip", "ssp(staleness=None)", "hogwild"):
        check_sharing(strategy(text), text, STEALING)
        assert not strategy(text).keeps_step


@pytest.mark.parametrize("share", [PROPORTIONAL, STEALING])
def test_a_strategy_that_hands_out_the_data_itself_refuses_other_shares(share: str) -> None:
    with pytest.raises(ConfigError) as raised:
        objection(share)(strategy("sandblaster"), "sandblaster")
    assert str(raised.value) == (
        f"'sandblaster' hands out the data itself, so --share {share} has nothing to say there.\n  Leave it out."
    )
    objection(STATIC)(strategy("sandblaster"), "sandblaster")


def test_an_objection_knows_its_words() -> None:
    with pytest.raises(ConfigError, match="share 'even' is not known"):
        objection("even")


def test_labels_say_the_share_as_it_can_be_typed_again_unless_it_is_the_usual_one() -> None:
    assert labelled("allreduce", STATIC) == "allreduce"
    assert labelled("allreduce + fp16", PROPORTIONAL) == "allreduce + fp16 share=proportional"

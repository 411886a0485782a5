"""A worker whose trained buckets are the servers'."""

import pytest
from support.peers.newcomers import NEWCOMER, given, gives, handed, newcomer_of, with_newcomer

from weft.core.actions import Combine, Compute, Send
from weft.core.names import WELCOME
from weft.core.strategy import Strategy
from weft.strategies import EASGD, AsyncSGD, Downpour, ParameterServer, Quorum, Sandblaster
from weft.testing.peers import IN1, P1, WITH_STATE, tell

SERVER = 3
SERVED = [AsyncSGD(), ParameterServer(), Quorum(), Downpour(), EASGD(mode="async"), Sandblaster()]


@pytest.mark.parametrize("strategy", SERVED, ids=lambda strategy: strategy.entry.name)
def test_a_sponsor_gives_what_is_not_trained_and_the_servers_all_else(strategy: Strategy) -> None:
    assert strategy.welcomes
    assert with_newcomer(strategy, 0, WITH_STATE) == [gives(0, 1), Send(NEWCOMER, WELCOME, 0, 0, data={"step": 0})]
    assert with_newcomer(strategy, SERVER, WITH_STATE) == [gives(0, 0)]
    assert with_newcomer(strategy, 2, WITH_STATE) == []


@pytest.mark.parametrize("strategy", SERVED, ids=lambda strategy: strategy.entry.name)
def test_a_newcomer_begins_when_both_have_given_all_in_whatever_order(strategy: Strategy) -> None:
    first, last = newcomer_of(strategy, WITH_STATE), newcomer_of(strategy, WITH_STATE)
    params, state, words = given(SERVER, 7), given(0, 7, 1), handed(0, step=7)
    assert tell(first, params, state, words)[-1] == Compute(7)
    assert tell(last, state)[0] == Combine(P1, 0.0, IN1)
    assert Compute(7) not in tell(last, words)
    assert tell(last, params)[-1] == Compute(7)

"""All workers write one replica."""

import pytest

from weft.core.actions import Apply, Compute
from weft.core.errors import ConfigError
from weft.core.events import Started, StepFinished
from weft.strategies import Hogwild
from weft.testing.peers import G0, P0, peer_of, tell


def test_a_worker_applies_its_own_gradient_and_goes_on() -> None:
    peer = peer_of(Hogwild())
    assert tell(peer, Started(0), StepFinished(0, 4.0, None)) == [Apply(G0, P0), Compute(1)]
    assert tell(peer, StepFinished(1, 0.0, None)) == [Compute(2)]


def test_it_is_for_one_host() -> None:
    Hogwild().check(4)
    with pytest.raises(ConfigError) as refused:
        Hogwild().check(4, num_hosts=2)
    assert str(refused.value) == (
        "'hogwild' writes one replica that all workers share, but 4 workers would be spread over 2 hosts, or talk by "
        "sockets.\n  Use 'async_gossip' or 'downpour' there, or workers of one host that share memory."
    )

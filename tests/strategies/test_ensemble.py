"""Independent replicas: events in, actions out."""

from weft.core.actions import Apply, Compute
from weft.core.events import EpochFinished, GradientReady, MembersChanged, Started, StepFinished
from weft.core.names import Result
from weft.strategies import Ensemble
from weft.testing.peers import G0, G1, P0, P1, TWO, is_plain, peer_of, received, refusal, tell


def test_a_worker_applies_its_own_gradient_and_goes_on() -> None:
    peer = peer_of(Ensemble(), buckets=TWO)
    assert tell(peer, Started(0)) == [Compute(0)]
    assert tell(peer, GradientReady(0, 0, 2.0), GradientReady(0, 1, 2.0)) == []
    assert tell(peer, StepFinished(0, 2.0, 0.5)) == [Apply(G0, P0), Apply(G1, P1), Compute(1)]
    assert peer.waiting_for() == "the user's iteration"
    assert is_plain(peer)


def test_a_gradient_of_no_samples_is_not_applied() -> None:
    assert tell(peer_of(Ensemble()), Started(0), StepFinished(0, 0.0, None)) == [Compute(1)]


def test_nobody_is_told_anything_and_nobody_is_waited_for() -> None:
    peer = peer_of(Ensemble())
    assert tell(peer, Started(0), EpochFinished(0, {"loss": 1.0})) == []
    assert tell(peer, MembersChanged(1, (0, 2), "lost worker 1")) == []
    assert not peer.holds_user
    assert Ensemble().kinds() == {}
    assert "which EnsemblePeer does not expect now" in refusal(peer, received(1, "gradient"))


def test_all_members_are_the_result_and_optimizers_may_use_closures() -> None:
    strategy = Ensemble()
    assert strategy.result is Result.ENSEMBLE
    assert strategy.allows_closures
    assert not strategy.keeps_step
    assert not strategy.keeps_replicas_equal

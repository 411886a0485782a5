"""Local SGD: facts to commands."""

import pytest

from weft.core.actions import MEAN, Apply, Compute, Reduce
from weft.core.errors import ConfigError
from weft.core.events import MembersChanged, Reduced, Started, StepFinished
from weft.core.names import Carries, Result
from weft.strategies import LocalSGD
from weft.testing.peers import G0, G1, P0, P1, TWO, WITH_STATE, is_plain, peer_of, received, refusal, tell

EVERYONE = (0, 1, 2)


def test_a_worker_computes_at_once() -> None:
    assert tell(peer_of(LocalSGD()), Started(0)) == [Compute(0)]


def test_between_averages_a_worker_trains_alone() -> None:
    peer = peer_of(LocalSGD(period=2))
    assert tell(peer, StepFinished(0, 4.0, None)) == [Apply(G0, P0), Compute(1)]


def test_every_period_the_parameters_are_averaged_by_the_samples_since_the_last_average() -> None:
    peer = peer_of(LocalSGD(period=2), buckets=TWO)
    tell(peer, StepFinished(0, 4.0, None))
    assert tell(peer, StepFinished(1, 3.0, None)) == [
        Apply(G0, P0),
        Apply(G1, P1),
        Reduce(EVERYONE, "average", 1, P0, MEAN, 7.0),
        Reduce(EVERYONE, "average", 1, P1, MEAN, 7.0),
    ]
    tell(peer, Reduced(1, P0, 9.0), Reduced(1, P1, 9.0), StepFinished(2, 1.0, None))
    assert tell(peer, StepFinished(3, 1.0, None))[-1] == Reduce(EVERYONE, "average", 3, P1, MEAN, 2.0)


def test_the_next_step_waits_for_every_bucket() -> None:
    peer = peer_of(LocalSGD(period=1), buckets=TWO)
    assert peer.waiting_for() == "the user's iteration"
    tell(peer, StepFinished(0, 1.0, None))
    assert peer.waiting_for() == "the average of the parameters after step 0 (2 buckets to go)"
    assert tell(peer, Reduced(0, P1, 3.0)) == []
    assert tell(peer, Reduced(0, P0, 3.0)) == [Compute(1)]


def test_state_is_averaged_and_never_applied() -> None:
    peer = peer_of(LocalSGD(period=1), buckets=WITH_STATE)
    assert tell(peer, StepFinished(0, 1.0, None)) == [
        Apply(G0, P0),
        Reduce(EVERYONE, "average", 0, P0, MEAN, 1.0),
        Reduce(EVERYONE, "average", 0, P1, MEAN, 1.0),
    ]


def test_when_a_worker_leaves_the_average_is_asked_for_again_without_it() -> None:
    peer = peer_of(LocalSGD(period=2), buckets=TWO)
    tell(peer, StepFinished(0, 4.0, None), StepFinished(1, 3.0, None), Reduced(1, P0, 21.0))
    assert tell(peer, MembersChanged(1, (0, 2), "lost worker 1")) == [Reduce((0, 2), "average", 1, P1, MEAN, 7.0)]
    assert peer.waiting_for() == "the average of the parameters after step 1 (1 buckets to go)"
    assert tell(peer, Reduced(1, P1, 14.0)) == [Compute(2)]


def test_a_worker_that_has_left_is_not_waited_for_in_the_next_average() -> None:
    peer = peer_of(LocalSGD(period=2))
    tell(peer, StepFinished(0, 4.0, None))
    assert tell(peer, MembersChanged(1, (0, 1), "finished worker 2")) == []
    assert tell(peer, StepFinished(1, 4.0, None))[-1] == Reduce((0, 1), "average", 1, P0, MEAN, 8.0)


def test_messages_are_refused() -> None:
    assert refusal(peer_of(LocalSGD()), received(2, "average")) == (
        "worker 0 received 'average' (clock 0, bucket 0) from worker 2, which PeriodicAveragePeer does not expect now."
    )


def test_the_snapshot_is_plain() -> None:
    peer = peer_of(LocalSGD(period=2))
    tell(peer, StepFinished(0, 4.0, None))
    assert peer.snapshot() == {"step": 1, "samples": 4.0}
    assert is_plain(peer)


def test_a_period_of_no_steps_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        LocalSGD(period=0)
    assert str(caught.value) == (
        "period is 0, but workers average after a whole number of steps.\n"
        "  Use 'local_sgd(period=1)' to average after every step."
    )


def test_it_reduces_state_and_the_mean_is_the_result() -> None:
    assert LocalSGD().kinds() == {"average": Carries.STATE}
    assert LocalSGD().result is Result.MEAN

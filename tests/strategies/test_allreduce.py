"""Synchronous SGD: facts to commands."""

from weft.core.actions import MEAN, Apply, Compute, Reduce
from weft.core.events import GradientReady, MembersChanged, Reduced, Started, StepFinished
from weft.core.names import Buffer, Carries, Result
from weft.strategies import AllReduce
from weft.testing.peers import G0, G1, P0, P1, TWO, WITH_STATE, is_plain, peer_of, received, refusal, tell

EVERYONE = (0, 1, 2)


def test_a_worker_computes_at_once() -> None:
    assert tell(peer_of(AllReduce()), Started(0)) == [Compute(0)]


def test_a_gradient_is_reduced_as_backward_fills_it_and_weighs_its_samples() -> None:
    peer = peer_of(AllReduce(), me=1, buckets=TWO)
    assert tell(peer, GradientReady(5, 1, 7.0)) == [Reduce(EVERYONE, "gradient", 0, G1, MEAN, 7.0)]
    assert tell(peer, GradientReady(5, 0, 7.0)) == [Reduce(EVERYONE, "gradient", 0, G0, MEAN, 7.0)]


def test_a_second_backward_of_the_same_step_is_a_reduction_of_its_own() -> None:
    peer = peer_of(AllReduce())
    assert [tell(peer, GradientReady(0, 0, 1.0))[0].clock for _ in range(3)] == [0, 1, 2]


def test_buckets_that_are_not_trained_are_averaged_with_the_last_gradient() -> None:
    peer = peer_of(AllReduce(), buckets=WITH_STATE)
    for step in (0, 1):
        assert tell(peer, GradientReady(step, 0, 2.0)) == [
            Reduce(EVERYONE, "gradient", step, G0, MEAN, 2.0),
            Reduce(EVERYONE, "state", step, P1, MEAN, 2.0),
        ]


def test_the_step_applies_every_trained_bucket_and_computes_the_next() -> None:
    peer = peer_of(AllReduce(), buckets=TWO)
    assert tell(peer, StepFinished(0, 2.0, 0.5)) == [Apply(G0, P0), Apply(G1, P1), Compute(1)]


def test_state_is_never_applied() -> None:
    assert tell(peer_of(AllReduce(), buckets=WITH_STATE), StepFinished(3, 2.0, None)) == [Apply(G0, P0), Compute(4)]


def test_backward_is_held_until_every_bucket_is_reduced() -> None:
    peer = peer_of(AllReduce(), buckets=TWO)
    tell(peer, GradientReady(0, 0, 1.0), GradientReady(0, 1, 1.0), Reduced(0, G0, 3.0))
    assert peer.holds_user
    assert peer.waiting_for() == "the reduction of gradient[1] at step 0"
    assert tell(peer, Reduced(0, G1, 3.0)) == []
    assert not peer.holds_user
    assert peer.waiting_for() == "the user's iteration"


def test_a_gradient_that_nobody_has_samples_for_is_not_applied() -> None:
    peer = peer_of(AllReduce(), buckets=TWO)
    tell(peer, GradientReady(0, 0, 0.0), GradientReady(0, 1, 0.0), Reduced(0, G0, 0.0), Reduced(0, G1, 2.0))
    assert tell(peer, StepFinished(0, 0.0, None)) == [Apply(G1, P1), Compute(1)]
    tell(peer, GradientReady(1, 0, 2.0), GradientReady(1, 1, 2.0), Reduced(1, G0, 2.0), Reduced(1, G1, 2.0))
    assert tell(peer, StepFinished(1, 2.0, None)) == [Apply(G0, P0), Apply(G1, P1), Compute(2)]


def test_when_a_worker_leaves_what_was_not_reduced_is_reduced_again_without_it_and_backward_goes_on_waiting() -> None:
    peer = peer_of(AllReduce(), buckets=(*TWO, WITH_STATE[1]))
    tell(peer, GradientReady(0, 0, 7.0), GradientReady(0, 1, 7.0), Reduced(0, G0, 9.0))
    state = Buffer("params", 2)
    assert tell(peer, MembersChanged(1, (0, 2), "lost worker 1")) == [
        Reduce((0, 2), "gradient", 0, G1, MEAN, 7.0),
        Reduce((0, 2), "state", 0, state, MEAN, 7.0),
    ]
    assert peer.holds_user
    assert tell(peer, MembersChanged(2, (0,), "finished worker 2")) == [
        Reduce((0,), "gradient", 0, G1, MEAN, 7.0),
        Reduce((0,), "state", 0, state, MEAN, 7.0),
    ]
    tell(peer, Reduced(0, G1, 7.0), Reduced(0, state, 7.0))
    assert not peer.holds_user
    assert tell(peer, StepFinished(0, 7.0, None)) == [Apply(G0, P0), Apply(G1, P1), Compute(1)]


def test_a_worker_that_leaves_while_nothing_is_reduced_is_not_waited_for_in_the_next_step() -> None:
    peer = peer_of(AllReduce())
    tell(peer, GradientReady(0, 0, 2.0), Reduced(0, G0, 6.0))
    assert tell(peer, MembersChanged(1, (0, 1), "finished worker 2")) == []
    assert tell(peer, StepFinished(0, 2.0, None)) == [Apply(G0, P0), Compute(1)]
    assert tell(peer, GradientReady(1, 0, 2.0)) == [Reduce((0, 1), "gradient", 1, G0, MEAN, 2.0)]


def test_messages_are_refused() -> None:
    assert refusal(peer_of(AllReduce()), received(1, "gradient", clock=4)) == (
        "worker 0 received 'gradient' (clock 4, bucket 0) from worker 1, which AllReducePeer does not expect now."
    )


def test_the_snapshot_is_plain() -> None:
    peer = peer_of(AllReduce(), buckets=TWO)
    tell(peer, StepFinished(0, 1.0, None), GradientReady(1, 0, 1.0))
    assert peer.snapshot() == {"step": 1, "buckets_ready": 1, "round": 0, "empty": []}
    assert is_plain(peer)


def test_it_reduces_gradients_and_state_and_all_replicas_are_the_result() -> None:
    assert AllReduce().kinds() == {"gradient": Carries.GRADIENT, "state": Carries.STATE}
    assert AllReduce().result is Result.REPLICA

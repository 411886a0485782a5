"""An outer optimizer on the averaged parameter change: facts to commands."""

from dataclasses import dataclass

import pytest

from weft.core.actions import MEAN, Apply, Combine, Compute, Reduce
from weft.core.errors import ConfigError
from weft.core.events import MembersChanged, Reduced, Started, StepFinished
from weft.core.names import Buffer, Carries, Result, Role, Roles, Slot
from weft.core.rules import Momentum
from weft.core.world import World
from weft.strategies.parts.outer_optimizer import OuterStrategy, check_momentum, check_rate
from weft.testing.peers import G0, G1, ONE, P0, P1, TWO, WITH_STATE, is_plain, peer_of, received, refusal, tell

EVERYONE = (0, 1, 2)
WORLD = World(Roles(3), ONE)
S0, S1 = Buffer("outer.start", 0), Buffer("outer.start", 1)
D0, D1 = Buffer("outer.delta", 0), Buffer("outer.delta", 1)


@dataclass(frozen=True)
class Halves(OuterStrategy):
    """Goes half of the way."""

    period: int = 2

    def rule(self, world: World) -> Momentum:
        return Momentum(0.5, 0.0)


def test_a_worker_remembers_where_it_sets_out() -> None:
    assert tell(peer_of(Halves(), buckets=TWO), Started(0)) == [Combine(S0, 0.0, P0), Combine(S1, 0.0, P1), Compute(0)]


def test_between_averages_a_worker_trains_alone() -> None:
    assert tell(peer_of(Halves()), StepFinished(0, 4.0, None)) == [Apply(G0, P0), Compute(1)]


def test_every_period_the_change_is_averaged_by_the_samples_since_the_last_average() -> None:
    peer = peer_of(Halves(), buckets=TWO)
    tell(peer, StepFinished(0, 4.0, None))
    assert tell(peer, StepFinished(1, 3.0, None)) == [
        Apply(G0, P0),
        Apply(G1, P1),
        Combine(D0, 0.0, S0),
        Combine(D0, 1.0, P0, -1.0),
        Reduce(EVERYONE, "delta", 1, D0, MEAN, 7.0),
        Combine(D1, 0.0, S1),
        Combine(D1, 1.0, P1, -1.0),
        Reduce(EVERYONE, "delta", 1, D1, MEAN, 7.0),
    ]
    tell(peer, Reduced(1, D0, 9.0), Reduced(1, D1, 9.0), StepFinished(2, 1.0, None))
    assert tell(peer, StepFinished(3, 1.0, None))[-1] == Reduce(EVERYONE, "delta", 3, D1, MEAN, 2.0)


def test_the_outer_rule_moves_the_start_and_the_parameters_become_it() -> None:
    peer = peer_of(Halves(period=1), buckets=TWO)
    tell(peer, StepFinished(0, 1.0, None))
    assert peer.waiting_for() == "the average of the parameters after step 0 (2 buckets to go)"
    assert tell(peer, Reduced(0, D1, 3.0)) == [Apply(D1, S1, "outer"), Combine(P1, 0.0, S1)]
    assert tell(peer, Reduced(0, D0, 3.0)) == [Apply(D0, S0, "outer"), Combine(P0, 0.0, S0), Compute(1)]


def test_a_round_of_no_samples_changes_nothing() -> None:
    peer = peer_of(Halves(period=1))
    assert tell(peer, StepFinished(0, 0.0, None))[-1] == Reduce(EVERYONE, "delta", 0, D0, MEAN, 0.0)
    assert tell(peer, Reduced(0, D0, 0.0)) == [Compute(1)]


def test_buckets_that_are_not_trained_become_their_mean() -> None:
    peer = peer_of(Halves(period=1), buckets=WITH_STATE)
    assert tell(peer, Started(0)) == [Combine(S0, 0.0, P0), Compute(0)]
    assert tell(peer, StepFinished(0, 2.0, None)) == [
        Apply(G0, P0),
        Combine(D0, 0.0, S0),
        Combine(D0, 1.0, P0, -1.0),
        Reduce(EVERYONE, "delta", 0, D0, MEAN, 2.0),
        Reduce(EVERYONE, "average", 0, P1, MEAN, 2.0),
    ]
    assert tell(peer, Reduced(0, P1, 6.0)) == []


def test_when_a_worker_leaves_the_changes_not_yet_averaged_are_averaged_without_it() -> None:
    peer = peer_of(Halves(period=1), buckets=TWO)
    tell(peer, StepFinished(0, 5.0, None), Reduced(0, D0, 15.0))
    assert tell(peer, MembersChanged(1, (0, 2), "lost worker 1")) == [Reduce((0, 2), "delta", 0, D1, MEAN, 5.0)]
    assert tell(peer, Reduced(0, D1, 10.0)) == [Apply(D1, S1, "outer"), Combine(P1, 0.0, S1), Compute(1)]


def test_a_worker_that_has_left_is_not_waited_for_in_the_next_average() -> None:
    peer = peer_of(Halves(period=1))
    assert tell(peer, MembersChanged(1, (0, 1), "finished worker 2")) == []
    assert tell(peer, StepFinished(0, 1.0, None))[-1] == Reduce((0, 1), "delta", 0, D0, MEAN, 1.0)


def test_messages_are_refused() -> None:
    assert refusal(peer_of(Halves()), received(2, "delta")) == (
        "worker 0 received 'delta' (clock 0, bucket 0) from worker 2, which OuterPeer does not expect now."
    )


def test_the_snapshot_is_plain() -> None:
    peer = peer_of(Halves())
    tell(peer, StepFinished(0, 4.0, None))
    assert peer.snapshot() == {"step": 1, "samples": 4.0}
    assert is_plain(peer)


def test_it_declares_its_memory_and_its_rule_and_the_mean_is_the_result() -> None:
    assert Halves().slots(Role.WORKER, WORLD) == (Slot("outer.start"), Slot("outer.delta"))
    assert Halves().kinds() == {"delta": Carries.DELTA, "average": Carries.STATE}
    assert Halves().rules(WORLD) == {"outer": Momentum(0.5, 0.0)}
    assert Halves().result is Result.MEAN
    with pytest.raises(NotImplementedError):
        OuterStrategy().rules(WORLD)


@pytest.mark.parametrize("momentum", [-0.1, 1.0, float("nan")])
def test_a_momentum_that_never_fades_is_refused(momentum: float) -> None:
    check_momentum("slowmo", "beta", 0.0)
    with pytest.raises(ConfigError) as caught:
        check_momentum("slowmo", "beta", momentum)
    assert str(caught.value) == (
        f"beta is {momentum}, but it is at least 0 and below 1: the part of the last change that is made again.\n"
        "  Use 'slowmo(beta=0.5)', or 'slowmo(beta=0)' for none."
    )


@pytest.mark.parametrize("rate", [0.0, -1.0, float("inf"), float("nan")])
def test_a_rate_that_goes_nowhere_is_refused(rate: float) -> None:
    check_rate("diloco", "lr", 1e-9)
    with pytest.raises(ConfigError) as caught:
        check_rate("diloco", "lr", rate)
    assert str(caught.value) == (
        f"lr is {rate}, but the average is taken in steps above 0.\n"
        "  Use 'diloco(lr=1)' for a step as long as the workers' mean change."
    )

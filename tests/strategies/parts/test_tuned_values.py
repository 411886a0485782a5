"""What a peer may do with the hyper-parameters of its worker."""

from random import Random

from weft.core.actions import Combine
from weft.core.names import Bucket, Buffer, Part, Roles
from weft.core.world import World
from weft.strategies.parts.tuned_values import TunedValues

TUNED = TunedValues(World(Roles(2), (Bucket(4), Bucket(3, 8, trainable=False, tuned=True))))


def test_values_are_named_one_by_one_in_any_slot() -> None:
    assert (TUNED.bucket, TUNED.num_values) == (1, 3)
    assert TUNED.whole() == Buffer("params", 1)
    assert TUNED.whole("mine") == Buffer("mine", 1)
    assert [TUNED.value(which) for which in range(3)] == [Buffer("params", 1, Part(which, 3)) for which in range(3)]
    assert [Part(which, 3).bounds(3) for which in range(3)] == [(0, 1), (1, 2), (2, 3)]


def test_scattered_values_are_multiplied_by_factors_of_their_own_up_to_the_spread() -> None:
    rng = Random(0)
    rounds = [TUNED.scatter(4.0, rng) for _ in range(200)]
    assert all([action.into for action in actions] == [TUNED.value(i) for i in range(3)] for actions in rounds)
    factors = [action.keep for actions in rounds for action in actions]
    assert 0.25 <= min(factors) < 0.3
    assert 3.5 < max(factors) <= 4.0
    assert 0.4 < sum(factor < 1 for factor in factors) / len(factors) < 0.6


def test_a_perturbed_value_becomes_a_share_smaller_or_larger() -> None:
    rng = Random(0)
    drawn = [TUNED.perturb(1, 0.25, rng) for _ in range(50)]
    less, more = Combine(TUNED.value(1), 0.75), Combine(TUNED.value(1), 1.25)
    assert all(action in (less, more) for action in drawn)
    assert less in drawn
    assert more in drawn

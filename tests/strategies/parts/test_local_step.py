"""A local step: facts to commands."""

from weft.core.actions import Apply
from weft.core.names import Roles
from weft.core.world import World
from weft.strategies.parts.local_step import apply_gradient
from weft.testing.peers import G0, G1, P0, P1, TWO, WITH_STATE


def test_every_trained_bucket_is_applied_to_its_own_parameters() -> None:
    assert apply_gradient(World(Roles(3), TWO), 4.0) == [Apply(G0, P0), Apply(G1, P1)]


def test_what_is_not_trained_is_not_applied() -> None:
    assert apply_gradient(World(Roles(3), WITH_STATE)) == [Apply(G0, P0)]


def test_a_gradient_of_no_samples_counts_for_nothing() -> None:
    assert apply_gradient(World(Roles(3), TWO), 0.0) == []

"""A periodic average: facts to commands."""

from random import Random

from weft.core.actions import Apply, Compute, add
from weft.core.events import Reduced, StepFinished
from weft.core.names import Roles
from weft.core.peer import Actions
from weft.core.world import World
from weft.strategies.parts.periodic_average import PeriodicAveragePeer
from weft.testing.peers import G0, ONE, P0, tell


class HalfWay(PeriodicAveragePeer):
    """A method that does something with the average."""

    def take(self, event: Reduced) -> Actions:
        return [add(P0, G0, 0.5)]


def peer(kind: type[PeriodicAveragePeer], period: int) -> PeriodicAveragePeer:
    return kind(period, 0, World(Roles(3), ONE), Random(0))


def test_the_average_begins_every_period_and_the_step_after_it_waits() -> None:
    one = peer(PeriodicAveragePeer, 2)
    assert tell(one, StepFinished(0, 4.0, None)) == [Apply(G0, P0), Compute(1)]
    assert tell(one, StepFinished(1, 4.0, None)) == [Apply(G0, P0), *one.average(1)]
    assert one.waiting_for() == "the average of the parameters after step 1 (1 buckets to go)"


def test_what_a_method_does_with_an_average_comes_before_the_next_step() -> None:
    one = peer(HalfWay, 1)
    tell(one, StepFinished(0, 4.0, None))
    assert tell(one, Reduced(0, P0, 12.0)) == [add(P0, G0, 0.5), Compute(1)]
    assert one.samples == 0.0

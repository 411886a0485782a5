"""What a peer may do with the hyper-parameters of its worker: name them one by one, and multiply them."""

from random import Random

from weft.core.actions import Combine, rescale
from weft.core.names import PARAMS, Buffer, Part
from weft.core.peer import Actions
from weft.core.world import World


class TunedValues:
    """The bucket of tuned values, which every slot has."""

    def __init__(self, world: World) -> None:
        assert world.tuned is not None
        self.bucket = world.tuned
        self.num_values = world.buckets[world.tuned].num_elements

    def whole(self, slot: str = PARAMS) -> Buffer:
        return Buffer(slot, self.bucket)

    def value(self, which: int, slot: str = PARAMS) -> Buffer:
        """One of them."""
        return Buffer(slot, self.bucket, Part(which, self.num_values))

    def scatter(self, spread: float, rng: Random) -> Actions:
        """Multiply each by a random factor from 1 / spread to spread."""
        return [rescale(self.value(which), spread ** rng.uniform(-1.0, 1.0)) for which in range(self.num_values)]

    def perturb(self, which: int, share: float, rng: Random) -> Combine:
        """Multiply one by 1 - share or 1 + share."""
        return rescale(self.value(which), rng.choice((1.0 - share, 1.0 + share)))

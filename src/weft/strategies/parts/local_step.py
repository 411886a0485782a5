"""A local step: a worker applies its own gradient to its own parameters."""

from weft.core.actions import Apply
from weft.core.peer import Actions
from weft.core.world import World


def apply_gradient(world: World, samples: float = 1.0) -> Actions:
    """Apply the worker's own gradient to its own parameters; a gradient of no samples counts for nothing."""
    return [Apply(world.gradient[b], world.params[b]) for b in world.trainable] if samples else []

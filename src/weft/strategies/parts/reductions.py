"""What strategies that reduce do alike: when members change, what was under way is asked for again."""

from random import Random

from weft.core.actions import MEAN, Reduce
from weft.core.errors import ConfigError
from weft.core.events import MembersChanged, Reduced
from weft.core.invariants import Codecs, Invariant, holds
from weft.core.names import Buffer, NodeId
from weft.core.peer import Actions, Peer
from weft.core.world import World


def check_period(strategy: str, period: int) -> None:
    """Refuse a period that is not a number of steps."""
    if period < 1:
        raise ConfigError(
            f"period is {period}, but workers average after a whole number of steps.\n"
            f"  Use '{strategy}(period=1)' to average after every step."
        )


def average_invariants(
    period: int, rate: float = 1.0, momentum: float = 0.0, is_ahead: bool = False
) -> tuple[Invariant, ...]:
    """Replicas are equal when they have been averaged, by samples, every `period` steps.

    They then have what an outer rule makes of the mean change: one of this rate and momentum, Nesterov's if
    `is_ahead`. Without these it is the mean itself.
    """
    return (
        holds("conservation.ground_is_kept", Codecs.EXACT),
        holds("equality.replicas_are_equal", Codecs.ANY, period=period),
        holds("averages.rounds_count_by_samples", period=period, rate=rate, momentum=momentum, is_ahead=is_ahead),
    )


class ReducingPeer(Peer):
    """Remembers its reductions until they end. One that a change of members overtook never happened (rule 12 of
    docs/architecture.md): it begins again, with the same contribution, among the workers of the new view."""

    def __init__(self, me: NodeId, world: World, rng: Random) -> None:
        super().__init__(me, world, rng)
        self._under_way: dict[Buffer, Reduce] = {}

    @property
    def unreduced(self) -> int:
        """How many reductions are under way."""
        return len(self._under_way)

    def reduce(self, kind: str, clock: int, buffer: Buffer, weight: float) -> Reduce:
        """The weighted mean over the workers of this view."""
        action = self._under_way[buffer] = Reduce(self.workers, kind, clock, buffer, MEAN, weight)
        return action

    def on_reduced(self, event: Reduced) -> Actions:
        del self._under_way[event.buffer]
        return []

    def on_members_changed(self, event: MembersChanged) -> Actions:
        return [self.reduce(old.kind, old.clock, old.buffer, old.weight) for old in tuple(self._under_way.values())]
